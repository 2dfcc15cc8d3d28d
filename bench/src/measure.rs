//! What a process uses: CPU time and resident memory, from /proc.

use crate::peers::Peer;
use integration_tests::client::Client;
use std::fs;
use std::time::Duration;

/// Linux counts in ticks of a hundredth of a second, whatever the kernel's own clock.
const TICK: Duration = Duration::from_millis(10);
const IDLE_CLIENTS: usize = 1000;

/// User and system time of a process so far.
pub fn cpu(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The second field is a name in parentheses, which may hold anything: count from behind it.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u32 = rest.split_whitespace().skip(11).take(2).filter_map(|f| f.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// Resident memory in KiB.
fn resident(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// A peer's memory after the runs, without clients and with a thousand that are logged in and do nothing.
pub struct Memory {
    pub column: String,
    pub idle: u64,
    /// `None` where each client would cost a server connection.
    pub thousand: Option<u64>,
}

pub fn memory(peer: &Peer) -> Memory {
    let process = peer.process.expect("a process");
    let idle = resident(process);
    let thousand = peer.pools.then(|| {
        let mut clients: Vec<Client> = (0..IDLE_CLIENTS).map(|_| Client::connect(&peer.address)).collect();
        clients.iter_mut().for_each(|c| c.execute("SELECT 1"));
        resident(process)
    });
    Memory { column: peer.column.clone(), idle, thousand }
}
