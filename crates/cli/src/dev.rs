//! `outlast dev`: the functions of a project on this machine, started again when they change.
//!
//! The server is the one of `outlast serve --dev`; every function gets processes that ask it for
//! work. A function that cannot be started does not stop the others: what is missing is said, and it
//! is tried again when something changes.

mod definition;
mod intrinsic;
mod launch;
mod log;
mod manifest;
mod node;
mod project;
mod supervise;
mod template;
mod toml;
mod watch;
mod yaml;

use crate::{
    arguments::Dev,
    held::held,
    logging,
    output::{Output, Report, Verdict},
    serve::{self, Standing},
    settings::Settings,
};
use anyhow::{Context as _, bail};
use definition::Definition;
use launch::{Launch, Missing};
use log::Log;
use outlast_server::{
    auth::Access, catalogue::Catalogue, host::process::LineSink, hosting::Hosting,
};
use project::Project;
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use supervise::Supervisor;
use tokio::{
    runtime::Handle,
    sync::watch as tell,
    task::{JoinHandle, spawn_blocking},
    time::interval,
};
use watch::{PERIOD, Watch};

/// Where the server is, once it is there.
#[derive(Serialize)]
struct Developing {
    endpoint: String,
    project: String,
    data: String,
    functions: Vec<String>,
}

impl Report for Developing {
    fn rows(&self) -> Vec<(String, String)> {
        [
            ("endpoint", self.endpoint.clone()),
            ("project", self.project.clone()),
            ("data", self.data.clone()),
            ("functions", self.functions.join(", ")),
        ]
        .map(|(what, value)| (what.to_owned(), value))
        .into()
    }
}

/// Runs the functions until a signal comes.
///
/// # Errors
/// When the project makes no sense at the beginning, or the server cannot work.
pub(crate) fn run(dev: &Dev, output: &Output) -> anyhow::Result<Verdict> {
    let ip = dev.listen.ip();
    if !ip.to_canonical().is_loopback() {
        bail!("dev lets everybody in, so it listens on loopback only, not on {ip}");
    }
    logging::begin(dev.log, output.is_json())?;
    let project = Project::find(dev)?;
    let definitions = project.read()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the threads cannot be started")?;
    runtime.block_on(until_the_end(dev, project, definitions, *output))?;
    Ok(Verdict::Good)
}

async fn until_the_end(
    dev: &Dev,
    project: Project,
    definitions: Vec<Definition>,
    output: Output,
) -> anyhow::Result<()> {
    let data = dev.data.clone();
    let data = data.unwrap_or_else(|| project.folder.join(".outlast"));
    let settings = Settings::developing(dev.listen, data.clone());
    let standing = Standing::open(settings, Access::open()).await?;
    let log = Arc::new(Log::new()?);
    let mut room = Room {
        catalogue: standing.catalogue.clone(),
        hosting: standing.hosting.clone(),
        endpoint: standing.endpoint.clone(),
        workers_max: usize::try_from(dev.workers).unwrap_or(usize::MAX),
        sink: standing.settings.options.logs.before(log.clone()),
        log,
        project,
        // It exists by now, and what is watched is written in full too.
        data: std::fs::canonicalize(&data).unwrap_or_else(|_| data.clone()),
        running: BTreeMap::new(),
    };
    // Before the engine runs: it takes what it does not know for deleted.
    for definition in &definitions {
        room.log.knows(&definition.name);
        room.announce(definition).await?;
    }
    output.report(&Developing {
        endpoint: standing.endpoint.clone(),
        project: room.project.file.display().to_string(),
        data: data.display().to_string(),
        functions: definitions.iter().map(|it| it.name.clone()).collect(),
    })?;
    output.note(&serve::environment(&standing.endpoint, &standing.settings));
    let serving = standing.serve(serve::signalled(), output);
    let ended = tokio::select! {
        ended = serving => ended,
        never = room.develop(definitions, output) => match never {},
    };
    room.close().await;
    ended
}

/// Everything that runs.
struct Room {
    catalogue: Catalogue,
    hosting: Arc<Hosting>,
    endpoint: String,
    workers_max: usize,
    log: Arc<Log>,
    /// The log, and before it what `outlast logs` reads.
    sink: Arc<dyn LineSink>,
    project: Project,
    /// The data folder: it changes all the time.
    data: PathBuf,
    running: BTreeMap<String, Running>,
}

/// A function and its processes.
struct Running {
    definition: Definition,
    watch: Watch,
    stop: tell::Sender<bool>,
    processes: Option<JoinHandle<()>>,
}

impl Running {
    async fn stop(self) {
        self.stop.send_replace(true);
        if let Some(processes) = self.processes {
            let _ = processes.await;
        }
    }
}

