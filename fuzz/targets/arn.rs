//! Names of executions and functions: what can be read is written as it was.

#![no_main]

use outlast_core::arn::{ExecutionArn, Function, FunctionReference};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(arn) = text.parse::<ExecutionArn>() {
        assert_eq!(arn.to_string(), text);
    }
    if let Ok(function) = text.parse::<Function>() {
        assert_eq!(function.to_string(), text);
    }
    let _ = text.parse::<FunctionReference>();
});
