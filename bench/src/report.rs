//! The table: a line for each workload, a column for each peer.

use crate::load::Run;
use crate::measure::Memory;
use crate::workloads::Workload;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// The runs of one workload through one peer, one a round.
#[derive(Default)]
pub struct Series(Vec<Run>);

impl Series {
    pub fn add(&mut self, run: Run) {
        self.0.push(run);
    }

    fn throughput(&self) -> f64 {
        median(self.0.iter().map(|r| r.throughput).collect())
    }

    fn p99(&self) -> f64 {
        median(self.0.iter().map(|r| r.p99.as_secs_f64() * 1e3).collect())
    }

    /// Microseconds of CPU for each transaction, over all rounds: the clock is too coarse for one.
    fn cpu(&self) -> Option<f64> {
        let total: Duration = self.0.iter().map(|r| r.cpu).sum::<Option<Duration>>()?;
        let transactions: u64 = self.0.iter().map(|r| r.transactions).sum();
        Some(total.as_secs_f64() * 1e6 / transactions.max(1) as f64)
    }

    /// The median over the rounds of our throughput through theirs: both ran within seconds of each other.
    fn ratio(&self, other: &Series) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(a, b)| a.throughput / b.throughput).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Markdown. Cells: throughput as a ratio to direct, 99th percentile of latency, CPU of the proxy per transaction.
pub fn table(
    workloads: &[Workload],
    columns: &[String],
    results: &BTreeMap<(usize, String), Series>,
    memory: &[Memory],
) -> String {
    let mut out = String::from("\nthroughput ÷ direct · p99 · proxy CPU per transaction\n\n| workload |");
    columns.iter().for_each(|c| {
        let _ = write!(out, " {c} |");
    });
    out.push_str(" Shardway ÷ PgBouncer |\n|---|");
    out.push_str(&"---|".repeat(columns.len() + 1));
    for (position, workload) in workloads.iter().enumerate() {
        let series = |column: &str| results.get(&(position, column.to_string()));
        let _ = write!(out, "\n| {} |", workload.title());
        for column in columns {
            let cell = series(column).map_or("–".into(), |s| cell(column, s, series("direct")));
            let _ = write!(out, " {cell} |");
        }
        let against = series("Shardway").zip(series("PgBouncer")).map(|(s, p)| format!("{:.2}", s.ratio(p)));
        let _ = write!(out, " {} |", against.unwrap_or("–".into()));
    }
    for (title, value) in [("resident memory, no clients", false), ("resident memory, 1,000 idle clients", true)] {
        let _ = write!(out, "\n| {title} |");
        for column in columns {
            let found = memory.iter().find(|m| m.column == *column);
            let kib = found.and_then(|m| if value { m.thousand } else { Some(m.idle) });
            let cell = kib.map_or("–".into(), |k| format!("{:.1} MiB", k as f64 / 1024.0));
            let _ = write!(out, " {cell} |");
        }
        out.push_str(" |");
    }
    out.push('\n');
    out
}

fn cell(column: &str, series: &Series, direct: Option<&Series>) -> String {
    let p99 = series.p99();
    match direct {
        Some(direct) if column != "direct" => {
            let cpu = series.cpu().map_or(String::new(), |c| format!(" · {c:.1} µs"));
            format!("{:.2} · {p99:.1} ms{cpu}", series.ratio(direct))
        }
        _ => format!("{:.0}/s · {p99:.1} ms", series.throughput()),
    }
}
