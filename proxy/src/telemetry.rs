//! Names of metrics, with what each means. Every metric is described before it is counted.

pub const CLIENTS: &str = "shardway_client_connections";
pub const SERVER_CONNECTIONS: &str = "shardway_server_connections";
pub const POOL_WAITING: &str = "shardway_pool_waiting";
pub const POOL_WAIT_SECONDS: &str = "shardway_pool_wait_seconds";
pub const STATEMENTS_TOTAL: &str = "shardway_statements_total";
pub const STATEMENT_SECONDS: &str = "shardway_statement_seconds";
pub const ERRORS_TOTAL: &str = "shardway_errors_total";
pub const PINS_TOTAL: &str = "shardway_session_pins_total";
pub const CLIENT_RECEIVED_BYTES_TOTAL: &str = "shardway_client_received_bytes_total";
pub const CLIENT_SENT_BYTES_TOTAL: &str = "shardway_client_sent_bytes_total";
pub const LOGINS_TOTAL: &str = "shardway_logins_total";
pub const COMMITS_TOTAL: &str = "shardway_commits_total";
pub const RECOVERED_TOTAL: &str = "shardway_recovered_transactions_total";
pub const PREPARED: &str = "shardway_prepared_transactions";
pub const PREPARED_OLDEST_SECONDS: &str = "shardway_prepared_transaction_oldest_seconds";
pub const CATALOG_VERSION: &str = "shardway_catalog_version";
pub const BUILD_INFO: &str = "shardway_build_info";

/// Gauges: name and help.
pub const GAUGES: &[(&str, &str)] = &[
    (CLIENTS, "Clients by state: idle, or active (logging in, at work, or in a transaction)."),
    (SERVER_CONNECTIONS, "Server connections by database, shard, user and state (idle, used)."),
    (POOL_WAITING, "Clients that wait for a server connection."),
    (PREPARED, "Transactions over several shards that are prepared, by database and shard."),
    (PREPARED_OLDEST_SECONDS, "Age of the oldest prepared transaction, by database and shard."),
    (CATALOG_VERSION, "Version of the catalog snapshot of a database."),
    (BUILD_INFO, "The version of the program; always 1."),
];

/// Counters: name and help.
pub const COUNTERS: &[(&str, &str)] = &[
    (
        STATEMENTS_TOTAL,
        "Statements by kind, by how they were run (session, any, route, scatter, everywhere, refused) and outcome.",
    ),
    (ERRORS_TOTAL, "Errors told to clients, by class of SQLSTATE."),
    (PINS_TOTAL, "Sessions tied to a server connection, by reason."),
    (CLIENT_RECEIVED_BYTES_TOTAL, "Bytes received from clients."),
    (CLIENT_SENT_BYTES_TOTAL, "Bytes sent to clients."),
    (
        COMMITS_TOTAL,
        "Ends of transactions that asked to commit, by kind (one: at most one shard wrote, two_phase, one_phase) and outcome.",
    ),
    (RECOVERED_TOTAL, "Prepared transactions that recovery has ended, by outcome."),
    (LOGINS_TOTAL, "Logins of clients by outcome."),
];

/// Histograms, in seconds: name and help.
pub const HISTOGRAMS: &[(&str, &str)] = &[
    (
        POOL_WAIT_SECONDS,
        "Time that clients waited for a server connection, by shard; without waiting nothing is counted.",
    ),
    (STATEMENT_SECONDS, "Time from a statement's arrival to its answer, by how it was run."),
];

/// Upper bounds of the buckets of all histograms: from what a point read takes to what a report takes.
pub const SECONDS_BUCKETS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];
