//! Transactions on two shards that wait for each other: no shard sees the cycle, and yet it ends as in one PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::layout::Layout;
use integration_tests::outcome::MODES;
use integration_tests::outcome::Mode;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Account n lives on shard n.
fn deploy() -> Deployment {
    let lines = "function = \"list\"\nlists = [{ values = [1], shard = \"s1\" }]\ndefault = \"s0\"";
    let layout = Layout::new(2).map("ids", &["bigint"], lines).sharded("public.accounts", &["id"]);
    let deployment = Deployment::start(layout);
    let mut client = deployment.connect();
    client.execute("CREATE TABLE accounts (id bigint PRIMARY KEY, balance integer)");
    client.execute("INSERT INTO accounts VALUES (0, 0), (1, 0)");
    deployment
}

/// Each runs its first statement, then the second, which waits for the other's first. One of them must be told of the
/// deadlock in time, the other goes on.
fn meet(deployment: &Deployment, mode: Mode, one: [&str; 2], other: [&str; 2]) {
    let (mut first, mut second) = (deployment.connect(), deployment.connect());
    for (client, [statement, _]) in [(&mut first, one), (&mut second, other)] {
        client.execute("BEGIN");
        client.run(mode, statement, &[]).ok();
    }
    let begun = Instant::now();
    let end = |mut client: Client, sql: String| {
        thread::spawn(move || {
            let outcome = client.run(mode, &sql, &[]);
            let code = outcome.sqlstate().map(str::to_owned);
            client.execute(if code.is_some() { "ROLLBACK" } else { "COMMIT" });
            // The session goes on.
            assert_eq!(client.simple("SELECT count(*) FROM accounts").ok().value(), "2");
            (code, outcome)
        })
    };
    let first = end(first, one[1].to_owned());
    thread::sleep(Duration::from_millis(50));
    let second = end(second, other[1].to_owned());
    let codes = [first.join().unwrap().0, second.join().unwrap().0];
    let told: Vec<&str> = codes.iter().flatten().map(String::as_str).collect();
    assert_eq!(told, ["40P01"], "{one:?} {other:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn deadlocks_over_two_shards_end() {
    let deployment = deploy();
    let update = |id: u8| format!("UPDATE accounts SET balance = balance + 1 WHERE id = {id}");
    let (zero, one) = (update(0), update(1));
    for mode in MODES {
        meet(&deployment, mode, [&zero, &one], [&one, &zero]);
    }
    // Each victim's changes are undone.
    let sum = "SELECT sum(balance) FROM accounts";
    assert_eq!(deployment.connect().simple(sum).ok().value(), (2 * MODES.len()).to_string());
    // A statement over both shards, and one on a single one.
    meet(&deployment, Mode::Simple, [&zero, "UPDATE accounts SET balance = 0"], [&one, &zero]);
}

/// Waiting is no deadlock.
#[test]
fn who_waits_long_is_let_wait() {
    let deployment = deploy();
    let (mut holder, mut waiter) = (deployment.connect(), deployment.connect());
    for client in [&mut holder, &mut waiter] {
        client.execute("BEGIN");
    }
    holder.execute("UPDATE accounts SET balance = 1");
    let waits = thread::spawn(move || {
        waiter.execute("UPDATE accounts SET balance = 2");
        waiter.execute("COMMIT");
    });
    thread::sleep(Duration::from_secs(4));
    assert!(!waits.is_finished());
    holder.execute("COMMIT");
    waits.join().unwrap();
    assert_eq!(deployment.connect().simple("SELECT sum(balance) FROM accounts").ok().value(), "4");
}
