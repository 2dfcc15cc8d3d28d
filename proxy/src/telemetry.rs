//! Names of metrics, their labels and help texts, and of spans, in one place.
//!
//! Units are base units (seconds, bytes); labels have few values: names from the configuration, or words from a fixed
//! list, never what a client sends.

use metrics::Unit;

/// What kind of metric a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// One metric, with what `/metrics` says about it.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: MetricKind,
    pub unit: Option<Unit>,
    pub help: &'static str,
}

/// Label names.
pub mod label {
    pub const DATABASE: &str = "database";
    pub const SHARD: &str = "shard";
    /// Of a connection: `active`, `idle`, `waiting`.
    pub const STATE: &str = "state";
    /// Of a statement: `select`, `insert`, … (see `sql::command::Command`).
    pub const KIND: &str = "kind";
    /// How a statement was executed: `here`, `any`, `route`, `scatter`, `everywhere`, `refused`.
    pub const ROUTE: &str = "route";
    /// The first two characters of an SQLSTATE.
    pub const CLASS: &str = "class";
    /// Who wrote an error: `proxy`, `server`.
    pub const ORIGIN: &str = "origin";
    /// How something ended: `commit`, `rollback`, `ok`, `error`.
    pub const OUTCOME: &str = "outcome";
    /// Why: `temporary_table`, `listen`, `advisory_lock`, … or `refused`, `timeout`, `password`, ….
    pub const REASON: &str = "reason";
    pub const VERSION: &str = "version";
}

pub const BUILD_INFO: &str = "shardway_build_info";
pub const CLIENT_CONNECTIONS: &str = "shardway_client_connections";
pub const CLIENT_CONNECTIONS_TOTAL: &str = "shardway_client_connections_total";
pub const CLIENT_REFUSED_TOTAL: &str = "shardway_client_connections_refused_total";
pub const CLIENT_RECEIVED_BYTES_TOTAL: &str = "shardway_client_received_bytes_total";
pub const CLIENT_SENT_BYTES_TOTAL: &str = "shardway_client_sent_bytes_total";
pub const SERVER_CONNECTIONS: &str = "shardway_server_connections";
pub const SERVER_CONNECTIONS_TOTAL: &str = "shardway_server_connections_total";
pub const SERVER_FAILURES_TOTAL: &str = "shardway_server_connection_failures_total";
pub const SERVER_RECEIVED_BYTES_TOTAL: &str = "shardway_server_received_bytes_total";
pub const SERVER_SENT_BYTES_TOTAL: &str = "shardway_server_sent_bytes_total";
pub const SHARD_UP: &str = "shardway_shard_up";
pub const POOL_WAITING: &str = "shardway_pool_waiting_clients";
pub const POOL_WAIT_SECONDS: &str = "shardway_pool_wait_seconds";
pub const POOL_TIMEOUTS_TOTAL: &str = "shardway_pool_timeouts_total";
pub const STATEMENTS_TOTAL: &str = "shardway_statements_total";
pub const STATEMENT_SECONDS: &str = "shardway_statement_seconds";
pub const SHARD_QUERY_SECONDS: &str = "shardway_shard_query_seconds";
pub const PLAN_SECONDS: &str = "shardway_plan_seconds";
pub const PLAN_CACHE_HITS_TOTAL: &str = "shardway_plan_cache_hits_total";
pub const PLAN_CACHE_MISSES_TOTAL: &str = "shardway_plan_cache_misses_total";
pub const PLAN_CACHE_EVICTIONS_TOTAL: &str = "shardway_plan_cache_evictions_total";
pub const PLAN_CACHE_BYTES: &str = "shardway_plan_cache_bytes";
pub const TRANSACTIONS_TOTAL: &str = "shardway_transactions_total";
pub const ERRORS_TOTAL: &str = "shardway_errors_total";
pub const PINNED_SESSIONS: &str = "shardway_pinned_sessions";
pub const CANCEL_REQUESTS_TOTAL: &str = "shardway_cancel_requests_total";
pub const CATALOG_READS_TOTAL: &str = "shardway_catalog_reads_total";
pub const CONFIG_RELOADS_TOTAL: &str = "shardway_config_reloads_total";

/// Upper bounds of the buckets of all histograms, in seconds: a point read takes 100 µs, a report minutes.
pub const SECONDS_BUCKETS: [f64; 17] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

