//! One transaction over several shards, whose every outcome can be told: a row on each shard gets the same number, so
//! that rows which differ are a torn transaction. What the client was told is kept to be compared with the rows.

use crate::client::Client;
use crate::deployment::Deployment;
use crate::deployment::bucket_expression;
use crate::layout::Layout;
use crate::message;
use crate::outcome::End;
use crate::outcome::Mode;
use crate::outcome::Outcome;
use crate::postgres::Builder;
use crate::proxy::Proxy;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Time enough for a proxy that looks every few seconds to bring order.
const RECOVERY_LIMIT: Duration = Duration::from_secs(20);

/// `entries` finds its mistakes when the transaction ends.
const SCHEMA: &str = "CREATE TABLE ledger (k bigint PRIMARY KEY, n integer NOT NULL);
    CREATE TABLE entries (k bigint, e integer, UNIQUE (k, e) DEFERRABLE INITIALLY DEFERRED)";

/// What the client knows in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Committed,
    /// With the SQLSTATE, where there was an error.
    RolledBack(String),
    /// 08007, or a connection that was lost after COMMIT was sent.
    Unknown,
}

/// A ledger over shards with a PostgreSQL each.
pub struct Ledger {
    pub deployment: Deployment,
    /// A key on each shard, in the shards' order.
    pub keys: Vec<i64>,
    /// The number that the rows hold.
    pub number: i32,
    /// The number of the next transaction.
    pub next: i32,
    /// A second proxy before the same shards.
    pub rival: Option<Proxy>,
}

impl Ledger {
    pub fn start(shards: usize, builder: Builder) -> Ledger {
        let layout = Layout::new(shards)
            .own_clusters()
            .hash_map("keys", &["bigint"])
            .sharded("public.ledger", &["k"])
            .sharded("public.entries", &["k"]);
        let mut deployment = Deployment::clusters(layout, builder);
        deployment.execute_on_shards(SCHEMA);
        let keys: Vec<i64> = (0..shards).map(|shard| key_of(&deployment, shard)).collect();
        for (shard, key) in deployment.shards().iter().zip(&keys) {
            Client::connect(shard).execute(&format!("INSERT INTO ledger VALUES ({key}, 0)"));
        }
        deployment.link();
        deployment.start_proxy();
        Ledger { deployment, keys, number: 0, next: 1, rival: None }
    }

    /// Starts a second proxy, which knows of the first only by what is on the shards.
    pub fn start_rival(&mut self) {
        let shards = self.deployment.proxied();
        self.rival = Some(Proxy::start(|port, http| self.deployment.layout.toml(&shards, port, http)));
    }

    /// The next transaction's number, used up.
    pub fn take_number(&mut self) -> i32 {
        self.next += 1;
        self.next - 1
    }

    /// What every shard holds, asked directly.
    pub fn numbers(&self) -> Vec<i32> {
        let one = |shard| Client::connect(shard).simple("SELECT n FROM ledger").ok().value().parse().expect("a number");
        self.deployment.shards().iter().map(one).collect()
    }

    /// Waits until no transaction of `app` is open on any shard.
    pub fn wait_for_idle(&self) {
        let end = Instant::now() + RECOVERY_LIMIT;
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND pid <> pg_backend_pid() \
                   AND state <> 'idle'";
        for shard in self.deployment.shards() {
            let mut client = Client::connect(&shard);
            while client.simple(sql).ok().value() != "0" {
                assert!(Instant::now() < end, "a transaction stays open on {}", shard.database);
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Prepared transactions by shard, as the gids are.
    pub fn prepared(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (shard, address) in self.deployment.shards().iter().enumerate() {
            let sql = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()";
            let gids = Client::connect(address).simple(sql).ok().column(0);
            out.extend(gids.into_iter().map(|gid| format!("s{shard}: {gid}")));
        }
        out
    }

    /// Waits until nothing is prepared and the shards agree, and compares with what the client was told about the
    /// transaction that was to write `number`.
    pub fn settle(&mut self, number: i32, told: &Told, case: &str) {
        let end = Instant::now() + RECOVERY_LIMIT;
        let (numbers, prepared) = loop {
            let (prepared, numbers) = (self.prepared(), self.numbers());
            let agree = numbers.iter().all(|n| *n == numbers[0]);
            if (prepared.is_empty() && agree) || Instant::now() > end {
                break (numbers, prepared);
            }
            thread::sleep(Duration::from_millis(30));
        };
        let state = format!("{case}: told {told:?}, before {}, now {numbers:?}", self.number);
        assert!(prepared.is_empty(), "{state}: left prepared: {prepared:?}");
        assert!(numbers.iter().all(|n| *n == numbers[0]), "{state}: torn");
        match told {
            Told::Committed => assert_eq!(numbers[0], number, "{state}: told committed, but lost"),
            Told::RolledBack(_) => assert_eq!(numbers[0], self.number, "{state}: told rolled back, but done"),
            Told::Unknown => assert!([number, self.number].contains(&numbers[0]), "{state}: neither"),
        }
        self.number = numbers[0];
    }
}

/// The smallest key that lives on a shard, by PostgreSQL's own hash.
fn key_of(deployment: &Deployment, shard: usize) -> i64 {
    let bucket = bucket_expression(&["k".into()], &["bigint".into()]);
    let shards = deployment.layout.shards;
    let sql = format!(
        "SELECT min(k) FROM (SELECT generate_series(1, 1000)::bigint k) s WHERE ({bucket}) * {shards} / 4096 = {shard}"
    );
    Client::connect(&deployment.shard(0)).simple(&sql).ok().value().parse().expect("a key")
}

/// Writes the number to the keys in a transaction of its own.
pub fn write(mut client: Client, mode: Mode, keys: &[i64], number: i32) -> Told {
    client.set_limit(Duration::from_secs(90));
    for statement in statements(keys, number) {
        match told(&client.run(mode, &statement, &[])) {
            Told::Committed => {}
            Told::RolledBack(state) => {
                // It says ROLLBACK, or the connection is gone: nothing can have been committed either way.
                return match told(&client.run(mode, "COMMIT", &[])) {
                    Told::Committed => Told::Committed,
                    _ => Told::RolledBack(state),
                };
            }
            Told::Unknown => return Told::RolledBack("closed before COMMIT".into()),
        }
    }
    told(&client.run(mode, "COMMIT", &[]))
}

/// Sends COMMIT and goes away.
pub fn write_and_leave(mut client: Client, keys: &[i64], number: i32) {
    for statement in statements(keys, number) {
        client.execute(&statement);
    }
    client.send(&message::query("COMMIT"));
    client.abandon();
}

/// The same in one Query message, which is one transaction.
pub fn write_at_once(mut client: Client, keys: &[i64], number: i32) -> Told {
    client.set_limit(Duration::from_secs(90));
    let text = statements(keys, number)[1..].join("; ");
    client.simple_all(&text).last().map_or(Told::Unknown, told)
}

fn statements(keys: &[i64], number: i32) -> Vec<String> {
    let updates = keys.iter().map(|key| format!("UPDATE ledger SET n = {number} WHERE k = {key}"));
    std::iter::once("BEGIN".into()).chain(updates).collect()
}

fn told(outcome: &Outcome) -> Told {
    match &outcome.end {
        End::Closed => Told::Unknown,
        End::Error(fields) if fields.sqlstate() == "08007" => Told::Unknown,
        End::Error(fields) => Told::RolledBack(format!("{} {}", fields.sqlstate(), fields.message())),
        End::Tag(tag) if tag == "ROLLBACK" => Told::RolledBack(String::new()),
        _ => Told::Committed,
    }
}
