//! What can be asked of an endpoint, and within which bounds. Nothing is done here.

use super::within;
use crate::problem::Problem;
use clap::{Args, Subcommand, ValueEnum};
use outlast_http::{Choice, Endpoint, Options, Place, Secret, endpoint::InvalidEndpoint};
use std::path::PathBuf;

/// Executions or events that are listed, at most.
pub(super) const ITEMS_MAX: u64 = 100_000;
/// An execution is waited for a year at most.
pub(super) const WAIT_SECONDS_MAX: u64 = 31_622_400;
/// Lines of logs, at most: as many as a server keeps of a function.
pub(super) const LINES_MAX: u64 = 1_000;
/// Processes of one worker, at most.
pub(super) const PROCESSES_MAX: u64 = 256;

/// The endpoint of `outlast serve` unless told otherwise.
const ENDPOINT: &str = "http://127.0.0.1:4777";

/// Which endpoint is asked, and by whom.
#[derive(Clone, Debug, Args)]
pub(crate) struct Connection {
    /// The endpoint; `aws` for AWS Lambda [env: OUTLAST_ENDPOINT, AWS_ENDPOINT_URL_LAMBDA] [default: http://127.0.0.1:4777]
    #[arg(
        long = "endpoint",
        value_name = "URL|aws",
        env = "OUTLAST_ENDPOINT",
        hide_env = true
    )]
    given: Option<Place>,
    /// The endpoint of AWS clients, used when no other is given.
    #[arg(long, env = "AWS_ENDPOINT_URL_LAMBDA", hide = true)]
    aws_endpoint: Option<Endpoint>,
    #[command(flatten)]
    identity: Identity,
}

/// As whom an endpoint is asked, and whom to trust. What is not given, the environment says.
#[derive(Clone, Debug, Args)]
pub(crate) struct Identity {
    /// The bearer token that says who asks; without, AWS keys of the environment sign.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "OUTLAST_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// The region of AWS, and of signatures [env: AWS_REGION, AWS_DEFAULT_REGION]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// A PEM file of certificates to trust besides the machine's [env: OUTLAST_CA]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Send a token to http:// on another machine, where everybody on the way can read it [env: OUTLAST_ALLOW_PLAINTEXT=1]
    #[arg(long)]
    allow_plaintext: bool,
}

impl Identity {
    /// With this endpoint, and what the environment says.
    ///
    /// # Errors
    /// When something that is needed is missing.
    pub(crate) fn at(&self, place: Place) -> Result<Options, Problem> {
        let choice = Choice {
            place,
            token: self.token.as_deref().map(Secret::new),
            region: self.region.clone(),
            ca: self.ca.clone(),
            plaintext: self.allow_plaintext,
        };
        let settled = choice.settle();
        settled.map_err(|error| Problem::usage(error.to_string()))
    }
}

impl Connection {
    /// The endpoint that is meant, and as whom it is asked.
    ///
    /// # Errors
    /// When something that is needed is missing.
    pub(crate) fn options(&self) -> Result<Options, Problem> {
        let aws = || self.aws_endpoint.clone().map(Place::At);
        let place = match self.given.clone().or_else(aws) {
            Some(place) => place,
            None => {
                let default = ENDPOINT.parse();
                default.map_err(|error: InvalidEndpoint| Problem::usage(error.to_string()))?
            }
        };
        self.identity.at(place)
    }
}

/// `outlast invoke`
#[derive(Debug, Args)]
pub(crate) struct Invoke {
    /// The function: NAME, NAME:QUALIFIER or an ARN; without a qualifier, $LATEST.
    pub(crate) function: String,
    /// The input: JSON, @FILE, or - for stdin.
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) data: Option<String>,
    /// Name the execution: the same name with the same input starts nothing new.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The tenant it runs for.
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Only start it; print its ARN.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) event: bool,
    /// Start it, then look until it has ended, however long that takes.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Seconds to wait at most.
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = within::<u32>(1, WAIT_SECONDS_MAX))]
    pub(crate) timeout: Option<u32>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `outlast ls`
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// The function; without, all functions.
    pub(crate) function: Option<String>,
    /// Only those in this status; may be given several times.
    #[arg(long, value_enum, value_name = "STATUS")]
    pub(crate) status: Vec<Status>,
    /// Only those with this name.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only those started after this moment (ISO 8601, UTC unless an offset is given).
    #[arg(long, value_name = "MOMENT")]
    pub(crate) after: Option<String>,
    /// Only those started before this moment.
    #[arg(long, value_name = "MOMENT")]
    pub(crate) before: Option<String>,
    /// Oldest first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// How many at most.
    #[arg(long, default_value_t = 50, value_parser = within::<u32>(1, ITEMS_MAX))]
    pub(crate) max: u32,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Where an execution can be in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Status {
    /// Not ended yet.
    Running,
    /// Ended with a result.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Took too long.
    TimedOut,
    /// Stopped by somebody.
    Stopped,
}

