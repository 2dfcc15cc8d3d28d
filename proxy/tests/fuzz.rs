//! Every decoder against mutated input: one test for each. What must hold: nothing panics; what is decoded and encoded
//! again are the same bytes; no input takes more memory or time than its bound.
//!
//! `FUZZ_SECONDS=600 SEED=7 cargo test -p shardway --test fuzz -- sql_plan` runs a target for ten minutes; without the
//! variable each runs for a second, from a seed of its own. A finding is reduced and printed with its seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "fuzz/engine.rs"]
mod engine;
#[path = "fuzz/files.rs"]
mod files;
#[path = "plan/fixture.rs"]
mod fixture;
#[path = "fuzz/messages.rs"]
mod messages;
#[path = "fuzz/mutate.rs"]
mod mutate;
#[allow(dead_code, reason = "its other users need all of it")]
#[path = "../../integration-tests/src/random/rng.rs"]
mod rng;
#[path = "fuzz/sql.rs"]
mod sql;
#[path = "fuzz/values.rs"]
mod values;

use stats_alloc::INSTRUMENTED_SYSTEM;
use stats_alloc::StatsAlloc;
use std::alloc::System;

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