impl Room {
    /// Starts everything, and starts it anew when it changes.
    async fn develop(
        &mut self,
        definitions: Vec<Definition>,
        output: Output,
    ) -> std::convert::Infallible {
        for definition in definitions {
            self.start(definition).await;
        }
        let mut file = Watch::new(vec![self.project.file.clone()], &self.data);
        let mut looking = interval(PERIOD);
        loop {
            looking.tick().await;
            if file.has_changed() {
                match self.project.read() {
                    Ok(definitions) => self.replace(definitions, output).await,
                    Err(error) => output.failed(&error),
                }
            }
            self.restart_changed().await;
        }
    }

    /// Starts those anew whose code has changed.
    async fn restart_changed(&mut self) {
        let mut changed = Vec::new();
        for (name, running) in &mut self.running {
            if running.watch.has_changed() {
                // All at the same time; they are waited for below.
                running.stop.send_replace(true);
                self.log.say(name, "! changed: started anew");
                changed.push(name.clone());
            }
        }
        for name in changed {
            if let Some(running) = self.running.remove(&name) {
                let definition = running.definition.clone();
                running.stop().await;
                self.start(definition).await;
            }
        }
    }

    /// The file says something else now.
    async fn replace(&mut self, definitions: Vec<Definition>, output: Output) {
        let wanted = |name: &String| definitions.iter().any(|it| it.name == *name);
        let gone: Vec<String> = self.running.keys().cloned().collect();
        for name in gone.iter().filter(|name| !wanted(name)) {
            if let Some(running) = self.running.remove(name) {
                self.log
                    .say(name, "! no longer in the file: its executions wait");
                running.stop().await;
            }
        }
        for definition in definitions {
            let name = definition.name.clone();
            let known = self.running.get(&name).map(|it| &it.definition);
            if known == Some(&definition) {
                continue;
            }
            if let Some(running) = self.running.remove(&name) {
                running.stop().await;
            }
            match self.announce(&definition).await {
                Ok(()) => {
                    self.log.say(&name, "! defined anew");
                    self.start(definition).await;
                }
                Err(error) => output.failed(&error),
            }
        }
    }

    /// Makes a function known to the server.
    async fn announce(&self, definition: &Definition) -> anyhow::Result<()> {
        let name = &definition.name;
        let file = self.project.file.display();
        let within = || format!("{file} defines what cannot be used");
        let put = self.catalogue.put(name, definition.configuration());
        put.await.with_context(within)?;
        for alias in &definition.aliases {
            let put = self.catalogue.put_alias(name, alias);
            put.await.with_context(within)?;
        }
        Ok(())
    }

    /// Starts the processes of a function, or says what is missing.
    async fn start(&mut self, definition: Definition) {
        let name = definition.name.clone();
        let (function, root) = (definition.clone(), self.project.folder.clone());
        let endpoint = self.endpoint.clone();
        // It asks interpreters what they have, which takes a moment.
        let launched = spawn_blocking(move || launch::launch(&function, &root, &endpoint)).await;
        let interrupted = || Missing {
            what: "it could not be looked at".to_owned(),
            remedy: "change a file to try again".to_owned(),
        };
        let launched = launched.unwrap_or_else(|_| Err(interrupted()));
        let (stop, stopped) = tell::channel(false);
        let mut watched = vec![definition.code.clone()];
        let mut processes = None;
        match launched {
            Ok(Some(launch)) => {
                self.introduce(&name, &launch);
                watched = launch.watched;
                let mut program = launch.program;
                (program.program, program.arguments) = held(program.program, program.arguments);
                let supervisor = Supervisor {
                    hosting: self.hosting.clone(),
                    sink: self.sink.clone(),
                    name: name.clone(),
                    program,
                    workers_max: self.workers_max,
                };
                processes = Some(Handle::current().spawn(supervisor.run(stopped)));
            }
            Ok(None) => self.log.say(&name, "! called where its endpoint is"),
            Err(Missing { what, remedy }) => {
                let text = format!("! not started: {what}; {remedy}");
                self.log.say(&name, &text);
            }
        }
        let running = Running {
            definition,
            watch: Watch::new(watched, &self.data),
            stop,
            processes,
        };
        self.running.insert(name, running);
    }

    fn introduce(&self, name: &str, launch: &Launch) {
        self.log
            .say(name, &format!("! started with {}", launch.client));
        for note in &launch.notes {
            self.log.say(name, &format!("! {note}"));
        }
    }

    /// Stops all processes, all at the same time.
    async fn close(self) {
        for running in self.running.values() {
            running.stop.send_replace(true);
        }
        for running in self.running.into_values() {
            running.stop().await;
        }
    }
}
