//! Checkpoint tokens against a model of a few lines: duplicated, late, reordered, forged,
//! cross-execution and concurrent checkpoints, invocations that end, restarts.
//!
//! Whole engines in memory, without sockets. A failure prints its seed; `OUTLAST_TOKEN_SEED` runs
//! that one alone.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod model;
mod noise;
mod world;

use world::{Seen, World};

/// Sequences that are tried.
const SEQUENCES: u64 = 100_000;
/// Each thread has engines of its own.
const THREADS: u64 = 2;

fn run(seeds: impl Iterator<Item = u64>) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        // Time stands still until nothing else can happen.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async { World::new(seed).await.play().await })
        }));
        let Ok(seen) = outcome else {
            panic!("OUTLAST_TOKEN_SEED={seed}");
        };
        all.again += seen.again;
        all.stale += seen.stale;
        all.invalid += seen.invalid;
        all.accepted += seen.accepted;
        all.restarts += seen.restarts;
    }
    all
}

#[test]
fn a_hundred_thousand_sequences_of_checkpoints_end_as_the_model_says() {
    if let Ok(seed) = std::env::var("OUTLAST_TOKEN_SEED") {
        run(std::iter::once(seed.parse().unwrap()));
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let seen = run((thread..SEQUENCES).step_by(usize::try_from(THREADS).unwrap()));
                // What never happens is not tested.
                let least = SEQUENCES / THREADS / 10;
                let often = [
                    seen.again,
                    seen.stale,
                    seen.invalid,
                    seen.accepted,
                    seen.restarts,
                ];
                assert!(often.iter().all(|count| *count > least), "{seen:?}");
            });
        }
    });
}
