//! Two thousand clients on small pools, with pipelines by seed: every reply is the client's own. Some cancel, some go
//! away without a word. `SEED=7 CROWD=500 CROWD_SECONDS=600` runs others, fewer, longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use integration_tests::random::rng::Rng;
use std::fs;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// The longest wait for a reply: the pools are small, and all ask at once.
const LIMIT: Duration = Duration::from_secs(60);
const THREADS: usize = 8;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Clients that the limit of open files allows, for this process as for the proxy: at most `wanted`.
fn allowed(wanted: usize) -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)).and_then(|n| n.parse::<usize>().ok());
    soft.map_or(wanted, |soft| wanted.min(soft.saturating_sub(200)))
}

/// What a statement is answered with, all of it made of the client's number and the statement's.
enum Expected {
    Row(Vec<String>),
    /// The text that the error's message holds.
    Error(String),
    /// A row, or 57014.
    RowOrCancelled(Vec<String>),
    Tag(&'static str),
}

/// Where the statements of one pipeline run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    /// All on one shard, or all over both.
    Alike,
    /// On one and on the other, in any order.
    Mixed,
}

struct Guest {
    places: Places,
    address: Address,
    client: Client,
    number: u64,
    sequence: u64,
    rng: Rng,
    expected: Vec<Expected>,
    /// What its application_name is set to.
    named: Option<String>,
    sent: String,
}

impl Guest {
    fn new(address: &Address, number: u64, seed: u64, places: Places) -> Guest {
        let address = address.clone();
        let mut client = Client::connect(&address);
        client.set_limit(LIMIT);
        let rng = Rng::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let (expected, sent) = (Vec::new(), String::new());
        Guest { places, address, client, number, sequence: 0, rng, expected, named: None, sent }
    }

    /// Sends a pipeline of a few statements, up to its Sync.
    fn ask(&mut self) {
        self.expected.clear();
        self.sent.clear();
        let mut bytes = Vec::new();
        let kinds = match (self.places, self.rng.below(4)) {
            (Places::Mixed, _) => 0..13,
            (_, 0) => 0..3,
            (_, 1) => 3..4,
            _ => 4..13,
        };
        for _ in 0..1 + self.rng.below(4) {
            let kind = kinds.start + self.rng.below(kinds.len());
            self.statement(kind, &mut bytes);
            if self.rng.chance(20) {
                bytes.extend(message::flush());
            }
            if matches!(self.expected.last(), Some(Expected::Error(_) | Expected::RowOrCancelled(_))) {
                break;
            }
        }
        bytes.extend(message::sync());
        self.client.send(&bytes);
    }

    fn statement(&mut self, kind: usize, bytes: &mut Vec<u8>) {
        self.sequence += 1;
        let (own, at) = (self.number.to_string(), self.sequence.to_string());
        let both = vec![own.clone(), at.clone()];
        let (sql, values, expected) = match kind {
            0..=2 => {
                let sql = "SELECT k, $2::bigint FROM items WHERE k = $1";
                (sql.to_string(), both.clone(), Expected::Row(both))
            }
            3 => {
                let sql = "SELECT $1::bigint, $2::bigint, count(*) FROM items WHERE k IN (1, 2, 3)";
                (sql.to_string(), both.clone(), Expected::Row([both, vec!["3".into()]].concat()))
            }
            4..=6 => ("SELECT $1::bigint, $2::bigint".to_string(), both.clone(), Expected::Row(both)),
            7 => {
                let text = format!("c{own}-{at}");
                ("SELECT $1::text::integer".to_string(), vec![text.clone()], Expected::Error(text))
            }
            8 => {
                let name = format!("client {own}");
                self.named = Some(name.clone());
                (format!("SET application_name = '{name}'"), Vec::new(), Expected::Tag("SET"))
            }
            9 if self.named.is_some() => {
                let name = self.named.clone().unwrap_or_default();
                let sql = "SELECT $1::bigint, current_setting('application_name')";
                (sql.to_string(), vec![own.clone()], Expected::Row(vec![own, name]))
            }
            10 => {
                let sql = "SELECT $1::bigint, $2::bigint FROM pg_sleep(0.02)";
                (sql.to_string(), both.clone(), Expected::RowOrCancelled(both))
            }
            _ => (format!("SELECT {own}, {at}"), Vec::new(), Expected::Row(both)),
        };
        self.sent.push_str(&sql);
        self.sent.push_str("; ");
        let values: Vec<Option<Vec<u8>>> = values.into_iter().map(|v| Some(v.into_bytes())).collect();
        bytes.extend(message::parse("", &sql, &[]));
        bytes.extend(message::bind("", "", &[], &values, &[]));
        bytes.extend(message::execute("", 0));
        self.expected.push(expected);
    }

