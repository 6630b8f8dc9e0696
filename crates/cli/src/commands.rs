//! The commands that talk to an endpoint, one file for each group.

mod callback;
mod change;
mod functions;
mod history;
mod invoke;
mod list;
mod logs;
mod show;
mod why;

use crate::{
    arguments::client::{
        CallbackAction, FunctionAction, History, Invoke, Logs, Ls, One, Resume, Signal, Stop,
    },
    output::{Output, Verdict},
};
use anyhow::Context as _;

/// What is asked of an endpoint.
#[derive(Debug)]
pub(crate) enum Asked {
    Invoke(Invoke),
    Ls(Ls),
    Show(One),
    History(History),
    Why(One),
    Logs(Logs),
    Callback(CallbackAction),
    Signal(Signal),
    Stop(Stop),
    Resume(Resume),
    Delete(One),
    Functions(FunctionAction),
}

/// Asks, and prints the answer.
///
/// # Errors
/// When the endpoint cannot be reached or refuses, or the arguments make no sense.
pub(crate) fn run(asked: Asked, output: Output) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    runtime.block_on(async move {
        match asked {
            Asked::Invoke(invoke) => invoke::run(invoke, output).await,
            Asked::Ls(ls) => list::run(ls, output).await,
            Asked::Show(one) => show::run(one, output).await,
            Asked::History(history) => history::run(history, output).await,
            Asked::Why(one) => why::run(one, output).await,
            Asked::Logs(logs) => logs::run(logs, output).await,
            Asked::Callback(action) => callback::run(action, output).await,
            Asked::Signal(signal) => change::signal(signal, output).await,
            Asked::Stop(stop) => change::stop(stop, output).await,
            Asked::Resume(resume) => change::resume(resume, output).await,
            Asked::Delete(one) => change::delete(one, output).await,
            Asked::Functions(action) => functions::run(action, output).await,
        }
    })
}
