//! Statements on one PostgreSQL and through the proxy over 1–4 shards, compared: columns, types, rows, tag, SQLSTATE.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::corpus;
use integration_tests::corpus::Differential;
use integration_tests::corpus::Report;
use integration_tests::deployment::SINGLE;
use integration_tests::proxy::root;
use integration_tests::shop;

fn shop_over(shards: usize) {
    let deployment = shop::deploy(shop::layout(shards));
    let cluster = deployment.cluster(0);
    let mut differential = Differential {
        single: Client::connect(&cluster.app(SINGLE)),
        mirror: Client::connect(&cluster.app(shop::MIRRORED)),
        proxy: deployment.connect(),
    };
    let mut report = Report::default();
    for case in corpus::read_directory(&root().join("integration-tests/slt"), "sql") {
        differential.check(&case, &mut report);
    }
    report.finish(300);
}

#[test]
fn shop_over_one_shard() {
    shop_over(1);
}

#[test]
fn shop_over_two_shards() {
    shop_over(2);
}

#[test]
fn shop_over_three_shards() {
    shop_over(3);
}

#[test]
fn shop_over_four_shards() {
    shop_over(4);
}
