//! File descriptors: as many as the system gives, and never so many connections that none is left
//! for the files of the store.

/// Descriptors that are kept for files.
const KEPT: usize = 256;
/// Connections that are allowed however few descriptors there are.
const CONNECTIONS_MIN: usize = 64;

/// Takes as many descriptors as the system gives; tells how many connections there may be.
pub(crate) fn for_connections() -> usize {
    within(limit())
}

fn within(descriptors: usize) -> usize {
    descriptors.saturating_sub(KEPT).max(CONNECTIONS_MIN)
}

#[cfg(unix)]
fn limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: maximum,
        maximum,
    };
    // Refused where the maximum is none that a process may really have: then it stays as it was.
    let _ = setrlimit(Resource::Nofile, wanted);
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |current| {
        usize::try_from(current).unwrap_or(usize::MAX)
    })
}

#[cfg(not(unix))]
fn limit() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_kept_for_files() {
        for (descriptors, connections) in [
            (0, 64),
            (319, 64),
            (320, 64),
            (321, 65),
            (1_024, 768),
            (usize::MAX, usize::MAX - 256),
        ] {
            assert_eq!(within(descriptors), connections, "{descriptors}");
        }
    }
}
