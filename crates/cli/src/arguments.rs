//! What the program can be asked, and within which bounds. Nothing is done here.

pub(crate) mod client;

use clap::{Args, Parser, Subcommand, ValueEnum, builder::RangedU64ValueParser};
use std::{net::SocketAddr, path::PathBuf};

/// Clients at the same time, at most.
const CONCURRENCY_MAX: u64 = 65_536;
/// Steps of one execution, at most.
const STEPS_MAX: u64 = 1_000_000;
/// Executions made before or during a measurement, at most.
const EXECUTIONS_MAX: u64 = 100_000_000;
/// A measurement lasts a day at most.
const SECONDS_MAX: u64 = 86_400;
/// A replaced key goes on for a year at most.
const KEEP_HOURS_MAX: u64 = 8_760;
/// A timer that is measured lasts an hour at most.
const WAIT_SECONDS_MAX: u64 = 3_600;

/// Processes of one function, at most.
const WORKERS_MAX: u64 = 1_000;

/// Durable execution on your own machine.
#[derive(Debug, Parser)]
#[command(name = "outlast", version, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 all is well, 1 something is wrong (such as a failed execution), \
                  2 wrong usage, 3 not found, 4 refused, 5 endpoint out of reach."
)]
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
    /// Measure an engine on this machine, beside what its disk can do.
    Bench(Bench),
    /// Run the functions of a SAM template or an outlast.toml on this machine, and serve them.
    Dev(Dev),
    /// Check a data folder that no engine has open.
    Doctor(Doctor),
    /// Make, list and revoke the keys of a data folder.
    Keys(Keys),
    /// Serve the durable-execution API of AWS Lambda from a data folder.
    Serve(Serve),
    /// Run a program beside this one as a worker of a server.
    Worker(client::Worker),
    /// Make a small Rust project that runs.
    New(client::New),
    /// Start an execution, or call an ordinary function.
    Invoke(client::Invoke),
    /// List executions.
    Ls(client::Ls),
    /// Show an execution as a tree of its operations.
    Show(client::One),
    /// Print the history of an execution, one event a line.
    History(client::History),
    /// Say in one sentence why an execution is where it is.
    Why(client::One),
    /// Print what a function's workers logged.
    Logs(client::Logs),
    /// Answer a callback.
    Callback(client::Callback),
    /// Send a signal to an execution.
    Signal(client::Signal),
    /// Stop an execution.
    Stop(client::Stop),
    /// Let an execution go on that was held.
    Resume(client::Resume),
    /// Delete an execution that has ended.
    Delete(client::One),
    /// List, show, make, change and delete functions.
    Functions(client::Functions),
    /// Print what makes a shell complete this program's commands.
    Completions(Completions),
    /// Become a program that ends with whoever started it.
    #[command(hide = true)]
    Held(Held),
}

/// `outlast held`, for this program's own use.
#[derive(Debug, Args)]
pub(crate) struct Held {
    /// The process that must be there.
    pub(crate) parent: i32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// `outlast completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// How to measure.
#[derive(Debug, Args)]
#[command(
    subcommand_value_name = "WORKLOAD",
    subcommand_help_heading = "Workloads"
)]
pub(crate) struct Bench {
    /// Where functions run: `embedded` in the engine's process, or `remote` as a worker of a server
    /// that is started for the measurement.
    #[arg(long, global = true, value_enum, default_value_t = Home::Embedded, hide_possible_values = true, display_order = 900)]
    pub(crate) home: Home,
    #[command(subcommand)]
    pub(crate) workload: Workload,
}

/// Where functions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Home {
    /// In the engine's process.
    Embedded,
    /// As a worker of a server, over loopback.
    Remote,
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
    /// Executions whose timers are all due at once: how long the others wait meanwhile.
    Herd(Herd),
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

