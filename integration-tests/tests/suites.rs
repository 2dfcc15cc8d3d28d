//! A sample of the public test suites and of our own checks of clients: what passes with PostgreSQL itself passes through
//! the proxy, or is explained in deviations/. `make suites` runs them whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::direct;
use integration_tests::proxy::binary;
use integration_tests::tools;
use integration_tests::tools::said;
use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// Sources are fetched and built the first time.
const LIMIT: Duration = Duration::from_secs(900);

/// They share an environment, which the first makes.
static TURN: Mutex<()> = Mutex::new(());

fn sample(suite: &str) {
    if direct() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut command = Command::new(format!("{root}/scripts/suites"));
    command.current_dir(root).args(["--sample", "--only", suite, "--binary"]).arg(binary());
    let output = tools::output_within(&mut command, LIMIT).unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn asyncpg() {
    sample("asyncpg");
}

#[test]
fn psycopg2() {
    sample("psycopg2");
}

#[test]
fn pg8000() {
    sample("pg8000");
}

#[test]
fn node_postgres() {
    sample("node_postgres");
}

#[test]
fn postgres_js() {
    sample("postgres_js");
}

#[test]
fn psycopg3() {
    sample("psycopg3");
}
