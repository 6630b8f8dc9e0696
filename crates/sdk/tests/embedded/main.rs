//! The embedded home, from outside: programs on an engine in this process, on a folder of their own.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod life;
