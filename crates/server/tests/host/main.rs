//! The hosts of functions, driven over real sockets and with real processes.

// Each is marked as a test so that clippy lets its helpers unwrap, too.
#[cfg(test)]
mod engine;
#[cfg(test)]
mod process;
#[cfg(test)]
mod push;
#[cfg(test)]
mod runtime;
#[cfg(test)]
mod rust_client;
#[cfg(test)]
mod stand;