/// `outlast bench herd`
#[derive(Debug, Args)]
pub(crate) struct Herd {
    /// Executions that are due at once.
    #[arg(long, default_value_t = 10_000, value_parser = within::<u32>(1, EXECUTIONS_MAX))]
    pub(crate) count: u32,
    /// Clients of another function that each start an execution and wait for its end, again and
    /// again, before the herd is due and while it runs.
    #[arg(long, default_value_t = 4, value_parser = within::<u32>(1, CONCURRENCY_MAX))]
    pub(crate) concurrency: u32,
    /// How long to measure the other function before.
    #[arg(long, default_value_t = 10, value_parser = within::<u32>(1, SECONDS_MAX))]
    pub(crate) seconds: u32,
    /// When the herd is due, from the first start on; otherwise as late as its size needs.
    #[arg(long, value_parser = within::<u32>(1, SECONDS_MAX))]
    pub(crate) wait_seconds: Option<u32>,
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
    /// A TOML file with settings; flags and the environment count more.
    #[arg(
        long,
        value_name = "FILE",
        env = "OUTLAST_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// The address to listen on; 127.0.0.1:4777 otherwise.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "OUTLAST_LISTEN",
        hide_env_values = true
    )]
    pub(crate) listen: Option<SocketAddr>,
    /// The data folder; .outlast otherwise.
    #[arg(
        long,
        value_name = "FOLDER",
        env = "OUTLAST_DATA",
        hide_env_values = true
    )]
    pub(crate) data: Option<PathBuf>,
    /// A JSON file with an object of function configurations by name, in the shape of AWS Lambda.
    #[arg(
        long,
        value_name = "FILE",
        env = "OUTLAST_FUNCTIONS",
        hide_env_values = true
    )]
    pub(crate) functions: Option<PathBuf>,
    /// The region of functions that do not say theirs; us-east-1 otherwise.
    #[arg(
        long,
        value_name = "REGION",
        env = "OUTLAST_REGION",
        hide_env_values = true
    )]
    pub(crate) region: Option<String>,
    /// The account of functions that do not say theirs; 000000000000 otherwise.
    #[arg(
        long,
        value_name = "NUMBER",
        env = "OUTLAST_ACCOUNT",
        hide_env_values = true
    )]
    pub(crate) account: Option<String>,
    /// Whether a callback's id is enough to answer it; closed otherwise.
    #[arg(
        long,
        value_name = "WHETHER",
        env = "OUTLAST_CALLBACKS",
        hide_env_values = true
    )]
    pub(crate) callbacks: Option<CallbacksFlag>,
    /// What to say on stderr about its work; as JSON lines with --json.
    #[arg(
        long,
        value_name = "LEVEL",
        env = "OUTLAST_LOG",
        hide_env_values = true,
        default_value = "warn"
    )]
    pub(crate) log: LogLevel,
    /// A PEM file with the chain of certificates to serve TLS with.
    #[arg(
        long,
        value_name = "FILE",
        env = "OUTLAST_TLS_CERTIFICATE",
        hide_env_values = true
    )]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// A PEM file with the certificate's private key.
    #[arg(
        long,
        value_name = "FILE",
        env = "OUTLAST_TLS_KEY",
        hide_env_values = true
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Open to everybody on this machine: no keys, loopback only.
    #[arg(long)]
    pub(crate) dev: bool,
    /// Let time stand still until a test skips it, as `CloudRunner::skip_time` does.
    #[arg(long, requires = "dev")]
    pub(crate) test_clock: bool,
}

/// How much a server says about its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing.
    Off,
    /// What it cannot go on with.
    Error,
    /// What an operator should look at: damaged executions, invocations that failed.
    Warn,
    /// What may explain something: callers that were refused, workers that ended.
    Info,
    /// Every request.
    Debug,
    /// Everything.
    Trace,
}

/// Whether a callback's id is enough to answer it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CallbacksFlag {
    /// Whoever answers must be an operator.
    Closed,
    /// The id is enough.
    Open,
}

