//! Shardway: many PostgreSQL servers answer as one database.
//!
//! The modules stand in reading order, which is the order of dependency: a module imports only modules above it.
//! `tests/tidy.rs` checks that, and that nothing above the line does I/O or reads a clock.

pub mod error;
pub mod limits;
pub mod telemetry;
pub mod value;
pub mod wire;
pub mod sql;
pub mod config;
pub mod variables;
pub mod catalog;
pub mod plan;
pub mod route;
pub mod merge;
// ---- no I/O and no clock above this line ----
pub mod tls;
pub mod net;
pub mod auth;
pub mod pool;
pub mod control;
pub mod exec;
pub mod session;
pub mod admin;
pub mod server;
pub mod demo;
pub mod app;
