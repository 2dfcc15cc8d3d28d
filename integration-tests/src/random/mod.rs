//! Random statements over a fixed schema, run on one PostgreSQL and through the proxy, and compared.
//!
//! A statement follows from its seed alone; a failure prints the seed and the statement, made as small as possible.

pub mod data;
pub mod expressions;
pub mod generator;
pub mod query;
pub mod rng;
pub mod run;
pub mod shrink;
pub mod tables;
pub mod writes;
