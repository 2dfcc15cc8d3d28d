//! A bank over shards: clients move money between accounts, readers add all of it up. The journal is written in the
//! transfers' own transactions, so that what the clients were told can be compared with what is there.

pub mod reader;
pub mod teller;

use crate::client::Client;
use crate::deployment::Deployment;
use crate::layout::Layout;
use crate::postgres::Builder;
use std::collections::BTreeMap;
use std::future::Future;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use tokio::task::JoinHandle;
use tokio_postgres::Config;
use tokio_postgres::NoTls;

pub const ACCOUNTS: i64 = 48;
/// What an account holds at first.
pub const OPENING: i32 = 1000;
/// The money that there is.
pub const TOTAL: i64 = ACCOUNTS * OPENING as i64;

/// Longer than anything may take, a lock's time-out and a proxy's restart included: more is a hang.
const HANG: Duration = Duration::from_secs(30);
const RECOVERY_LIMIT: Duration = Duration::from_secs(30);

const SCHEMA: &str = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance integer NOT NULL);
    CREATE TABLE journal (account bigint, transfer bigint, amount integer NOT NULL, PRIMARY KEY (account, transfer))";

/// Bounds of one run.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub seed: u64,
    pub until: Instant,
    /// Transfers lock the account with the smaller number first.
    pub ordered: bool,
}

/// A connection of tokio-postgres, with the task that drives it.
pub struct Connection {
    pub client: tokio_postgres::Client,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A running bank, with all accounts opened.
pub fn open(shards: usize, builder: Builder) -> Deployment {
    let layout = Layout::new(shards)
        .hash_map("accounts", &["bigint"])
        .sharded("public.accounts", &["id"])
        .sharded("public.journal", &["account"])
        .pool("size = 40\nwait_timeout = \"20s\"");
    let mut deployment = Deployment::clusters(layout, builder);
    deployment.execute_on_shards(SCHEMA);
    deployment.load(&format!("INSERT INTO accounts SELECT id, {OPENING} FROM generate_series(1, {ACCOUNTS}) id"));
    deployment.start_proxy();
    deployment
}

pub fn config(deployment: &Deployment) -> Config {
    let address = deployment.address();
    let mut config = Config::new();
    config.host("127.0.0.1").port(address.port).user(&address.user).password(&address.password);
    config.dbname(&address.database).connect_timeout(Duration::from_secs(10));
    config
}

/// Connects; tries again while the proxy is away, but not beyond `until`.
pub async fn connect(config: &Config, until: Instant) -> Option<Connection> {
    loop {
        if let Ok((client, connection)) = in_time("a login", config.connect(NoTls)).await {
            let task = tokio::spawn(async move {
                let _ = connection.await;
            });
            return Some(Connection { client, task });
        }
        if Instant::now() > until {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Fails the test when something hangs.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.unwrap_or_else(|_| panic!("{what} hangs"))
}

/// What became of a transfer, as its client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Done,
    /// It cannot have happened; the SQLSTATE where there was one.
    Failed(String),
    Unknown,
}

/// Both halves of a transfer, as the shards hold them.
type Halves = BTreeMap<i64, Vec<i32>>;

/// Waits until nothing is prepared, and checks every account and every transfer on the shards themselves.
pub fn audit(deployment: &Deployment, fates: &BTreeMap<i64, Fate>) {
    settle(deployment);
    let mut halves = Halves::new();
    let mut total = 0;
    for shard in deployment.shards() {
        let mut client = Client::connect(&shard);
        let wrong = "SELECT count(*) FROM accounts WHERE balance <> 1000 + \
                     (SELECT coalesce(sum(amount), 0) FROM journal WHERE account = id)";
        assert_eq!(client.simple(wrong).ok().value(), "0", "balances that their journal does not explain");
        total += client.simple("SELECT coalesce(sum(balance), 0) FROM accounts").ok().value().parse::<i64>().unwrap();
        for row in client.simple("SELECT transfer, amount FROM journal").ok().text() {
            let number = |n: usize| row[n].as_deref().unwrap_or_default().parse::<i64>().unwrap();
            halves.entry(number(0)).or_default().push(i32::try_from(number(1)).unwrap());
        }
    }
    assert_eq!(total, TOTAL, "money was lost or made");
    for (transfer, amounts) in &halves {
        assert!(amounts.len() == 2 && amounts[0] == -amounts[1], "transfer {transfer} is torn: {amounts:?}");
    }
    for (transfer, fate) in fates {
        let there = halves.contains_key(transfer);
        match fate {
            Fate::Done => assert!(there, "transfer {transfer} was acknowledged and is lost"),
            Fate::Failed(state) => assert!(!there, "transfer {transfer} failed with {state:?} and is there"),
            Fate::Unknown => {}
        }
    }
}

fn settle(deployment: &Deployment) {
    let end = Instant::now() + RECOVERY_LIMIT;
    let sql = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()";
    for shard in deployment.shards() {
        let mut client = Client::connect(&shard);
        loop {
            let left = client.simple(sql).ok().column(0);
            if left.is_empty() {
                break;
            }
            assert!(Instant::now() < end, "left prepared on {}: {left:?}", shard.database);
            thread::sleep(Duration::from_millis(50));
        }
    }
}
