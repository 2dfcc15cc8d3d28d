//! Transactions that write on several shards commit everywhere or nowhere, and nobody sees half of one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::outcome::End;
use integration_tests::outcome::MODES;
use integration_tests::postgres::Cluster;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

const TABLES: &str = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);
    CREATE TABLE notes (id bigint NOT NULL, parent bigint, text text);
    ALTER TABLE notes ADD CONSTRAINT notes_parent FOREIGN KEY (id) REFERENCES accounts DEFERRABLE INITIALLY DEFERRED";

/// Account n lives on shard n (up to 2).
fn layout(shards: usize) -> Layout {
    let lists: Vec<String> = (0..shards).map(|n| format!("{{ values = [{n}], shard = \"s{n}\" }}")).collect();
    let lines = format!("function = \"list\"\nlists = [{}]\ndefault = \"s0\"", lists.join(", "));
    Layout::new(shards)
        .map("ids", &["bigint"], &lines)
        .sharded("public.accounts", &["id"])
        .sharded("public.notes", &["id"])
}

fn start(shards: usize) -> Deployment {
    let deployment = Deployment::start(layout(shards));
    fill(&deployment);
    deployment
}

fn fill(deployment: &Deployment) {
    let mut client = deployment.connect();
    for statement in TABLES.split(';') {
        client.execute(statement);
    }
    for id in 0..deployment.layout.shards {
        client.execute(&format!("INSERT INTO accounts VALUES ({id}, 100)"));
    }
}

fn on_shard(deployment: &Deployment, shard: usize, sql: &str) -> String {
    Client::connect(&deployment.shard(shard)).simple(sql).ok().value()
}

fn balances(deployment: &Deployment) -> Vec<String> {
    let one = |shard| on_shard(deployment, shard, &format!("SELECT balance FROM accounts WHERE id = {shard}"));
    (0..deployment.layout.shards).map(one).collect()
}

