//! The harness of the integration tests: real PostgreSQL clusters, the proxy as a process, a raw protocol client.
//!
//! Every PostgreSQL is a process on a free loopback port, and ends with the test process, however that ends.
//! With `DIRECT=1` in the environment there is no proxy: the tests speak to one PostgreSQL, which must pass them too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod application;
pub mod bank;
pub mod client;
pub mod corpus;
pub mod deployment;
pub mod habit;
pub mod layout;
pub mod ledger;
pub mod link;
pub mod message;
pub mod outcome;
pub mod pipelines;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod random;
pub mod script;
pub mod shop;
pub mod tools;

/// Whether the tests run against PostgreSQL itself, to check the tests.
pub fn direct() -> bool {
    std::env::var_os("DIRECT").is_some_and(|v| v != "0" && !v.is_empty())
}
