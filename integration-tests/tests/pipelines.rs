//! Random pipelines, proxy against one PostgreSQL. `SEED=7 PIPELINES=2000 SHARDS=3` runs others than the fixed ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::pipelines::run::Runner;
use integration_tests::pipelines::tables;
use std::collections::BTreeMap;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn pipelines_over(shards: usize) {
    let deployment = tables::deploy(shards);
    let first = number("SEED").unwrap_or(1_000_000 * shards as u64);
    let count = number("PIPELINES").unwrap_or(60);
    let tally = Runner::new(&deployment).seeds(first..first + count);
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    tally.refused.iter().for_each(|why| *refused.entry(why).or_default() += 1);
    println!("{} pipelines, {} messages, refused: {refused:#?}", tally.pipelines, tally.messages);
    assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n\n"));
    assert!(tally.refused.len() * 4 < tally.pipelines + 4, "too many pipelines are refused: {refused:#?}");
}

#[test]
fn random_pipelines_over_one_shard() {
    pipelines_over(1);
}

#[test]
fn random_pipelines_over_two_shards() {
    pipelines_over(2);
}

#[test]
fn random_pipelines_over_three_shards() {
    pipelines_over(3);
}
