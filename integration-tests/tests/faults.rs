//! Faults at every step of a commit over three shards: connections cut, the proxy killed, a shard restarted or away.
//! Afterwards all shards agree, nothing is left prepared, and the client was told the truth or "unknown".
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client;
use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::direct;
use integration_tests::ledger;
use integration_tests::ledger::Ledger;
use integration_tests::ledger::Told;
use integration_tests::link::Go;
use integration_tests::link::Stop;
use integration_tests::link::WHENS;
use integration_tests::link::When;
use integration_tests::outcome::MODES;
use integration_tests::outcome::Mode;
use integration_tests::postgres::APP;
use integration_tests::postgres::Cluster;
use std::thread;
use std::time::Duration;

/// How long a step may take to come.
const STEP_LIMIT: Duration = Duration::from_secs(20);

/// Longer than the time between two looks of a proxy.
const STALL: Duration = Duration::from_millis(2500);

/// A message of a commit, in the order in which they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write,
    Decision,
    Prepare(usize),
    Commit,
    CommitPrepared(usize),
}

/// The steps of a transaction that writes on one shard, and on three.
const ONE: [Step; 2] = [Step::Write, Step::Commit];
const THREE: [Step; 7] = [
    Step::Write,
    Step::Decision,
    Step::Prepare(0),
    Step::Prepare(1),
    Step::Commit,
    Step::CommitPrepared(0),
    Step::CommitPrepared(1),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// The connection that carries the message is lost.
    Cut,
    /// The proxy is killed, and the message with it.
    Kill,
    /// The proxy is killed, and the message comes to the shard when the next proxy has looked already.
    KillLate,
    /// The shard crashes and comes back.
    Restart,
    /// The shard is not to be reached for a while.
    Away,
    /// The wire is slow: slower than proxies look for what was left behind.
    Stall,
    /// The client asks to cancel.
    Cancel,
}

fn stop(ledger: &Ledger, step: Step, when: When) -> Stop {
    let (skip, begin): (usize, &'static str) = match step {
        Step::Write => (0, "update"),
        Step::Decision => (0, "select shardway."),
        Step::Prepare(n) => (n, "prepare transaction"),
        Step::Commit => (0, "commit"),
        Step::CommitPrepared(n) => (n, "commit prepared"),
    };
    let pattern = move |text: &str| {
        let text = text.trim().trim_end_matches(';').to_ascii_lowercase();
        if step == Step::Commit { text == begin } else { text.starts_with(begin) }
    };
    ledger.deployment.links().stop_at(APP, when, skip, Box::new(pattern))
}

/// Does the deed while the message is held.
fn act(ledger: &mut Ledger, deed: Deed, when: When, shard: usize, stop: Stop, key: &(i32, Vec<u8>)) {
    match deed {
        Deed::Cut => stop.release(Go::Cut),
        Deed::Kill => {
            ledger.deployment.proxy.as_mut().unwrap().kill();
            stop.release(Go::Cut);
            ledger.deployment.proxy.as_mut().unwrap().run().unwrap();
        }
        Deed::KillLate => {
            ledger.deployment.proxy.as_mut().unwrap().kill();
            ledger.deployment.proxy.as_mut().unwrap().run().unwrap();
            thread::sleep(Duration::from_millis(700));
            stop.release(Go::On);
        }
        Deed::Restart => {
            ledger.deployment.clusters[shard].stop("QUIT");
            ledger.deployment.clusters[shard].start();
            stop.release(if when == When::Answered { Go::On } else { Go::Cut });
        }
        Deed::Away => {
            ledger.deployment.links().close(shard);
            stop.release(Go::Cut);
            thread::sleep(Duration::from_millis(700));
            ledger.deployment.links().open(shard);
        }
        Deed::Stall => {
            thread::sleep(STALL);
            stop.release(Go::On);
        }
        Deed::Cancel => {
            client::cancel(ledger.deployment.address().port, key.0, &key.1);
            thread::sleep(Duration::from_millis(50));
            stop.release(Go::On);
        }
    }
}

/// One transaction with one fault in it.
fn case(ledger: &mut Ledger, step: Step, when: When, deed: Deed) -> Told {
    let number = ledger.take_number();
    let case = format!("{deed:?} {when:?} {step:?}, number {number}");
    let mode = if number % 2 == 0 { Mode::Simple } else { Mode::Text };
    let keys = ledger.keys.clone();
    let client = Client::try_connect(&ledger.deployment.address()).unwrap_or_else(|e| panic!("{case}: {e:?}"));
    let key = (client.process, client.secret.clone());
    let stop = stop(ledger, step, when);
    let writer = thread::spawn(move || ledger::write(client, mode, &keys, number));
    let Some(shard) = stop.reached(STEP_LIMIT) else { panic!("{case}: no such message: {:?}", writer.join()) };
    act(ledger, deed, when, shard, stop, &key);
    let told = writer.join().unwrap_or_else(|_| panic!("{case}: the client got no answer"));
    ledger.settle(number, &told, &case);
    told
}

fn matrix(ledger: &mut Ledger, steps: &[Step], deeds: &[Deed]) {
    for deed in deeds {
        for step in steps {
            for when in WHENS {
                let begin = std::time::Instant::now();
                let told = case(ledger, *step, when, *deed);
                println!("{deed:?} {when:?} {step:?}: {told:?} in {:?}", begin.elapsed());
            }
        }
    }
}

