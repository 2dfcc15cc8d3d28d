//! One run of pgbench against one peer.

use crate::measure;
use crate::peers::Peer;
use crate::workloads::Workload;
use integration_tests::process;
use integration_tests::tools;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What one run gave.
pub struct Run {
    /// Transactions a second, without the time for connecting.
    pub throughput: f64,
    pub transactions: u64,
    pub p99: Duration,
    /// CPU time that the peer's process used, where it has one.
    pub cpu: Option<Duration>,
}

pub fn run(workload: &Workload, peer: &Peer, seconds: u32) -> Run {
    let directory = process::temporary_directory("shardway-bench-run-", None);
    let script = directory.join("script.sql");
    fs::write(&script, workload.script).unwrap();
    let threads = workload.clients.min(2);
    let mut command = tools::libpq_program("pgbench", &peer.address);
    command.args(["-n", "-M", workload.mode, "-c", &workload.clients.to_string(), "-j", &threads.to_string()]);
    command.args(["-T", &seconds.to_string(), "-l", "--log-prefix"]).arg(directory.join("log")).arg("-f").arg(&script);
    let before = peer.process.map(measure::cpu);
    let output = command.output().expect("pgbench");
    let cpu = peer.process.map(measure::cpu).zip(before).map(|(after, before)| after.saturating_sub(before));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = || format!("{} through {}: {}", workload.title(), peer.column, tools::said(&output));
    assert!(output.status.success(), "{}", failed());
    let throughput = after(&text, "tps = ").unwrap_or_else(|| panic!("{}", failed()));
    let latencies = latencies(&directory);
    let _ = fs::remove_dir_all(&directory);
    let rank = (latencies.len() * 99 / 100).min(latencies.len().saturating_sub(1));
    let p99 = Duration::from_micros(latencies.get(rank).copied().unwrap_or_default());
    Run { throughput, transactions: latencies.len() as u64, p99, cpu }
}

fn after(text: &str, label: &str) -> Option<f64> {
    let rest = &text[text.find(label)? + label.len()..];
    rest.split_whitespace().next()?.parse().ok()
}

/// The third field of each line of pgbench's logs: microseconds; sorted.
fn latencies(directory: &Path) -> Vec<u64> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let logs = entries.filter(|e| e.file_name().to_string_lossy().starts_with("log."));
    let texts: Vec<String> = logs.map(|e| fs::read_to_string(e.path()).unwrap_or_default()).collect();
    let lines = texts.iter().flat_map(|t| t.lines());
    let mut all: Vec<u64> = lines.filter_map(|l| l.split(' ').nth(2)?.parse().ok()).collect();
    all.sort_unstable();
    all
}
