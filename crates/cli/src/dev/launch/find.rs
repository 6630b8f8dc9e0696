//! Where programs and packages are.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The first of a program's name on the search path.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut places = env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}

/// The interpreter of a project: of its virtual environment, of the one that is active, or the
/// machine's.
pub(super) fn python(code: &Path, root: &Path) -> Option<PathBuf> {
    let mut environments: Vec<PathBuf> = [code, root]
        .iter()
        .flat_map(|folder| [folder.join(".venv"), folder.join("venv")])
        .collect();
    environments.extend(env::var_os("VIRTUAL_ENV").map(PathBuf::from));
    let inside = environments.iter().map(|folder| folder.join("bin/python"));
    let inside = inside.filter(|python| python.exists()).map(absolute).next();
    inside
        .or_else(|| on_path("python3"))
        .or_else(|| on_path("python"))
}

/// What lies in a folder or in one above it.
pub(super) fn upwards(from: &Path, what: &Path) -> Option<PathBuf> {
    let from = absolute(from.to_owned());
    let mut places = from.ancestors().map(|folder| folder.join(what));
    places.find(|place| place.exists())
}

/// Not resolved: what a link is called says which environment is meant.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