#[test]
fn one_shard() {
    if direct() {
        return;
    }
    let mut ledger = Ledger::start(1, Cluster::builder().setting("synchronous_commit", "on"));
    matrix(&mut ledger, &ONE, &[Deed::Cut, Deed::Kill, Deed::Restart]);
}

fn three_shards(deeds: &[Deed]) {
    if direct() {
        return;
    }
    // The clusters commit asynchronously; a decision must not.
    let mut ledger = Ledger::start(3, Cluster::builder());
    matrix(&mut ledger, &THREE, deeds);
}

#[test]
fn connections_are_cut() {
    three_shards(&[Deed::Cut]);
}

#[test]
fn the_proxy_is_killed() {
    three_shards(&[Deed::Kill]);
}

#[test]
fn the_proxy_is_killed_and_messages_come_late() {
    three_shards(&[Deed::KillLate]);
}

#[test]
fn a_shard_crashes() {
    three_shards(&[Deed::Restart]);
}

#[test]
fn a_shard_is_away() {
    three_shards(&[Deed::Away]);
}

#[test]
fn cancel_requests_come() {
    three_shards(&[Deed::Cancel]);
}

/// A second proxy looks for transactions that were left behind, while the first is only slow.
#[test]
fn a_rival_looks_while_messages_are_slow() {
    if direct() {
        return;
    }
    let mut ledger = Ledger::start(3, Cluster::builder());
    ledger.start_rival();
    for step in [Step::Prepare(1), Step::Commit, Step::CommitPrepared(0)] {
        let told = case(&mut ledger, step, When::Before, Deed::Stall);
        assert_eq!(told, Told::Committed, "{step:?}");
    }
}

/// The client does not wait for the answer to its COMMIT.
#[test]
fn clients_go_away_while_they_commit() {
    if direct() {
        return;
    }
    let mut ledger = Ledger::start(3, Cluster::builder());
    for step in &THREE[1..] {
        let number = ledger.take_number();
        let stop = stop(&ledger, *step, When::Before);
        ledger::write_and_leave(ledger.deployment.connect(), &ledger.keys, number);
        if stop.reached(Duration::from_millis(500)).is_some() {
            thread::sleep(Duration::from_millis(50));
            stop.release(Go::On);
        }
        ledger.deployment.links().forget();
        ledger.wait_for_idle();
        ledger.settle(number, &Told::Unknown, &format!("client gone at {step:?}"));
    }
}

/// A shard refuses at the very end, whichever it is: everything is rolled back, and the client gets its error.
#[test]
fn errors_at_the_end_roll_back_everywhere() {
    if direct() {
        return;
    }
    let mut ledger = Ledger::start(3, Cluster::builder());
    for (shard, mode) in [(0, Mode::Simple), (1, Mode::Text), (2, Mode::Simple), (0, Mode::Text)] {
        let (number, key) = (ledger.take_number(), ledger.keys[shard]);
        let mut client = ledger.deployment.connect();
        client.execute("BEGIN");
        for key in &ledger.keys {
            client.execute(&format!("UPDATE ledger SET n = {number} WHERE k = {key}"));
        }
        for _ in 0..2 {
            client.execute(&format!("INSERT INTO entries VALUES ({key}, 1)"));
        }
        let outcome = client.run(mode, "COMMIT", &[]);
        assert_eq!((outcome.sqlstate(), outcome.status), (Some("23505"), 'I'), "{shard}: {outcome:?}");
        ledger.settle(number, &Told::RolledBack(String::new()), &format!("error on s{shard}"));
        client.execute("SELECT 1");
    }
}

/// While half of the shards have committed, nobody sees a half, neither through this proxy nor through another. (A proxy
/// that has died in the middle leaves a half to be seen through others until one of them has recovered it: README says
/// so.)
#[test]
fn nobody_sees_half_a_commit() {
    if direct() {
        return;
    }
    let mut ledger = Ledger::start(3, Cluster::builder());
    ledger.start_rival();
    for (step, when) in [(Step::CommitPrepared(0), When::Before), (Step::CommitPrepared(1), When::Unanswered)] {
        let (number, keys) = (ledger.take_number(), ledger.keys.clone());
        let client = ledger.deployment.connect();
        let stop = stop(&ledger, step, when);
        let writer = thread::spawn(move || ledger::write(client, Mode::Simple, &keys, number));
        stop.reached(STEP_LIMIT).expect("the second phase");
        let rival = ledger.rival.as_ref().map(|rival| rival.port);
        for port in [Some(ledger.deployment.address().port), rival].into_iter().flatten() {
            sees_no_half(&Address { port, ..ledger.deployment.address() }, &format!("{step:?} {when:?}"));
        }
        stop.release(Go::On);
        let told = writer.join().unwrap();
        ledger.settle(number, &told, &format!("{step:?} {when:?}"));
    }
}

fn sees_no_half(address: &Address, case: &str) {
    for mode in MODES {
        for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
            let mut client = Client::connect(address);
            client.execute(&format!("BEGIN ISOLATION LEVEL {isolation}"));
            let outcome = client.run(mode, "SELECT n FROM ledger ORDER BY n", &[]);
            match outcome.sqlstate() {
                None => assert!(outcome.rows.iter().all(|row| *row == outcome.rows[0]), "{case}: {:?}", outcome.rows),
                Some(state) => assert!(["40001", "08006"].contains(&state), "{case}: {outcome:?}"),
            }
        }
    }
}
