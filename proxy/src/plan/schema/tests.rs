//! A small database of three shards, and what becomes of statements on it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alter;
mod create;
mod fixture;
mod others;
mod rows;
