//! Help, and what happens when the program is called the wrong way.

use crate::outlast;

/// What `--help` says is part of the interface; compare when it changes.
#[test]
fn the_help_names_every_command() {
    let called = outlast(&["--help"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(called.stdout, @"
    Durable execution on your own machine

    Usage: outlast [OPTIONS] <COMMAND>

    Commands:
      bench        Measure an engine on this machine, beside what its disk can do
      dev          Run the functions of a SAM template or an outlast.toml on this machine, and serve
                   them
      doctor       Check a data folder that no engine has open
      keys         Make, list and revoke the keys of a data folder
      serve        Serve the durable-execution API of AWS Lambda from a data folder
      worker       Run a program beside this one as a worker of a server
      new          Make a small Rust project that runs
      invoke       Start an execution, or call an ordinary function
      ls           List executions
      show         Show an execution as a tree of its operations
      history      Print the history of an execution, one event a line
      why          Say in one sentence why an execution is where it is
      logs         Print what a function's workers logged
      callback     Answer a callback
      signal       Send a signal to an execution
      stop         Stop an execution
      resume       Let an execution go on that was held
      delete       Delete an execution that has ended
      functions    List, show, make, change and delete functions
      completions  Print what makes a shell complete this program's commands
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
          --json     Answer with exactly one line of JSON on stdout

    Exit codes: 0 all is well, 1 something is wrong (such as a failed execution), 2 wrong usage, 3 not
    found, 4 refused, 5 endpoint out of reach.
    ");
}

#[test]
fn the_help_of_bench_names_every_workload() {
    let called = outlast(&["bench", "--help"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(called.stdout, @"
    Measure an engine on this machine, beside what its disk can do

    Usage: outlast bench [OPTIONS] <WORKLOAD>

    Workloads:
      sequential  Executions of trivial steps, one after another
      fanout      One execution whose steps run side by side, again and again
      sleepers    Executions that wait for hours: how fast they start, what each costs, how fast a
                  restart is
      herd        Executions whose timers are all due at once: how long the others wait meanwhile
      resume      A history of steps, then a timer: how late the code after it runs
      start       Executions that do nothing
      help        Print this message or the help of the given subcommand(s)

    Options:
          --home <HOME>  Where functions run: `embedded` in the engine's process, or `remote` as a
                         worker of a server that is started for the measurement [default: embedded]
      -h, --help         Print help
          --json         Answer with exactly one line of JSON on stdout
    ");
}

#[test]
fn the_help_of_a_workload_names_its_options_and_their_defaults() {
    let called = outlast(&["bench", "sequential", "--help"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(called.stdout, @"
    Executions of trivial steps, one after another

    Usage: outlast bench sequential [OPTIONS]

    Options:
          --steps <STEPS>              Steps of each execution [default: 10]
          --concurrency <CONCURRENCY>  Clients that each start an execution and wait for its end, again
                                       and again [default: 64]
          --seconds <SECONDS>          How long to measure [default: 10]
          --data <FOLDER>              Folder to measure in, kept afterwards; otherwise a temporary one
                                       in the current folder
          --prefill <EXECUTIONS>       Closed executions that the folder holds before the measurement
                                       begins [default: 0]
          --home <HOME>                Where functions run: `embedded` in the engine's process, or
                                       `remote` as a worker of a server that is started for the
                                       measurement [default: embedded]
      -h, --help                       Print help
          --json                       Answer with exactly one line of JSON on stdout
    ");
}

#[test]
fn the_help_of_doctor_says_which_folder_it_examines() {
    let called = outlast(&["doctor", "--help"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(called.stdout, @"
    Check a data folder that no engine has open

    Usage: outlast doctor [OPTIONS]

    Options:
          --data <FOLDER>  The data folder [env: OUTLAST_DATA] [default: .outlast]
          --deep           Also read every record of every execution, and compare it with what is
                           derived from it
      -h, --help           Print help
          --json           Answer with exactly one line of JSON on stdout
    ");
}

#[test]
fn the_version_is_the_packages() {
    let called = outlast(&["--version"]);
    let version = concat!("outlast ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), version));
}

#[test]
fn wrong_usage_ends_with_2_says_what_helps_and_leaves_stdout_alone() {
    let wrong: [(&[&str], &str); 7] = [
        (&[], "Usage: outlast"),
        (&["bench"], "Usage: outlast bench"),
        (&["bench", "sequentiel"], "'sequential'"),
        (&["bench", "start", "--seconds", "0"], "1..=86400"),
        (&["bench", "start", "--seconds", "soon"], "--seconds"),
        (&["bench", "start", "--steps", "3"], "--help"),
        (&["--json", "doctor", "--date"], "--data"),
    ];
    for (arguments, remedy) in wrong {
        let called = outlast(arguments);
        assert_eq!(called.code, Some(2), "{arguments:?}: {called:?}");
        assert_eq!(called.stdout, "", "{arguments:?}");
        assert!(called.stderr.contains(remedy), "{arguments:?}: {called:?}");
    }
}
