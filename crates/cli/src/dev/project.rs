//! Which file says what the functions of a project are, and what it says.

use crate::{
    arguments::Dev,
    dev::{definition::Definition, manifest, node::Trouble, template, toml, yaml},
};
use anyhow::{Context as _, bail};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files that are looked for, in this order.
const NAMES: [&str; 4] = [
    "template.yaml",
    "template.yml",
    "template.json",
    "outlast.toml",
];
/// A larger file is none that anybody wrote.
const BYTES_MAX: u64 = 8 * 1_024 * 1_024;

/// The file of a project.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) file: PathBuf,
    /// The folder it lies in.
    pub(crate) folder: PathBuf,
    parameters: Vec<(String, String)>,
}

impl Project {
    /// The project that is meant.
    pub(crate) fn find(dev: &Dev) -> anyhow::Result<Self> {
        let file = match &dev.template {
            Some(file) => file.clone(),
            None => {
                let places = NAMES.map(|name| dev.folder.join(name));
                let Some(found) = places.into_iter().find(|place| place.is_file()) else {
                    bail!(
                        "{} has no template.yaml and no outlast.toml: go to the folder of a project, \
                         or give the file with --template FILE",
                        dev.folder.display()
                    );
                };
                found
            }
        };
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        let folder = fs::canonicalize(match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => &folder,
        })
        .with_context(|| format!("{} is in no folder that can be read", file.display()))?;
        Ok(Self {
            file,
            folder,
            parameters: dev.parameters.clone(),
        })
    }

    /// Its functions.
    pub(crate) fn read(&self) -> anyhow::Result<Vec<Definition>> {
        let shown = self.file.display();
        let unreadable = || format!("{shown} cannot be read");
        let about = fs::metadata(&self.file).with_context(unreadable)?;
        if about.len() > BYTES_MAX {
            bail!("{shown} has more than {BYTES_MAX} bytes: is it the right file?");
        }
        let text = fs::read_to_string(&self.file).with_context(unreadable)?;
        let definitions = self.parse(&text);
        let definitions = definitions.map_err(|trouble| trouble.told_of(&self.file))?;
        if definitions.is_empty() {
            bail!(
                "{shown} defines no functions: add one of the type AWS::Serverless::Function, or \
                 give another file with --template FILE"
            );
        }
        Ok(definitions)
    }

    fn parse(&self, text: &str) -> Result<Vec<Definition>, Trouble> {
        if self.file.extension().is_some_and(|ending| ending == "toml") {
            manifest::read(&toml::read(text)?, &self.folder)
        } else {
            template::read(&yaml::read(text)?, &self.folder, &self.parameters)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(folder: &Path) -> Dev {
        Dev {
            log: crate::arguments::LogLevel::Off,
            folder: folder.to_owned(),
            template: None,
            parameters: Vec::new(),
            listen: ([127, 0, 0, 1], 0).into(),
            data: None,
            workers: 1,
        }
    }

    #[test]
    fn the_file_is_found_and_mistakes_name_it_and_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let error = Project::find(&dev(at)).unwrap_err().to_string();
        assert!(error.contains("--template FILE"), "{error}");
        fs::write(
            at.join("outlast.toml"),
            "[functions.a]\ncommand = [\"sh\"]\n",
        )
        .unwrap();
        let project = Project::find(&dev(at)).unwrap();
        assert_eq!(project.read().unwrap().len(), 1);
        fs::write(at.join("template.yaml"), "Resources:\n  A: [\n").unwrap();
        let project = Project::find(&dev(at)).unwrap();
        let error = project.read().unwrap_err().to_string();
        assert!(
            error.contains("template.yaml:2: this is not YAML"),
            "{error}"
        );
        fs::write(at.join("template.yaml"), "Resources: {}\n").unwrap();
        let error = project.read().unwrap_err().to_string();
        assert!(error.contains("defines no functions"), "{error}");
    }
}
