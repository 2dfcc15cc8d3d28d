//! Leases, sends, merges, answers: the I/O behind a plan.

pub mod backends;
pub mod cache;
pub mod commit;
pub mod copy;
pub mod database;
pub mod deadlock;
pub mod everyone;
pub mod finish;
pub mod gid;
pub mod listen;
pub mod load;
pub mod relay;
pub mod room;
pub mod scatter;
pub mod settle;
pub mod snapshots;
pub mod split;
pub mod unload;
