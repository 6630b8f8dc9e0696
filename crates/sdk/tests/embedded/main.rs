//! The embedded home, from outside: programs on an engine in this process, on a folder of their own.

// Each is marked as a test so that clippy lets its helpers unwrap, too.
#[cfg(test)]
mod faults;
#[cfg(test)]
mod held;
#[cfg(test)]
mod life;
#[cfg(test)]
mod many;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod time;
