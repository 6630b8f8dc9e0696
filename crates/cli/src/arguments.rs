//! What the program can be asked, and within which bounds. Nothing is done here.

use clap::{Args, Parser, Subcommand, builder::RangedU64ValueParser};
use std::{net::SocketAddr, path::PathBuf};

/// Clients at the same time, at most.
const CONCURRENCY_MAX: u64 = 65_536;
/// Steps of one execution, at most.
const STEPS_MAX: u64 = 1_000_000;
/// Executions made before or during a measurement, at most.
const EXECUTIONS_MAX: u64 = 100_000_000;
/// A measurement lasts a day at most.
const SECONDS_MAX: u64 = 86_400;
/// A timer that is measured lasts an hour at most.
const WAIT_SECONDS_MAX: u64 = 3_600;

/// Processes of one function, at most.
const WORKERS_MAX: u64 = 1_000;

/// Durable execution on your own machine.
#[derive(Debug, Parser)]
#[command(name = "outlast", version, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 all is well, 1 something is wrong, 2 wrong usage.")]
pub(crate) struct Arguments {
    /// Answer with exactly one line of JSON on stdout.
    #[arg(long, global = true, display_order = 1_000)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the embedded engine on this machine, beside what its disk can do.
    Bench(Bench),
    /// Run the functions of a SAM template or an outlast.toml on this machine, and serve them.
    Dev(Dev),
    /// Check a data folder that no engine has open.
    Doctor(Doctor),
    /// Serve the durable-execution API of AWS Lambda from a data folder.
    Serve(Serve),
}

/// How to measure.
#[derive(Debug, Args)]
#[command(
    subcommand_value_name = "WORKLOAD",
    subcommand_help_heading = "Workloads"
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) workload: Workload,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Executions of trivial steps, one after another.
    Sequential(Sequential),
    /// One execution whose steps run side by side, again and again.
    Fanout(Fanout),
    /// Executions that wait for hours: how fast they start, what each costs, how fast a restart is.
    Sleepers(Sleepers),
    /// A history of steps, then a timer: how late the code after it runs.
    Resume(Resume),
    /// Executions that do nothing.
    Start(Start),
}

/// `outlast bench sequential`
#[derive(Debug, Args)]
pub(crate) struct Sequential {
    /// Steps of each execution.
    #[arg(long, default_value_t = 10, value_parser = within::<u32>(1, STEPS_MAX))]
    pub(crate) steps: u32,
    /// Clients that each start an execution and wait for its end, again and again.
    #[arg(long, default_value_t = 64, value_parser = within::<u32>(1, CONCURRENCY_MAX))]
    pub(crate) concurrency: u32,
    /// How long to measure.
    #[arg(long, default_value_t = 10, value_parser = within::<u32>(1, SECONDS_MAX))]
    pub(crate) seconds: u32,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// `outlast bench fanout`
#[derive(Debug, Args)]
pub(crate) struct Fanout {
    /// Steps that run side by side.
    #[arg(long, default_value_t = 1_000, value_parser = within::<u32>(1, STEPS_MAX))]
    pub(crate) steps: u32,
    /// Each step in a branch of a map, instead of spawned by itself.
    #[arg(long)]
    pub(crate) map: bool,
    /// How long to measure.
    #[arg(long, default_value_t = 10, value_parser = within::<u32>(1, SECONDS_MAX))]
    pub(crate) seconds: u32,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// `outlast bench sleepers`
#[derive(Debug, Args)]
pub(crate) struct Sleepers {
    /// Executions that wait.
    #[arg(long, default_value_t = 10_000, value_parser = within::<u32>(1, EXECUTIONS_MAX))]
    pub(crate) count: u32,
    /// Clients that start them.
    #[arg(long, default_value_t = 64, value_parser = within::<u32>(1, CONCURRENCY_MAX))]
    pub(crate) concurrency: u32,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// `outlast bench resume`
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Steps before the timer.
    #[arg(long, default_value_t = 1_000, value_parser = within::<u32>(1, STEPS_MAX))]
    pub(crate) steps: u32,
    /// Executions at the same time.
    #[arg(long, default_value_t = 1, value_parser = within::<u32>(1, CONCURRENCY_MAX))]
    pub(crate) concurrency: u32,
    /// How long the timer is.
    #[arg(long, default_value_t = 2, value_parser = within::<u32>(1, WAIT_SECONDS_MAX))]
    pub(crate) wait_seconds: u32,
    /// Close and open the engine while the timer runs, so that the history is read from disk.
    #[arg(long)]
    pub(crate) cold: bool,
    /// How long to go on beginning anew.
    #[arg(long, default_value_t = 10, value_parser = within::<u32>(1, SECONDS_MAX))]
    pub(crate) seconds: u32,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// `outlast bench start`
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Clients that each start an execution and wait for its end, again and again.
    #[arg(long, default_value_t = 64, value_parser = within::<u32>(1, CONCURRENCY_MAX))]
    pub(crate) concurrency: u32,
    /// How long to measure.
    #[arg(long, default_value_t = 10, value_parser = within::<u32>(1, SECONDS_MAX))]
    pub(crate) seconds: u32,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Where a measurement takes place.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// Folder to measure in, kept afterwards; otherwise a temporary one in the current folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Closed executions that the folder holds before the measurement begins.
    #[arg(long, default_value_t = 0, value_name = "EXECUTIONS", value_parser = within::<u32>(0, EXECUTIONS_MAX))]
    pub(crate) prefill: u32,
}

/// `outlast doctor`
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The data folder.
    #[arg(
        long,
        value_name = "FOLDER",
        env = "OUTLAST_DATA",
        default_value = ".outlast",
        hide_env_values = true
    )]
    pub(crate) data: PathBuf,
    /// Also read every record of every execution, and compare it with what is derived from it.
    #[arg(long)]
    pub(crate) deep: bool,
}

