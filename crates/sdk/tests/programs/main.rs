//! Random programs: whatever crashes, delays, duplicates and lost answers, a program comes to what
//! its text says.
//!
//! `OUTLAST_SEED=7` runs one program and shows it, `OUTLAST_PROGRAMS=100000` runs more.

#[cfg(test)]
mod check;
#[cfg(test)]
mod evaluate;
#[cfg(test)]
mod model;
#[cfg(test)]
mod play;

#[cfg(test)]
mod tests {
    use crate::check::{Case, smallest};
    use std::sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    };

    /// Programs that run unless `OUTLAST_PROGRAMS` says otherwise.
    const PROGRAMS: u64 = 10_000;
    /// Operations of the largest programs.
    const SIZE: u64 = 24;

    fn number(variable: &str) -> Option<u64> {
        std::env::var(variable).ok()?.parse().ok()
    }

    /// Runs one case, and reports the smallest one that fails the same way.
    fn run(seed: u64) -> Result<u64, String> {
        let case = Case::of(seed, 1 + seed % SIZE);
        case.check().map_err(|problem| {
            let (case, problem) = smallest(seed, case.size).unwrap_or((case, problem));
            format!(
                "{problem}\n{case}\nrun it again: OUTLAST_SEED={seed} cargo test -p outlast --test programs"
            )
        })
    }

    #[test]
    fn every_program_comes_to_what_it_says_whatever_happens_to_it() {
        if let Some(seed) = number("OUTLAST_SEED") {
            let case = Case::of(seed, 1 + seed % SIZE);
            println!("{case}");
            match run(seed) {
                Ok(runs) => return println!("{runs} runs agree"),
                Err(problem) => panic!("{problem}"),
            }
        }
        let programs = number("OUTLAST_PROGRAMS").unwrap_or(PROGRAMS);
        let next = AtomicU64::new(0);
        let runs = AtomicU64::new(0);
        let failure: Mutex<Option<String>> = Mutex::default();
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= programs || failure.lock().unwrap().is_some() {
                            return;
                        }
                        match run(seed) {
                            Ok(count) => runs.fetch_add(count, Ordering::Relaxed),
                            Err(problem) => {
                                failure.lock().unwrap().get_or_insert(problem);
                                return;
                            }
                        };
                    }
                });
            }
        });
        if let Some(problem) = failure.into_inner().unwrap() {
            panic!("{problem}");
        }
        println!("{programs} programs, {} runs", runs.into_inner());
    }
}