/// Nothing is prepared any more.
fn assert_nothing_left(deployment: &Deployment) {
    let limit = Instant::now() + Duration::from_secs(15);
    for shard in 0..deployment.layout.shards {
        while on_shard(deployment, shard, "SELECT count(*) FROM pg_prepared_xacts") != "0" {
            assert!(Instant::now() < limit, "something stays prepared on shard {shard}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn add(client: &mut Client, id: usize, amount: i64) {
    client.execute(&format!("UPDATE accounts SET balance = balance + {amount} WHERE id = {id}"));
}

#[test]
fn a_transaction_commits_on_all_its_shards() {
    for shards in [2, 3] {
        let deployment = start(shards);
        let mut client = deployment.connect();
        client.execute("BEGIN");
        (0..shards).for_each(|id| add(&mut client, id, 1));
        assert_eq!(client.simple("COMMIT").tag(), "COMMIT");
        assert_eq!(balances(&deployment), vec!["101"; shards]);
        client.execute("BEGIN");
        (0..shards).for_each(|id| add(&mut client, id, 1));
        assert_eq!(client.simple("ROLLBACK").tag(), "ROLLBACK");
        assert_eq!(balances(&deployment), vec!["101"; shards]);
        // Several statements in one Query are a transaction too.
        client.execute("UPDATE accounts SET balance = 7 WHERE id = 0; UPDATE accounts SET balance = 7 WHERE id = 1");
        assert_eq!(balances(&deployment)[..2], ["7", "7"]);
        let failed = client
            .simple_all("UPDATE accounts SET balance = 8 WHERE id = 0; UPDATE accounts SET balance = 1/0 WHERE id = 1");
        assert_eq!(failed.last().unwrap().sqlstate(), Some("22012"));
        assert_eq!(balances(&deployment)[..2], ["7", "7"]);
        assert_nothing_left(&deployment);
        drop(deployment);
    }
}

#[test]
fn savepoints_are_on_all_shards() {
    let deployment = start(2);
    let mut client = deployment.connect();
    client.execute("BEGIN");
    add(&mut client, 0, 1);
    client.execute("SAVEPOINT a");
    add(&mut client, 0, 10);
    add(&mut client, 1, 10);
    client.execute("ROLLBACK TO a");
    add(&mut client, 1, 2);
    client.execute("COMMIT");
    assert_eq!(balances(&deployment), ["101", "102"]);
}

#[test]
fn an_error_at_commit_undoes_it_everywhere() {
    let deployment = start(2);
    let mut client = deployment.connect();
    for failing in [0, 1] {
        client.execute("BEGIN");
        add(&mut client, 0, 1);
        add(&mut client, 1, 1);
        let missing = if failing == 0 { 10 } else { 1 };
        if failing == 1 {
            client.execute("DELETE FROM accounts WHERE id = 1");
        }
        client.execute(&format!("INSERT INTO notes VALUES ({missing}, 1, 'x')"));
        let commit = client.simple("COMMIT");
        assert_eq!(commit.sqlstate(), Some("23503"), "{failing}");
        assert_eq!(commit.status, 'I');
        assert_eq!(balances(&deployment), ["100", "100"]);
    }
    assert_nothing_left(&deployment);
}

#[test]
fn what_cannot_be_prepared_decides() {
    let deployment = start(2);
    let mut client = deployment.connect();
    client.execute("CREATE TEMP TABLE t (x bigint)");
    client.execute("BEGIN");
    client.execute("INSERT INTO t VALUES (1)");
    add(&mut client, 0, 1);
    add(&mut client, 1, 1);
    client.execute("COMMIT");
    assert_eq!(balances(&deployment), ["101", "101"]);
    assert_eq!(client.simple("SELECT count(*) FROM t").ok().value(), "1");
    let mut other = deployment.connect();
    other.execute("BEGIN");
    add(&mut other, 1, 1);
    other.execute("NOTIFY news, 'first'");
    add(&mut other, 0, 1);
    other.execute("COMMIT");
    assert_eq!(balances(&deployment), ["102", "102"]);
}

#[test]
fn a_pipeline_commits_at_sync() {
    let deployment = start(2);
    let mut client = deployment.connect();
    let update = |id: usize, to: &str| {
        let text = format!("UPDATE accounts SET balance = {to} WHERE id = $1");
        let value = Some(id.to_string().into_bytes());
        [message::parse("", &text, &[20]), message::bind("", "", &[], &[value], &[]), message::execute("", 0)].concat()
    };
    client.send(&[update(0, "1"), update(1, "1"), update(0, "balance + 1"), message::sync()].concat());
    let outcomes = client.outcomes();
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(|o| o.tag() == "UPDATE 1"));
    assert_eq!(outcomes[0].status, 'I');
    assert_eq!(balances(&deployment), ["2", "1"]);
    // An error takes everything back.
    client.send(&[update(0, "5"), update(1, "5"), update(1, "1/0"), update(0, "6"), message::sync()].concat());
    let outcomes = client.outcomes();
    assert_eq!(outcomes.iter().map(|o| o.sqlstate()).collect::<Vec<_>>(), [None, None, Some("22012")]);
    assert_eq!(balances(&deployment), ["2", "1"]);
    // An error at commit is told before ReadyForQuery.
    let insert = [
        message::parse("", "INSERT INTO notes VALUES (10, 1, 'x')", &[]),
        message::bind("", "", &[], &[], &[]),
        message::execute("", 0),
    ];
    client.send(&[update(0, "5"), update(1, "5"), insert.concat(), message::sync()].concat());
    let outcomes = client.outcomes();
    assert_eq!(outcomes.last().unwrap().sqlstate(), Some("23503"));
    assert_eq!(balances(&deployment), ["2", "1"]);
    // As a driver does that sends BEGIN and COMMIT in the pipeline.
    let text = |sql: &str| {
        [message::parse("", sql, &[]), message::bind("", "", &[], &[], &[]), message::execute("", 0)].concat()
    };
    client.send(&[text("BEGIN"), update(0, "8"), update(1, "9"), text("COMMIT"), message::sync()].concat());
    let outcomes = client.outcomes();
    assert_eq!(outcomes.last().unwrap().tag(), "COMMIT");
    assert_eq!(balances(&deployment), ["8", "9"]);
    assert_eq!(client.simple("SELECT sum(balance) FROM accounts").ok().value(), "17");
    assert_nothing_left(&deployment);
}

/// The name under which a coordinator would have prepared something on a shard, and what it would record.
fn by_hand(deployment: &Deployment, number: usize, shard: usize) -> (String, String) {
    let mut superuser = Client::connect(&deployment.cluster(0).superuser(&deployment.shard(0).database));
    let installation = superuser.simple("SELECT installation FROM shardway.installation").ok().value();
    let hash = format!("{number:032}");
    let key = format!("shardway:{installation}:s0:{number:032}:{hash}");
    (format!("shardway:{installation}:s0:{number:032}:{shard}:{hash}"), key)
}

#[test]
fn what_a_crash_left_prepared_is_ended_as_decided() {
    if direct() {
        return;
    }
    let mut deployment = start(2);
    for (number, decided) in [(1, true), (2, false)] {
        let (gid, key) = by_hand(&deployment, number, 1);
        deployment.proxy = None;
        let mut shard = Client::connect(&deployment.shard(1));
        shard.execute("BEGIN");
        shard.execute("UPDATE accounts SET balance = balance + 5 WHERE id = 1");
        shard.execute(&format!("PREPARE TRANSACTION '{gid}'"));
        if decided {
            let database = deployment.shard(0).database;
            deployment
                .cluster(0)
                .execute(&database, &format!("INSERT INTO shardway.decision VALUES ('{key}', 'commit')"));
        }
        deployment.start_proxy();
        // Nobody reads the past: the first look finds it committed.
        let read = deployment.connect().simple("SELECT balance FROM accounts WHERE id = 1").ok().value();
        assert_eq!(read, "105", "decided: {decided}");
        assert_nothing_left(&deployment);
    }
}

#[test]
fn an_open_coordinator_is_waited_for() {
    if direct() {
        return;
    }
    let deployment = start(2);
    let (gid, key) = by_hand(&deployment, 3, 1);
    let database = deployment.shard(0).database;
    let mut coordinator = Client::connect(&deployment.cluster(0).superuser(&database));
    coordinator.execute("BEGIN");
    coordinator.execute(&format!("INSERT INTO shardway.decision VALUES ('{key}', 'commit')"));
    let mut shard = Client::connect(&deployment.shard(1));
    shard.execute("BEGIN");
    shard.execute("UPDATE accounts SET balance = 0 WHERE id = 1");
    shard.execute(&format!("PREPARE TRANSACTION '{gid}'"));
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(on_shard(&deployment, 1, "SELECT count(*) FROM pg_prepared_xacts"), "1");
    let said = command(&deployment, "prepared");
    assert!(said.contains(&gid) && said.contains("undecided"), "{said}");
    coordinator.execute("COMMIT");
    assert_nothing_left(&deployment);
    assert_eq!(balances(&deployment), ["100", "0"]);
}

fn command(deployment: &Deployment, name: &str) -> String {
    let program = Command::new(integration_tests::proxy::binary())
        .args([name, "--config"])
        .arg(deployment.proxy().config_path())
        .output()
        .expect("the program runs");
    format!("{}{}", String::from_utf8_lossy(&program.stdout), String::from_utf8_lossy(&program.stderr))
}

#[test]
fn nobody_can_forge_a_decision() {
    let deployment = start(2);
    let (_, key) = by_hand(&deployment, 4, 1);
    let mut shard = Client::connect(&deployment.shard(0));
    assert_eq!(shard.simple(&format!("SELECT shardway.decide('{key}', 'guess')")).ok().value(), "NULL");
    for sql in ["SELECT * FROM shardway.decision", "INSERT INTO shardway.decision VALUES ('x', 'commit')"] {
        assert_eq!(shard.simple(sql).sqlstate(), Some("42501"), "{sql}");
    }
}

#[test]
fn decisions_do_not_stay_on_record() {
    let deployment = start(2);
    let mut client = deployment.connect();
    for _ in 0..5 {
        client.execute("BEGIN");
        add(&mut client, 0, 1);
        add(&mut client, 1, 1);
        client.execute("COMMIT");
    }
    let left = || {
        let database = deployment.shard(0).database;
        let mut shard = Client::connect(&deployment.cluster(0).superuser(&database));
        shard.simple("SELECT count(*) FROM shardway.decision").ok().value()
    };
    let limit = Instant::now() + Duration::from_secs(10);
    while left() != "0" {
        assert!(Instant::now() < limit, "{} decisions stay on record", left());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn unprepared(layout: Layout) -> Deployment {
    let builder = Cluster::builder().setting("max_prepared_transactions", "0");
    let deployment = Deployment::on(layout, builder);
    deployment.execute_on_shards(TABLES);
    for id in 0..deployment.layout.shards {
        Client::connect(&deployment.shard(id)).execute(&format!("INSERT INTO accounts VALUES ({id}, 100)"));
    }
    deployment
}

#[test]
fn without_prepared_transactions_such_writes_are_refused() {
    let deployment = unprepared(layout(2));
    let mut client = deployment.connect();
    client.execute("BEGIN");
    add(&mut client, 0, 1);
    let refused = client.simple("UPDATE accounts SET balance = 0 WHERE id = 1");
    let End::Error(fields) = &refused.end else { panic!("{refused:?}") };
    assert_eq!(fields.sqlstate(), "55000");
    assert!(fields.get('H').contains("max_prepared_transactions"), "{fields:?}");
    client.execute("ROLLBACK");
    // One shard needs none.
    add(&mut client, 1, 1);
    assert_eq!(balances(&deployment), ["100", "101"]);
    assert!(command(&deployment, "check").contains("max_prepared_transactions is 0 on shard s0"));
}

#[test]
fn one_phase_does_without() {
    let deployment = unprepared(layout(2).setting("commit = \"one_phase\""));
    let mut client = deployment.connect();
    client.execute("BEGIN");
    add(&mut client, 0, 1);
    add(&mut client, 1, 1);
    client.execute("COMMIT");
    assert_eq!(balances(&deployment), ["101", "101"]);
}

/// One transaction has one time, whatever shard tells it.
#[test]
fn a_transaction_has_one_time() {
    let deployment = start(3);
    let mut client = deployment.connect();
    for mode in MODES {
        client.execute("BEGIN");
        let mut times = Vec::new();
        for id in [2, 0, 1] {
            let sql = format!("SELECT now(), balance FROM accounts WHERE id = {id} AND now() > '2000-01-01'");
            let outcome = client.run(mode, &sql, &[]).ok();
            assert_eq!(outcome.columns.as_ref().unwrap()[0].name, "now", "{mode:?}");
            times.push(outcome.rows[0][0].clone());
            client.simple("SELECT pg_sleep(0.01)").ok();
        }
        times.push(client.run(mode, "SELECT now()", &[]).ok().rows[0][0].clone());
        times.push(client.run(mode, "SELECT max(now()) FROM accounts", &[]).ok().rows[0][0].clone());
        times.dedup();
        assert_eq!(times.len(), 1, "{mode:?}: {times:?}");
        client.execute("INSERT INTO notes VALUES (0, 1, now()), (1, 1, current_timestamp), (2, 1, now())");
        let same = "SELECT count(DISTINCT text) FROM notes";
        assert_eq!(client.simple(same).ok().value(), "1");
        client.execute("ROLLBACK");
    }
}

#[test]
fn nobody_sees_half_of_a_transfer() {
    let deployment = start(3);
    let stop = AtomicBool::new(false);
    let transfers = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|n| {
                let (deployment, stop) = (&deployment, &stop);
                scope.spawn(move || {
                    let mut client = deployment.connect();
                    let mut done = 0;
                    while !stop.load(Ordering::Relaxed) {
                        // In one order, so that they do not wait for each other in a circle.
                        let (from, to) = if n == 2 { (0, 2) } else { (n, n + 1) };
                        client.execute("BEGIN");
                        add(&mut client, from, -1);
                        add(&mut client, to, 1);
                        client.execute("COMMIT");
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|n| {
                let (deployment, stop) = (&deployment, &stop);
                scope.spawn(move || {
                    let mut client = deployment.connect();
                    let mut reads = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let sum = match n {
                            0 => client.simple("SELECT sum(balance) FROM accounts"),
                            _ => client.extended("SELECT sum(balance) FROM accounts", &[], false),
                        };
                        assert_eq!(sum.ok().value(), "300");
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        let (deployment, flag) = (&deployment, &stop);
        let repeatable = scope.spawn(move || {
            let mut client = deployment.connect();
            let (mut good, mut torn) = (0, 0);
            while !flag.load(Ordering::Relaxed) {
                client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
                let mut sum = 0;
                let mut failed = false;
                for id in 0..3 {
                    let read = client.simple(&format!("SELECT balance FROM accounts WHERE id = {id}"));
                    match read.sqlstate() {
                        Some("40001") => failed = true,
                        None => sum += read.value().parse::<i64>().unwrap(),
                        Some(other) => panic!("{other}"),
                    }
                    if failed {
                        break;
                    }
                }
                client.execute("ROLLBACK");
                if failed {
                    torn += 1;
                } else {
                    assert_eq!(sum, 300);
                    good += 1;
                }
            }
            (good, torn)
        });
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 10);
        }
        repeatable.join().unwrap();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<i32>()
    });
    assert!(transfers > 10, "{transfers}");
    assert_nothing_left(&deployment);
}

/// The client's own prepared transactions: on the shard where the transaction was, found again by any session.
#[test]
fn clients_prepare_transactions_of_one_shard() {
    if direct() {
        return;
    }
    let deployment = start(2);
    let mut client = deployment.connect();
    let mut other = deployment.connect();
    for (id, gid) in [(1, "it's one"), (0, "back\\slash")] {
        let name = gid.replace('\'', "''");
        client.execute("BEGIN");
        client.execute(&format!("UPDATE accounts SET balance = balance + 1 WHERE id = {id}"));
        assert_eq!(client.simple(&format!("PREPARE TRANSACTION '{name}'")).tag(), "PREPARE TRANSACTION");
        assert_eq!(client.simple("SELECT 1").ok().value(), "1");
        other.execute("BEGIN");
        assert_eq!(other.simple(&format!("COMMIT PREPARED '{name}'")).sqlstate(), Some("25001"));
        other.execute("ROLLBACK");
        let end = if id == 1 { "COMMIT" } else { "ROLLBACK" };
        assert_eq!(other.simple(&format!("{end} PREPARED '{name}'")).tag(), format!("{end} PREPARED"));
        assert_eq!(other.simple(&format!("{end} PREPARED '{name}'")).sqlstate(), Some("42704"));
    }
    assert_eq!(balances(&deployment), ["100", "101"]);
    // Outside a block there is nothing to prepare.
    let outcome = client.simple("PREPARE TRANSACTION 'nothing'");
    assert_eq!(outcome.tag(), "ROLLBACK");
    assert_eq!(client.simple("ROLLBACK PREPARED 'nothing'").sqlstate(), Some("42704"));
    // What came before it in the same Query is.
    let outcome = client.simple("UPDATE accounts SET balance = 7 WHERE id = 1; PREPARE TRANSACTION 'same'; SELECT 2");
    assert_eq!(outcome.ok().value(), "2");
    assert_eq!(client.simple("ROLLBACK PREPARED 'same'").tag(), "ROLLBACK PREPARED");
    assert_eq!(balances(&deployment), ["100", "101"]);
    client.execute("BEGIN");
    client.execute("UPDATE accounts SET balance = 0");
    assert_eq!(client.simple("PREPARE TRANSACTION 'both'").sqlstate(), Some("0A000"));
    assert_eq!(balances(&deployment), ["100", "101"]);
}