/// `outlast serve`
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4777")]
    pub(crate) listen: SocketAddr,
    /// The data folder.
    #[arg(
        long,
        value_name = "FOLDER",
        env = "OUTLAST_DATA",
        default_value = ".outlast",
        hide_env_values = true
    )]
    pub(crate) data: PathBuf,
    /// A JSON file with an object of function configurations by name, in the shape of AWS Lambda.
    #[arg(long, value_name = "FILE")]
    pub(crate) functions: Option<PathBuf>,
    /// Open to everybody on this machine: no keys, loopback only.
    #[arg(long)]
    pub(crate) dev: bool,
}

/// `outlast dev`
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// The folder of the project, with a template.yaml, a template.yml or an outlast.toml.
    #[arg(default_value = ".", value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The file that says which functions there are, instead.
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,
    /// The value of a parameter of the template.
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) parameters: Vec<(String, String)>,
    /// The address to listen on; on loopback, since everybody is let in.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4777")]
    pub(crate) listen: SocketAddr,
    /// The data folder; otherwise .outlast in the folder of the project.
    #[arg(
        long,
        value_name = "FOLDER",
        env = "OUTLAST_DATA",
        hide_env_values = true
    )]
    pub(crate) data: Option<PathBuf>,
    /// Processes of one function, at most; the second starts when calls have to wait.
    #[arg(long, default_value_t = 4, value_parser = within::<u32>(1, WORKERS_MAX))]
    pub(crate) workers: u32,
}

fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

fn within<T: TryFrom<u64> + Clone + Send + Sync>(min: u64, max: u64) -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(min..=max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_declared_consistently() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_parameter_is_a_name_and_a_value() {
        assert_eq!(parameter("A=1=2"), Ok(("A".to_owned(), "1=2".to_owned())));
        assert_eq!(parameter("A="), Ok(("A".to_owned(), String::new())));
        assert!(parameter("=1").is_err());
        assert!(parameter("A").is_err());
    }

    #[test]
    fn a_function_has_one_to_a_thousand_workers() {
        for (workers, accepted) in [(0, false), (1, true), (1_000, true), (1_001, false)] {
            let assignment = format!("--workers={workers}");
            let parsed = Arguments::try_parse_from(["outlast", "dev", &assignment]);
            assert_eq!(parsed.is_ok(), accepted, "{workers}");
        }
    }

    #[test]
    fn every_number_is_accepted_within_its_bounds_only() {
        let limits: [(&str, &str, u64, u64); 11] = [
            ("sequential", "--steps", 1, STEPS_MAX),
            ("sequential", "--concurrency", 1, CONCURRENCY_MAX),
            ("sequential", "--seconds", 1, SECONDS_MAX),
            ("sequential", "--prefill", 0, EXECUTIONS_MAX),
            ("fanout", "--steps", 1, STEPS_MAX),
            ("sleepers", "--count", 1, EXECUTIONS_MAX),
            ("sleepers", "--concurrency", 1, CONCURRENCY_MAX),
            ("resume", "--steps", 1, STEPS_MAX),
            ("resume", "--wait-seconds", 1, WAIT_SECONDS_MAX),
            ("start", "--concurrency", 1, CONCURRENCY_MAX),
            ("start", "--seconds", 1, SECONDS_MAX),
        ];
        for (workload, option, min, max) in limits {
            let accepts = |number: i128| {
                let assignment = format!("{option}={number}");
                Arguments::try_parse_from(["outlast", "bench", workload, &assignment]).is_ok()
            };
            for (number, expected) in [(min, true), (min + 1, true), (max - 1, true), (max, true)] {
                assert_eq!(accepts(i128::from(number)), expected, "{option} {number}");
            }
            for number in [i128::from(min) - 1, i128::from(max) + 1] {
                assert!(!accepts(number), "{workload} {option} {number}");
            }
        }
    }
}
