//! Protocol scripts: what PostgreSQL answers, recorded, and the same through the proxy.
//!
//! `REWRITE=1 cargo test -p integration-tests --test protocol` records: pgtest/*.pgtest from PostgreSQL,
//! pgtest/deviations/*.pgtest from the proxy (what must differ, each with its reason). `ANSWERS=directory` writes there
//! what is answered, each script as a whole; `SCRIPT=copy` runs that script alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::direct;
use integration_tests::proxy::root;
use integration_tests::script;
use integration_tests::shop;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::LazyLock;

static SHOP: LazyLock<Deployment> = LazyLock::new(|| shop::deploy(shop::layout(2)));

fn scripts(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("integration-tests").join(directory)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "pgtest"));
    paths.sort();
    paths
}

fn check(path: &Path, address: &Address, differences: &mut Vec<String>) {
    let text = fs::read_to_string(path).unwrap();
    let (written, difference) = script::run(&text, address);
    if let Some(directory) = std::env::var_os("ANSWERS") {
        let name = format!("{}-{}", address.database, path.file_name().unwrap().to_string_lossy());
        fs::write(Path::new(&directory).join(name), &written).unwrap();
    }
    if std::env::var_os("REWRITE").is_some() {
        fs::write(path, written.trim_end().to_owned() + "\n").unwrap();
    } else if let Some(difference) = difference {
        differences.push(format!("{}: {difference}", path.display()));
    }
}

fn run_all(directory: &str, address: &Address) {
    let mut differences = Vec::new();
    let only = std::env::var("SCRIPT").ok();
    let chosen = |p: &&PathBuf| only.as_ref().is_none_or(|only| p.file_stem().is_some_and(|stem| *stem == **only));
    scripts(directory).iter().filter(chosen).for_each(|path| check(path, address, &mut differences));
    assert!(differences.is_empty(), "{} scripts differ\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn postgresql_answers_as_recorded() {
    run_all("pgtest", &SHOP.cluster(0).app(SINGLE));
}

#[test]
fn the_proxy_answers_as_postgresql() {
    if std::env::var_os("REWRITE").is_none() {
        run_all("pgtest", &SHOP.address());
    }
}

#[test]
fn one_shard_answers_as_postgresql() {
    others(1);
}

#[test]
fn three_shards_answer_as_postgresql() {
    others(3);
}

fn others(shards: usize) {
    if !direct() && std::env::var_os("REWRITE").is_none() {
        run_all("pgtest", &shop::deploy(shop::layout(shards)).address());
    }
}

#[test]
fn deviations_are_as_recorded() {
    if !direct() {
        run_all("pgtest/deviations", &SHOP.address());
    }
}
