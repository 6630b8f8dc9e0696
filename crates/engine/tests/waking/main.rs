//! Executions that sleep are woken: after restarts, under any clock, in any number, and in turn.

#[cfg(test)]
mod clocks;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod flights;
#[cfg(test)]
mod herds;
#[cfg(test)]
mod host;
#[cfg(test)]
#[path = "../both/stand.rs"]
mod stand;
