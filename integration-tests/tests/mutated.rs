//! Streams of valid messages in which some were changed, cut, doubled or left out, by seed: the proxy answers each as
//! PostgreSQL does, or refuses with 0A000; it neither hangs nor panics, another client is served beside, and no server
//! connection stays in the middle of something. `MUTATED_SECONDS=600 SEED=7` runs longer, and others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::deployment::SINGLE;
use integration_tests::direct;
use integration_tests::message;
use integration_tests::message::Message;
use integration_tests::random::rng::Rng;
use integration_tests::script;
use integration_tests::shop;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// After this silence nothing more is sent: a message may have been made to wait for more.
const SILENCE: Duration = Duration::from_millis(400);
/// And then the connection is closed within this time.
const LIMIT: Duration = Duration::from_secs(10);

/// Nothing here leaves anything behind: what is written is written as it was, or is not allowed. Not among them: COPY
/// into several shards, where the message that ends the data may be read before a shard has refused a row; and SET in a
/// block that fails, whose setting PostgreSQL tells as it was at once, and the proxy with ROLLBACK.
const STATEMENTS: [&str; 24] = [
    "SELECT 1",
    "SELECT $1::bigint",
    "SELECT name FROM tenants WHERE tenant_id = 3",
    "SELECT name FROM tenants WHERE tenant_id = $1",
    "SELECT tenant_id FROM tenants WHERE tenant_id <= $1 ORDER BY tenant_id",
    "SELECT count(*) FROM orders",
    "SELECT code, name FROM countries ORDER BY code",
    "SELECT id FROM notes WHERE id < 4 ORDER BY id",
    "SELECT 1; SELECT name FROM tenants WHERE tenant_id = 4",
    "SELECT 1/0",
    "SELEC",
    "",
    ";",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "ROLLBACK TO a",
    "SHOW timezone",
    "UPDATE tenants SET name = name WHERE tenant_id = $1",
    "UPDATE countries SET name = name",
    "INSERT INTO notes VALUES (1, 'there already')",
    "COPY (SELECT code FROM countries ORDER BY code) TO STDOUT",
    "COPY notes (id) FROM STDIN",
];

fn valid(rng: &mut Rng) -> Vec<u8> {
    let name = ["", "", "", "s", "t"][rng.below(5)];
    let portal = ["", "", "", "p", "q"][rng.below(5)];
    let statement = STATEMENTS[rng.below(STATEMENTS.len())];
    match rng.below(16) {
        0..=2 => message::query(&statement.replace("$1", "5")),
        3..=5 => message::parse(name, statement, &[]),
        6..=8 => {
            let values: Vec<Option<Vec<u8>>> = (0..rng.below(2)).map(|_| Some(b"5".to_vec())).collect();
            message::bind(portal, name, &[], &values, &[])
        }
        9..=11 => message::execute(portal, rng.below(3) as i32),
        12 => message::describe(if rng.chance(50) { b'S' } else { b'P' }, name),
        13 => message::close(if rng.chance(50) { b'S' } else { b'P' }, name),
        14 => match rng.below(5) {
            0 => message::flush(),
            1 => message::frame(b'd', b"1\n"),
            2 => message::frame(b'c', b""),
            3 => message::frame(b'f', b"stopped\0"),
            _ => message::function_call(964, &[vec![0, 0, 0, 1]]),
        },
        _ => message::sync(),
    }
}

/// Some messages, of which some are changed.
fn stream(rng: &mut Rng) -> Vec<u8> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for _ in 0..2 + rng.below(10) {
        if rng.chance(35) {
            // What belongs together: a statement over parameters is bound with one.
            let statement = STATEMENTS[rng.below(STATEMENTS.len())];
            let values: &[Option<Vec<u8>>] = if statement.contains('$') { &[Some(b"5".to_vec())] } else { &[] };
            messages.push(message::parse("", statement, &[]));
            messages.push(message::bind("", "", &[], values, &[]));
            messages.push(message::execute("", 0));
        } else {
            messages.push(valid(rng));
        }
    }
    for _ in 0..rng.below(4) {
        let at = rng.below(messages.len());
        let other = messages[rng.below(messages.len())].clone();
        let length = messages[at].len();
        let message = &mut messages[at];
        match rng.below(9) {
            0 => message.clone_from(&other),
            1 => message.clear(),
            2 if length > 5 => message[5 + rng.below(length - 5)] ^= 1 << rng.below(8),
            3 if length > 5 => message[5 + rng.below(length - 5)] = rng.below(256) as u8,
            4 if length > 0 => message[0] = b"QPBEDCHSdcfFXpz\0"[rng.below(16)],
            5 if length > 4 => message[4] = message[4].wrapping_add(rng.below(5) as u8).wrapping_sub(2),
            6 => message.truncate(rng.below(length + 1)),
            7 if length > 5 => {
                // Shorter, or longer, and whole.
                let mut body = message[5..].to_vec();
                if rng.chance(50) {
                    body.truncate(rng.below(body.len()))
                } else {
                    body.push(rng.below(256) as u8)
                }
                *message = message::frame(message[0], &body);
            }
            8 if length > 8 => {
                let edge = [0xff_u8, 0x7f, 0x80, 0, 1][rng.below(5)];
                let start = 5 + rng.below(length - 7);
                message[start..start + 2].copy_from_slice(&[edge, 0xff]);
            }
            _ => message.extend(other),
        }
    }
    messages.concat()
}