    /// What may happen instead of waiting for the answer. True when the client came anew, to whom nothing is owed.
    fn disturb(&mut self) -> bool {
        if matches!(self.expected.last(), Some(Expected::RowOrCancelled(_))) && self.rng.chance(50) {
            self.client.cancel();
            return false;
        }
        if !self.rng.chance(1) {
            return false;
        }
        let mut new = Client::connect(&self.address);
        new.set_limit(LIMIT);
        std::mem::replace(&mut self.client, new).abandon();
        self.named = None;
        true
    }

    /// Reads the answer to what was asked.
    fn check(&mut self) {
        let replies = self.client.until(&["ReadyForQuery"]);
        let mut failed = false;
        let mut rest = replies.iter().filter(|m| !matches!(m, Message::ParseComplete | Message::BindComplete));
        for expected in &self.expected {
            let first = rest.next();
            let ok = match (expected, first) {
                (Expected::Row(row) | Expected::RowOrCancelled(row), Some(Message::DataRow(values))) => {
                    is_row(values, row)
                        && matches!(rest.next(), Some(Message::CommandComplete { tag }) if tag == "SELECT 1")
                }
                (Expected::Error(text), Some(Message::ErrorResponse(fields))) => {
                    failed = true;
                    fields.message().contains(&format!("\"{text}\""))
                }
                (Expected::RowOrCancelled(_), Some(Message::ErrorResponse(fields))) => {
                    failed = true;
                    fields.sqlstate() == "57014"
                }
                (Expected::Tag(wanted), Some(Message::CommandComplete { tag })) => tag == wanted,
                _ => false,
            };
            // A cancel that comes while an earlier statement runs meets that one.
            let early = matches!(self.expected.last(), Some(Expected::RowOrCancelled(_)))
                && matches!(first, Some(Message::ErrorResponse(fields)) if fields.sqlstate() == "57014");
            failed |= early;
            assert!(ok || early, "client {} asked {}\nand got {replies:?}", self.number, self.sent);
            if failed {
                break;
            }
        }
        let report = |m: &&Message| !matches!(m, Message::ParameterStatus { .. });
        let mut rest = rest.filter(report);
        let ready = matches!(rest.next(), Some(Message::ReadyForQuery { status: 'I' }));
        assert!(ready && rest.next().is_none(), "client {} asked {}\nand got {replies:?}", self.number, self.sent);
        if failed {
            // The pipeline was one transaction: what it has set is taken back.
            self.named = None;
        }
    }
}

fn is_row(values: &[Option<Vec<u8>>], wanted: &[String]) -> bool {
    values.len() == wanted.len() && values.iter().zip(wanted).all(|(v, w)| v.as_deref() == Some(w.as_bytes()))
}

#[test]
fn every_reply_is_the_clients_own() {
    crowd(Places::Alike);
}

#[test]
fn pipelines_over_both_shards_do_not_wait_for_each_other() {
    crowd(Places::Mixed);
}

fn crowd(places: Places) {
    let usual = if matches!(places, Places::Mixed) { 200 } else { 2_000 };
    let count = allowed(number("CROWD").unwrap_or(usual) as usize);
    let seconds = number("CROWD_SECONDS").unwrap_or(8);
    let seed = number("SEED").unwrap_or(1);
    let layout = Layout::new(2)
        .hash_map("keys", &["bigint"])
        .sharded("public.items", &["k"])
        .listen("max_clients = 3000\nlogin_timeout = \"60s\"")
        .pool("size = 4\nwait_timeout = \"60s\"");
    let deployment = Deployment::start(layout);
    deployment.connect().execute("CREATE TABLE items (k bigint PRIMARY KEY)");
    deployment.load(&format!("INSERT INTO items SELECT k FROM generate_series(0, {}) k", count - 1));
    let address = deployment.address();
    let rounds: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let address = &address;
                scope.spawn(move || {
                    let own = (worker..count).step_by(THREADS);
                    let mut guests: Vec<Guest> = own.map(|n| Guest::new(address, n as u64, seed, places)).collect();
                    let end = Instant::now() + Duration::from_secs(seconds);
                    let mut rounds = 0;
                    while rounds == 0 || Instant::now() < end {
                        guests.iter_mut().for_each(Guest::ask);
                        let owed: Vec<bool> = guests.iter_mut().map(|guest| !guest.disturb()).collect();
                        guests.iter_mut().zip(owed).filter(|(_, owed)| *owed).for_each(|(guest, _)| guest.check());
                        rounds += 1;
                    }
                    rounds
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("every reply is the client's own")).sum()
    });
    println!("{count} clients, {rounds} rounds of {} pipelines", count / THREADS);
}
