//! Random statements, proxy against one PostgreSQL. `SEED=7 STATEMENTS=20000 SHARDS=3` runs others than the fixed ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::corpus;
use integration_tests::corpus::Differential;
use integration_tests::corpus::Report;
use integration_tests::deployment::SINGLE;
use integration_tests::proxy::root;
use integration_tests::random::data;
use integration_tests::random::run::Runner;
use integration_tests::shop;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn statements_over(shards: usize) {
    let deployment = data::deploy(shards);
    let mut differential = Differential {
        single: Client::connect(&deployment.cluster(0).app(SINGLE)),
        mirror: Client::connect(&deployment.cluster(0).app(shop::MIRRORED)),
        proxy: deployment.connect(),
    };
    let mut report = Report::default();
    for case in corpus::read_directory(&root().join("integration-tests/random/cases"), "sql") {
        differential.check(&case, &mut report);
    }
    report.finish(400);
    let first = number("SEED").unwrap_or(1_000_000 * shards as u64);
    let count = number("STATEMENTS").unwrap_or(400);
    let tally = Runner::new(&deployment).seeds(first..first + count);
    tally.finish(usize::try_from(count / 4).unwrap());
}

#[test]
fn random_statements_over_one_shard() {
    statements_over(1);
}

#[test]
fn random_statements_over_two_shards() {
    statements_over(2);
}

#[test]
fn random_statements_over_four_shards() {
    statements_over(4);
}
