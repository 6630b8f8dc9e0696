//! Runs every official conformance requirement on the test kit and judges it.
//!
//! The requirements are read from the folder that `OUTLAST_REQUIREMENTS` names, or from
//! `../shared/conformance/requirements` beside the workspace. They are not part of this repository:
//! where the folder is missing there is nothing to run.

mod payload;
mod scenario;

use outlast::BoxError;
use outlast_conformance::{Crash, Records, Requirement};
use scenario::Scenario;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The suites that handlers are written for, by the names of their folders.
const SUITES: [&str; 10] = [
    "step",
    "wait",
    "child",
    "callback",
    "invoke",
    "wait_for_condition",
    "wait_for_callback",
    "parallel",
    "map",
    "plugin",
];

/// Real time after which a requirement counts as hanging; all of them together take seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every requirement of the suites, in the order of their numbers; nothing where they are not at
/// hand.
#[expect(clippy::print_stdout, reason = "a test that ran nothing says so")]
fn scenarios() -> Result<Vec<Scenario>, BoxError> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance/requirements");
    let folder = std::env::var_os("OUTLAST_REQUIREMENTS").map_or(beside, PathBuf::from);
    let mut scenarios = Vec::new();
    if !folder.is_dir() {
        println!("no requirements at {}: nothing to run", folder.display());
        return Ok(scenarios);
    }
    for suite in SUITES {
        for file in fs::read_dir(folder.join(suite))? {
            let path = file?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let id = path.file_stem().unwrap_or_default().to_string_lossy();
                scenarios.push(Scenario::read(&id, &fs::read_to_string(&path)?)?);
            }
        }
    }
    scenarios.sort_by_key(Scenario::order);
    assert!(
        !scenarios.is_empty(),
        "no requirements in {}",
        folder.display()
    );
    Ok(scenarios)
}

/// Tries every scenario on its handler; panics with everything that went wrong.
#[expect(clippy::print_stdout, reason = "the count is the result")]
async fn check(
    scenarios: &[Scenario],
    done: &str,
    test: impl AsyncFn(&Scenario, &Requirement) -> Result<(), BoxError>,
) {
    let crash = Crash::new(outlast::testing::crash);
    let handlers: BTreeMap<String, Requirement> =
        outlast_conformance::all(&crash, &Records::new(|_| ()))
            .into_iter()
            .map(|requirement| (requirement.id.clone(), requirement))
            .collect();
    let mut failed = Vec::new();
    for scenario in scenarios {
        let id = &*scenario.id;
        let outcome = match handlers.get(id) {
            Some(requirement) => tokio::time::timeout(PATIENCE, test(scenario, requirement)).await,
            None => Ok(Err("there is no handler".into())),
        };
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => failed.push(format!("{id}: {problem}")),
            Err(_) => failed.push(format!("{id}: still runs after {PATIENCE:?}")),
        }
    }
    println!("{} requirements {done}", scenarios.len() - failed.len());
    assert!(
        failed.is_empty(),
        "{} of {} failed\n\n{}",
        failed.len(),
        scenarios.len(),
        failed.join("\n\n")
    );
}

#[tokio::test]
async fn every_requirement_is_met() {
    check(&scenarios().unwrap(), "passed", Scenario::judge).await;
}

#[tokio::test]
async fn a_crash_at_any_checkpoint_changes_no_outcome() {
    let mut scenarios = scenarios().unwrap();
    // Those that crash on their own have their crash where the requirement wants it.
    let all = outlast_conformance::all(&Crash::exit(), &Records::new(|_| ()));
    let on_their_own: BTreeSet<&str> = all
        .iter()
        .filter(|requirement| requirement.loses_process)
        .map(|requirement| &*requirement.id)
        .collect();
    scenarios.retain(|scenario| !on_their_own.contains(&*scenario.id));
    check(
        &scenarios,
        "survived every crash",
        Scenario::crash_everywhere,
    )
    .await;
}

#[test]
fn every_handler_has_an_id_of_its_own() {
    let all = outlast_conformance::all(&Crash::exit(), &Records::stdout());
    let ids: BTreeSet<&str> = all.iter().map(|requirement| &*requirement.id).collect();
    assert_eq!(ids.len(), all.len());
}
