//! Leases, sends, merges, answers: the I/O behind a plan.

pub mod backends;
pub mod cache;
pub mod copy;
pub mod database;
pub mod everyone;
pub mod finish;
pub mod relay;
pub mod scatter;
pub mod split;
