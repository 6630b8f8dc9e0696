//! Executions in SQLite tables.
//!
//! [`tables`] writes and [`reader`] reads; neither knows about threads or queues.

pub mod reader;
mod schema;
pub mod tables;
