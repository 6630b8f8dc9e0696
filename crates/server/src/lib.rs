//! HTTP for the engine of Outlast: the AWS Lambda durable-execution API in front of it, and the
//! hosts that run handlers in other processes behind it.
//!
//! It translates; every rule is `outlast-core`'s, and how state is kept is `outlast-engine`'s.

pub mod host;
