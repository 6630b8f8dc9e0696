//! Methods, paths and queries: each has a route or is refused, and an operation has a name.

#![no_main]

use hyper::Method;
use outlast_server::{
    operation::Operation,
    route::{Query, route},
};

libfuzzer_sys::fuzz_target!(|data: (u8, &str, &str)| {
    let (method, path, query) = data;
    let methods = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
    ];
    let method = &methods[usize::from(method) % methods.len()];
    if let Ok(route) = route(method, path) {
        assert!(!Operation::of(&route).name().is_empty());
    }
    let query = Query::new(Some(query));
    for name in ["Marker", "MaxItems", "Statuses", ""] {
        let one = query.get(name);
        if let (Ok(one), Ok(all)) = (one, query.all(name)) {
            assert_eq!(one.is_some(), !all.is_empty());
        }
    }
});