impl Status {
    /// As it stands on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::TimedOut => "TIMED_OUT",
            Self::Stopped => "STOPPED",
        }
    }
}

/// A command about one execution.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The execution: its ARN, FUNCTION/NAME, or the beginning of its id.
    pub(crate) execution: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `outlast history`
#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) one: One,
    /// Newest first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// How many events at most.
    #[arg(long, default_value_t = 10_000, value_parser = within::<u32>(1, ITEMS_MAX))]
    pub(crate) max: u32,
}

/// `outlast logs`
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The function.
    pub(crate) function: String,
    /// How many of the last lines.
    #[arg(long, default_value_t = 100, value_parser = within::<u32>(1, LINES_MAX))]
    pub(crate) lines: u32,
    /// Go on printing what is logged from now on; with --json, one line for each.
    #[arg(long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `outlast callback`
#[derive(Debug, Args)]
pub(crate) struct Callback {
    #[command(subcommand)]
    pub(crate) action: CallbackAction,
}

/// What to say to a callback.
#[derive(Debug, Subcommand)]
pub(crate) enum CallbackAction {
    /// Answer it with a result.
    Succeed(Succeed),
    /// Answer it with an error.
    Fail(Fail),
    /// Say that an answer will still come.
    Heartbeat(Heartbeat),
}

/// `outlast callback succeed`
#[derive(Debug, Args)]
pub(crate) struct Succeed {
    /// The callback's id.
    pub(crate) id: String,
    /// The result: text, @FILE, or - for stdin.
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `outlast callback fail`
#[derive(Debug, Args)]
pub(crate) struct Fail {
    /// The callback's id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) error: Error,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `outlast callback heartbeat`
#[derive(Debug, Args)]
pub(crate) struct Heartbeat {
    /// The callback's id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// An error to hand over.
#[derive(Debug, Args)]
pub(crate) struct Error {
    /// What kind of error it is.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) error_type: Option<String>,
    /// What is wrong.
    #[arg(long)]
    pub(crate) message: Option<String>,
    /// More about it: text, @FILE, or - for stdin.
    #[arg(short, long, value_name = "TEXT|@FILE|-")]
    pub(crate) data: Option<String>,
}

/// `outlast signal`
#[derive(Debug, Args)]
pub(crate) struct Signal {
    #[command(flatten)]
    pub(crate) one: One,
    /// The signal's name.
    pub(crate) name: String,
    /// What it carries: text, @FILE, or - for stdin.
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) data: Option<String>,
}

/// `outlast stop`
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) one: One,
    #[command(flatten)]
    pub(crate) error: Error,
}

/// `outlast resume`
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) one: One,
    /// Fail it instead.
    #[arg(long)]
    pub(crate) fail: bool,
}

/// `outlast functions`
#[derive(Debug, Args)]
pub(crate) struct Functions {
    #[command(subcommand)]
    pub(crate) action: FunctionAction,
}

/// What to do with functions.
#[derive(Debug, Subcommand)]
pub(crate) enum FunctionAction {
    /// List all functions.
    Ls(FunctionsLs),
    /// Show the configuration of one.
    Show(Function),
    /// Make one as a file says.
    Create(FunctionFile),
    /// Change one as a file says.
    Update(FunctionFile),
    /// Delete one; its executions that run are failed.
    Delete(Function),
}

/// `outlast functions ls`
#[derive(Debug, Args)]
pub(crate) struct FunctionsLs {
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// A command about one function.
#[derive(Debug, Args)]
pub(crate) struct Function {
    /// The function: NAME, NAME:QUALIFIER or an ARN.
    pub(crate) function: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// A command that takes a configuration.
#[derive(Debug, Args)]
pub(crate) struct FunctionFile {
    /// A JSON file with the configuration in the shape of AWS Lambda; - for stdin.
    pub(crate) file: String,
    /// The function's name; otherwise the file's FunctionName.
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `outlast worker`
#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// The server that has the work.
    #[arg(
        long,
        value_name = "URL",
        env = "OUTLAST_ENDPOINT",
        hide_env_values = true
    )]
    pub(crate) server: Endpoint,
    #[command(flatten)]
    pub(crate) identity: Identity,
    /// The function to work for: NAME or NAME:QUALIFIER.
    #[arg(long)]
    pub(crate) function: String,
    /// Processes to keep running.
    #[arg(long, default_value_t = 1, value_parser = within::<u32>(1, PROCESSES_MAX))]
    pub(crate) processes: u32,
    /// The program with a Lambda runtime client in it, and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// `outlast new`
#[derive(Debug, Args)]
pub(crate) struct New {
    /// The folder to make, and the name of the package in it.
    pub(crate) name: String,
    /// Use the library in this folder (crates/sdk of Outlast's repository) instead of the published one.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) path: Option<PathBuf>,
}
