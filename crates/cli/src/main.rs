//! The `outlast` program. It reads its arguments, hands them to a command and says how it went.
//!
//! What a command finds out goes to stdout, everything else to stderr. It ends with 0 when all is
//! well, 1 when something is wrong (such as an execution that failed), 2 when it was called the
//! wrong way, 3 when what was asked for is not there, 4 when the endpoint refused, 5 when the endpoint
//! cannot be reached.

mod arguments;
mod bench;
mod client;
mod commands;
mod data;
mod descriptors;
mod dev;
mod doctor;
mod held;
mod keys;
mod logging;
mod new;
mod output;
mod paint;
mod problem;
mod reference;
mod serve;
mod service;
mod settings;
mod tree;
mod worker;

use crate::{
    arguments::{Arguments, Command},
    output::{Output, Verdict},
    problem::{Cause, Problem},
};
use clap::{CommandFactory as _, Parser};
use std::process::ExitCode;

// Against the system's allocator on Linux, the same steps cost a quarter less processor time:
// `bench sequential --concurrency 256` 34 instead of 44 µs a step, `bench fanout` 18 instead of 25.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let output = Output::new(arguments.json);
    match run(arguments.command, &output) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Err(error) => {
            output.failed(&error);
            let cause = error.downcast_ref::<Problem>().map(|problem| problem.cause);
            ExitCode::from(cause.unwrap_or(Cause::Wrong).code())
        }
    }
}

fn run(command: Command, output: &Output) -> anyhow::Result<Verdict> {
    let asked = match command {
        Command::Bench(bench) => return bench::run(bench, output),
        Command::Dev(dev) => return dev::run(&dev, output),
        Command::Doctor(doctor) => return doctor::run(&doctor, output),
        Command::Keys(keys) => return keys::run(keys, output),
        Command::Serve(serve) => return serve::run(&serve, output),
        Command::Worker(worker) => return worker::run(worker, *output),
        Command::New(new) => return new::run(&new, *output),
        Command::Held(wanted) => return held::run(&wanted),
        Command::Completions(wanted) => {
            let mut command = Arguments::command();
            clap_complete::generate(
                wanted.shell,
                &mut command,
                "outlast",
                &mut std::io::stdout(),
            );
            return Ok(Verdict::Good);
        }
        Command::Invoke(invoke) => commands::Asked::Invoke(invoke),
        Command::Ls(ls) => commands::Asked::Ls(ls),
        Command::Show(one) => commands::Asked::Show(one),
        Command::History(history) => commands::Asked::History(history),
        Command::Why(one) => commands::Asked::Why(one),
        Command::Logs(logs) => commands::Asked::Logs(logs),
        Command::Callback(callback) => commands::Asked::Callback(callback.action),
        Command::Signal(signal) => commands::Asked::Signal(signal),
        Command::Stop(stop) => commands::Asked::Stop(stop),
        Command::Resume(resume) => commands::Asked::Resume(resume),
        Command::Delete(one) => commands::Asked::Delete(one),
        Command::Functions(functions) => commands::Asked::Functions(functions.action),
    };
    commands::run(asked, *output)
}
