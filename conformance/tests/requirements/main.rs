//! Runs every official conformance requirement on the test kit and judges it.
//!
//! The requirements are read from the folder that `OUTLAST_REQUIREMENTS` names, or from
//! `../shared/conformance/requirements` beside the workspace. They are not part of this repository:
//! where the folder is missing there is nothing to run.

mod logs;
mod payload;
mod scenario;

use outlast_conformance::{Crash, Requirement};
use scenario::Scenario;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The suites that handlers are written for, by the names of their folders.
const SUITES: [&str; 9] = [
    "step",
    "wait",
    "child",
    "callback",
    "invoke",
    "wait_for_condition",
    "wait_for_callback",
    "parallel",
    "map",
];

/// Real time after which a requirement counts as hanging; all of them together take seconds.
const PATIENCE: Duration = Duration::from_secs(30);

fn folder() -> PathBuf {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance/requirements");
    std::env::var_os("OUTLAST_REQUIREMENTS").map_or(beside, PathBuf::from)
}

/// Every requirement of the suites, in the order of their numbers.
fn scenarios(folder: &Path) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for suite in SUITES {
        let suite = folder.join(suite);
        let files =
            fs::read_dir(&suite).unwrap_or_else(|error| panic!("{}: {error}", suite.display()));
        for file in files {
            let path = file.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let text = fs::read_to_string(&path).unwrap();
                let id = path.file_stem().unwrap().to_string_lossy();
                scenarios.push(
                    Scenario::read(&id, &text).unwrap_or_else(|error| panic!("{id}: {error}")),
                );
            }
        }
    }
    scenarios.sort_by_key(Scenario::order);
    scenarios
}

#[tokio::test]
async fn every_requirement_is_met() {
    let folder = folder();
    if !folder.is_dir() {
        println!("no requirements at {}: nothing to run", folder.display());
        return;
    }
    let logs = logs::capture();
    let crash = Crash::new(outlast::testing::crash);
    let handlers: BTreeMap<&str, Requirement> = outlast_conformance::all(&crash)
        .into_iter()
        .map(|requirement| (requirement.id, requirement))
        .collect();
    let scenarios = scenarios(&folder);
    let mut failed = Vec::new();
    for scenario in &scenarios {
        match handlers.get(scenario.id()) {
            Some(requirement) => {
                let judged =
                    tokio::time::timeout(PATIENCE, scenario.judge(requirement, &logs)).await;
                let hangs = || Err(format!("{}: still runs after {PATIENCE:?}", scenario.id()));
                failed.extend(judged.unwrap_or_else(|_| hangs()).err());
            }
            None => failed.push(format!("{}: there is no handler", scenario.id())),
        }
    }
    println!("{} requirements passed", scenarios.len() - failed.len());
    assert!(
        !scenarios.is_empty(),
        "no requirements in {}",
        folder.display()
    );
    assert!(
        failed.is_empty(),
        "{} of {} failed\n\n{}",
        failed.len(),
        scenarios.len(),
        failed.join("\n\n")
    );
}

#[test]
fn every_handler_has_an_id_of_its_own() {
    let all = outlast_conformance::all(&Crash::exit());
    let ids: std::collections::BTreeSet<&str> =
        all.iter().map(|requirement| requirement.id).collect();
    assert_eq!(ids.len(), all.len());
}