/// `outlast keys`
#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// The data folder.
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        env = "OUTLAST_DATA",
        default_value = ".outlast",
        hide_env_values = true
    )]
    pub(crate) data: PathBuf,
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key pair and show it, once.
    Create(CreateKey),
    /// List the key pairs, without their secrets.
    Ls,
    /// Make a key pair in the place of another, which goes on for a while.
    Rotate(RotateKey),
    /// Take a key pair away, at once.
    Revoke(RevokeKey),
}

/// `outlast keys create`
#[derive(Debug, Args)]
pub(crate) struct CreateKey {
    /// What it is good for.
    #[arg(long)]
    pub(crate) role: RoleFlag,
    /// What you call it.
    #[arg(long)]
    pub(crate) name: Option<String>,
}

/// `outlast keys rotate`
#[derive(Debug, Args)]
pub(crate) struct RotateKey {
    /// The key pair to replace.
    pub(crate) id: String,
    /// Hours that the old one goes on.
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = within::<u32>(0, KEEP_HOURS_MAX))]
    pub(crate) keep_hours: u32,
}

/// `outlast keys revoke`
#[derive(Debug, Args)]
pub(crate) struct RevokeKey {
    /// The key pair to take away.
    pub(crate) id: String,
}

/// What a key is good for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleFlag {
    /// Look at executions and functions.
    Viewer,
    /// Also start, stop and resume executions, answer callbacks, send signals.
    Operator,
    /// Run handlers, nothing else.
    Worker,
    /// Everything.
    Admin,
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
    /// What to say on stderr about its work; as JSON lines with --json.
    #[arg(
        long,
        value_name = "LEVEL",
        env = "OUTLAST_LOG",
        hide_env_values = true,
        default_value = "error"
    )]
    pub(crate) log: LogLevel,
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
    fn numbers_for_endpoints_are_accepted_within_their_bounds_only() {
        let limits: [(&[&str], &str, u64); 6] = [
            (&["ls"], "--max", client::ITEMS_MAX),
            (&["history", "f/n"], "--max", client::ITEMS_MAX),
            (&["logs", "f"], "--lines", client::LINES_MAX),
            (
                &["invoke", "f", "--wait"],
                "--timeout",
                client::WAIT_SECONDS_MAX,
            ),
            (
                &["invoke", "f", "--wait", "-d{}"],
                "--timeout",
                client::WAIT_SECONDS_MAX,
            ),
            (
                &["worker", "--server=http://h", "--function=f"],
                "--processes",
                client::PROCESSES_MAX,
            ),
        ];
        for (command, option, max) in limits {
            let accepts = |number: u64| {
                let assignment = format!("{option}={number}");
                let mut words = vec!["outlast"];
                words.extend(command);
                words.push(&assignment);
                if command.contains(&"--function=f") {
                    words.extend(["--", "true"]);
                }
                Arguments::try_parse_from(words).is_ok()
            };
            let expected = [
                (0, false),
                (1, true),
                (2, true),
                (max - 1, true),
                (max, true),
                (max + 1, false),
            ];
            for (number, expected) in expected {
                assert_eq!(accepts(number), expected, "{command:?} {option} {number}");
            }
        }
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
        let limits: [(&str, &str, u64, u64); 15] = [
            ("sequential", "--steps", 1, STEPS_MAX),
            ("sequential", "--concurrency", 1, CONCURRENCY_MAX),
            ("sequential", "--seconds", 1, SECONDS_MAX),
            ("sequential", "--prefill", 0, EXECUTIONS_MAX),
            ("fanout", "--steps", 1, STEPS_MAX),
            ("sleepers", "--count", 1, EXECUTIONS_MAX),
            ("sleepers", "--concurrency", 1, CONCURRENCY_MAX),
            ("herd", "--count", 1, EXECUTIONS_MAX),
            ("herd", "--concurrency", 1, CONCURRENCY_MAX),
            ("herd", "--seconds", 1, SECONDS_MAX),
            ("herd", "--wait-seconds", 1, SECONDS_MAX),
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
