//! Sixteen clients move money between accounts on four shards while readers add it up: no sum is ever wrong, no
//! transfer is lost or torn, also when the proxy is killed again and again.
//!
//! `BANK_SECONDS=60` makes the runs longer, `BANK_SEED` chooses the transfers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::bank;
use integration_tests::bank::Fate;
use integration_tests::bank::Terms;
use integration_tests::bank::reader;
use integration_tests::bank::reader::Count;
use integration_tests::bank::reader::READS;
use integration_tests::bank::teller;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::postgres::Cluster;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const SHARDS: usize = 4;
const CLIENTS: usize = 16;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The proxy is killed this often in a run of so many seconds.
fn between_kills(seconds: u64) -> Duration {
    Duration::from_secs((seconds / 5).clamp(3, 10))
}

struct Run {
    fates: BTreeMap<i64, Fate>,
    counts: Vec<Count>,
}

impl Run {
    fn done(&self) -> usize {
        self.fates.values().filter(|fate| **fate == Fate::Done).count()
    }

    /// The errors of transfers that failed without having been given up.
    fn failures(&self) -> BTreeMap<String, usize> {
        let mut out = BTreeMap::new();
        for fate in self.fates.values() {
            match fate {
                Fate::Failed(state) if state != "given up" => *out.entry(state.clone()).or_default() += 1,
                Fate::Unknown => *out.entry("unknown".into()).or_default() += 1,
                _ => {}
            }
        }
        out
    }
}

fn run(deployment: &mut Deployment, seconds: u64, ordered: bool, kills: bool) -> Run {
    let seed = number("BANK_SEED").unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let terms = Terms { seed, until: end, ordered };
    println!("bank: {seconds} seconds, BANK_SEED={seed}, ordered: {ordered}, kills: {kills}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = bank::config(deployment);
    let tellers: Vec<_> =
        (1..=CLIENTS).map(|client| runtime.spawn(teller::work(config.clone(), client, terms))).collect();
    let readers: Vec<_> =
        READS.iter().map(|reads| runtime.spawn(reader::watch(config.clone(), *reads, terms))).collect();
    while kills && Instant::now() + between_kills(seconds) < end {
        thread::sleep(between_kills(seconds));
        let proxy = deployment.proxy.as_mut().unwrap();
        proxy.kill();
        proxy.run().unwrap();
    }
    runtime.block_on(async {
        let mut run = Run { fates: BTreeMap::new(), counts: Vec::new() };
        for reader in readers {
            run.counts.push(reader.await.expect("a reader"));
        }
        for teller in tellers {
            run.fates.extend(teller.await.expect("a teller"));
        }
        println!("{} transfers, failures {:?}, readers {:?}", run.done(), run.failures(), run.counts);
        run
    })
}

fn seconds(otherwise: u64) -> u64 {
    number("BANK_SECONDS").unwrap_or(otherwise)
}

#[test]
fn no_sum_is_ever_wrong() {
    let mut deployment = bank::open(SHARDS, Cluster::builder());
    let run = run(&mut deployment, seconds(8), true, false);
    bank::audit(&deployment, &run.fates);
    assert!(run.done() > 50 && run.failures().is_empty(), "{} done, {:?}", run.done(), run.failures());
    assert!(run.counts.iter().all(|count| count.right > 3), "{:?}", run.counts);
}

#[test]
fn no_transfer_is_lost_or_torn_when_the_proxy_is_killed() {
    if direct() {
        return;
    }
    let mut deployment = bank::open(SHARDS, Cluster::builder());
    let run = run(&mut deployment, seconds(14), true, true);
    bank::audit(&deployment, &run.fates);
    assert!(run.done() > 50, "{} done, {:?}", run.done(), run.failures());
}

/// Transfers that lock in any order wait for one another over shards: that ends by an error, not in a hang.
#[test]
fn deadlocks_over_shards_end() {
    let mut deployment = bank::open(SHARDS, Cluster::builder());
    let run = run(&mut deployment, seconds(6), false, false);
    bank::audit(&deployment, &run.fates);
    let failures = run.failures();
    let may = |state: &str| ["40P01", "55P03"].iter().any(|code| state.starts_with(code));
    assert!(failures.keys().all(|state| may(state)), "{failures:?}");
    assert!(run.done() > 20, "{} done, {failures:?}", run.done());
}
