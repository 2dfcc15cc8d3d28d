//! Side by side on this machine: PostgreSQL itself, a plain TCP forwarder (the floor for any proxy), PgBouncer, and
//! Shardway over two shards; in alternation, so that the machine's moods hit all of them alike. Prints one table.
//!
//! `BENCH_ROUNDS` (5), `BENCH_SECONDS` (1) per run, `BENCH_ONLY` (a part of a workload's name) shorten or lengthen it.
//! `BENCH_PEERS=name=port,…` adds further poolers that listen on loopback (user `app`, database `single`);
//! `BENCH_SINGLE_PORT` puts the single PostgreSQL, which is their server, on a known port.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod forward;
mod load;
mod measure;
mod peers;
mod report;
mod workloads;

use peers::Stage;
use report::Series;
use std::collections::BTreeMap;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, listen, target] = arguments.as_slice()
        && command == "forward"
    {
        forward::run(listen.parse().unwrap(), target.parse().unwrap());
        return;
    }
    let rounds = number("BENCH_ROUNDS", 5);
    let seconds = number("BENCH_SECONDS", 1);
    let only = std::env::var("BENCH_ONLY").unwrap_or_default();
    let stage = Stage::set();
    let workloads: Vec<_> = workloads::all().into_iter().filter(|w| w.title().contains(&only)).collect();
    let mut results: BTreeMap<(usize, String), Series> = BTreeMap::new();
    for round in 0..rounds {
        for (position, workload) in workloads.iter().enumerate() {
            eprintln!("round {}/{rounds}: {}", round + 1, workload.title());
            for peer in stage.peers_for(workload) {
                let run = load::run(workload, peer, seconds);
                results.entry((position, peer.column.clone())).or_default().add(run);
            }
        }
    }
    let memory = stage.peers.iter().filter(|p| p.process.is_some()).map(measure::memory).collect::<Vec<_>>();
    let columns = stage.columns();
    println!("{}", report::table(&workloads, &columns, &results, &memory));
}

fn number(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}