/// What a server says to a stream, and to a question behind it; `None` when it falls silent for too long.
fn answers(address: &Address, bytes: &[u8]) -> Option<Vec<String>> {
    let mut client = Client::connect(address);
    client.set_limit(SILENCE);
    client.send(bytes);
    client.send(&[message::frame(b'f', b"end\0"), message::sync(), message::query("SELECT 'the end'")].concat());
    let mut said = Vec::new();
    let mut silent = None;
    loop {
        match client.try_receive() {
            Some(Message::Closed) => {
                said.push(if silent.is_some() { "(silent) Closed" } else { "Closed" }.to_owned());
                return Some(said);
            }
            Some(message) => {
                let end = matches!(&message, Message::DataRow(row) if row[0].as_deref() == Some(b"the end"));
                said.push(script::show(&message));
                if end {
                    return Some(said);
                }
            }
            None => match silent {
                None => {
                    client.finish();
                    client.set_limit(Duration::from_secs(1));
                    silent = Some(Instant::now());
                }
                Some(since) if Instant::now() > since + LIMIT => return None,
                Some(_) => {}
            },
        }
    }
}

/// Answers within a pipeline may be written before they have to be, and so before the connection is closed for a
/// message that cannot be one.
fn is_early(bytes: &[u8], expected: &[String], got: &[String]) -> bool {
    let (Some((end, expected)), Some((last, got))) = (expected.split_last(), got.split_last()) else { return false };
    // No statement has an X in it: it is a Terminate.
    let left = end.starts_with("(silent) ") || bytes.contains(&b'X');
    let (end, last) = (end.trim_start_matches("(silent) "), last.trim_start_matches("(silent) "));
    if left && end == "Closed" && last == "Closed" && expected.starts_with(got) {
        // What waits for Sync or Flush was not run: the client has left without either.
        return true;
    }
    end == "Closed"
        && last == "Closed"
        && got.starts_with(expected)
        && !got[expected.len()..].iter().any(|m| m.contains("FATAL"))
}

/// Serves as long as it is asked to, and every answer is its own.
fn witness(address: &Address, over: &AtomicBool) -> u64 {
    let mut client = Client::connect(address);
    let mut rounds = 0;
    while !over.load(Ordering::Relaxed) {
        for tenant in 1..=8 {
            let name = client.simple(&format!("SELECT name FROM tenants WHERE tenant_id = {tenant}"));
            assert_eq!(name.ok().value(), format!("tenant {tenant}"));
        }
        assert_eq!(client.simple("SELECT count(*) FROM tenants").ok().value(), "24");
        rounds += 1;
        thread::sleep(Duration::from_millis(20));
    }
    rounds
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn streams_that_were_changed_are_answered_as_postgresql_does() {
    if direct() {
        return;
    }
    let deployment = shop::deploy(shop::layout(2));
    let (proxy, plain) = (deployment.address(), deployment.cluster(0).app(SINGLE));
    let seed = number("SEED").unwrap_or(1);
    // So many, the same on every machine, unless it is asked for a time.
    let most = if number("MUTATED_SECONDS").is_some() { u64::MAX } else { 300 };
    let end = Instant::now() + Duration::from_secs(number("MUTATED_SECONDS").unwrap_or(120));
    let over = AtomicBool::new(false);
    let mut differences = Vec::new();
    let (mut streams, mut refused) = (0_u64, 0_u64);
    thread::scope(|scope| {
        let beside = scope.spawn(|| witness(&proxy, &over));
        while Instant::now() < end && streams < most && differences.len() < 10 {
            let mut rng = Rng::new(seed.wrapping_mul(1_000_003).wrapping_add(streams));
            let bytes = stream(&mut rng);
            let hex = message::readable(&[&bytes[..], b"\0"].concat());
            match (answers(&plain, &bytes), answers(&proxy, &bytes)) {
                (_, None) => differences.push(format!("no answer and no end to {hex}")),
                (expected, Some(got)) if got.iter().any(|m| m.contains(" 0A000: ")) && expected.is_some() => {
                    refused += 1
                }
                (Some(expected), Some(got)) if expected != got && !is_early(&bytes, &expected, &got) => {
                    let (expected, got) = (expected.join("\n"), got.join("\n"));
                    differences.push(format!("{hex}\nPostgreSQL:\n{expected}\nthe proxy:\n{got}"));
                }
                _ => {}
            }
            streams += 1;
        }
        over.store(true, Ordering::Relaxed);
        assert!(beside.join().expect("the other client is served") > 0);
    });
    println!("{streams} streams, {refused} refused, seed {seed}");
    assert!(differences.is_empty(), "{} of {streams}\n{}", differences.len(), differences.join("\n\n"));
    assert!(!deployment.proxy().log().contains("panicked"), "{}", deployment.proxy().log());
    // Nothing was left open.
    for shard in deployment.shards() {
        let mut client = Client::connect(&shard);
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
                    AND state <> 'idle'";
        let calm = Instant::now() + Duration::from_secs(5);
        while client.simple(busy).ok().value() != "0" {
            assert!(Instant::now() < calm, "server connections are still busy");
            thread::sleep(Duration::from_millis(50));
        }
    }
}