/// Spans and the fields of log lines.
pub mod span {
    pub const CLIENT: &str = "client";
    pub const STATEMENT: &str = "statement";
    pub const SHARD_QUERY: &str = "shard_query";
    pub const CATALOG_READ: &str = "catalog_read";
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, unit: None, help }
}

const fn bytes(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, unit: Some(Unit::Bytes), help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, unit: None, help }
}

const fn seconds(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Histogram, unit: Some(Unit::Seconds), help }
}

/// Every metric that there is.
pub const METRICS: [Metric; 29] = [
    gauge(BUILD_INFO, "Always 1; the label says which version runs."),
    gauge(CLIENT_CONNECTIONS, "Clients that are connected, by state."),
    counter(CLIENT_CONNECTIONS_TOTAL, "Clients that have logged in."),
    counter(CLIENT_REFUSED_TOTAL, "Clients that were refused, by reason."),
    bytes(CLIENT_RECEIVED_BYTES_TOTAL, "Bytes received from clients."),
    bytes(CLIENT_SENT_BYTES_TOTAL, "Bytes sent to clients."),
    gauge(SERVER_CONNECTIONS, "Connections to shards, by state."),
    counter(SERVER_CONNECTIONS_TOTAL, "Connections to shards that were opened."),
    counter(SERVER_FAILURES_TOTAL, "Connections to shards that could not be opened or were lost, by reason."),
    bytes(SERVER_RECEIVED_BYTES_TOTAL, "Bytes received from shards."),
    bytes(SERVER_SENT_BYTES_TOTAL, "Bytes sent to shards."),
    gauge(SHARD_UP, "1 if the shard could be reached last, else 0."),
    gauge(POOL_WAITING, "Clients that wait for a connection to a shard."),
    seconds(POOL_WAIT_SECONDS, "Time that clients waited for a connection to a shard."),
    counter(POOL_TIMEOUTS_TOTAL, "Clients that waited for a connection in vain."),
    counter(STATEMENTS_TOTAL, "Statements, by kind and by how they were executed."),
    seconds(STATEMENT_SECONDS, "Time from a statement to the end of its answer."),
    seconds(SHARD_QUERY_SECONDS, "Time that shards took for their part of a statement."),
    seconds(PLAN_SECONDS, "Time to plan a statement that was not in the plan cache."),
    counter(PLAN_CACHE_HITS_TOTAL, "Statements whose plan was in the plan cache."),
    counter(PLAN_CACHE_MISSES_TOTAL, "Statements whose plan was not in the plan cache."),
    counter(PLAN_CACHE_EVICTIONS_TOTAL, "Plans that left the plan cache for want of room."),
    gauge(PLAN_CACHE_BYTES, "Bytes of statement texts in the plan cache."),
    counter(TRANSACTIONS_TOTAL, "Transactions, by how they ended."),
    counter(ERRORS_TOTAL, "Errors that clients were sent, by class of SQLSTATE and by who wrote them."),
    gauge(PINNED_SESSIONS, "Sessions that keep their connection to a shard, by reason."),
    counter(CANCEL_REQUESTS_TOTAL, "Cancel requests from clients."),
    counter(CATALOG_READS_TOTAL, "Times that the catalog was read from the shards, by outcome."),
    counter(CONFIG_RELOADS_TOTAL, "Times that the configuration was read again, by outcome."),
];

/// Gives the recorder the help text and unit of every metric; call it once the recorder is installed.
pub fn describe() {
    for metric in METRICS {
        let unit = metric.unit.unwrap_or(Unit::Count);
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, unit, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, unit, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, unit, metric.help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::METRICS;
    use super::MetricKind;
    use super::SECONDS_BUCKETS;

    #[test]
    fn names_follow_prometheus() {
        for metric in METRICS {
            assert!(metric.name.starts_with("shardway_"));
            assert_eq!(metric.name.ends_with("_total"), metric.kind == MetricKind::Counter, "{}", metric.name);
            assert_eq!(metric.name.ends_with("_seconds"), metric.kind == MetricKind::Histogram, "{}", metric.name);
            assert!(metric.help.ends_with('.'));
        }
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }

    #[test]
    fn buckets_rise() {
        assert!(SECONDS_BUCKETS.is_sorted());
    }
}
