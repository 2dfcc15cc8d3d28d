//! Which variables need care: lists from PostgreSQL's guc_tables.c.

/// The proxy's own variables: never sent to a server.
pub const OWN: [&str; 2] = ["shardway.shard", "shardway.run_on"];

/// Parameters that PostgreSQL reports (GUC_REPORT), written as it writes them. `scram_iterations` is reported from 16
/// on, `search_path` from 18 on.
pub const REPORTED: &[&str] = &[
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "scram_iterations",
    "search_path",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// Parameters whose values are names and cut to a name's length (GUC_IS_NAME), as far as a client may set them.
const NAMES: [&str; 5] =
    ["application_name", "client_encoding", "default_table_access_method", "role", "session_authorization"];

/// `name` in lower case.
pub fn is_name(name: &str) -> bool {
    NAMES.contains(&name)
}

/// PGC_INTERNAL: they can be shown, not set.
const READ_ONLY: [&str; 24] = [
    "block_size",
    "data_checksums",
    "data_directory_mode",
    "debug_assertions",
    "huge_pages_status",
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "lc_collate",
    "lc_ctype",
    "max_function_args",
    "max_identifier_length",
    "max_index_keys",
    "num_os_semaphores",
    "segment_size",
    "server_encoding",
    "server_version",
    "server_version_num",
    "shared_memory_size",
    "shared_memory_size_in_huge_pages",
    "ssl_library",
    "wal_block_size",
    "wal_segment_size",
    "effective_wal_level",
];

/// How a variable behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `shardway.…`: the proxy's own, known or not.
    Own,
    /// It belongs to the transaction: SET TRANSACTION in another form.
    Transaction,
    /// `seed`: setting it is an action, not a state; it must not be repeated.
    Action,
    ReadOnly,
    /// Kept for the session.
    Session,
}

impl Kind {
    /// Whether a session keeps its value.
    pub fn is_kept(self) -> bool {
        matches!(self, Kind::Own | Kind::Session)
    }
}

/// The kind of a variable; `name` in lower case.
pub fn kind(name: &str) -> Kind {
    match name {
        "transaction_isolation" | "transaction_read_only" | "transaction_deferrable" => Kind::Transaction,
        "seed" => Kind::Action,
        name if name.starts_with("shardway.") => Kind::Own,
        name if READ_ONLY.contains(&name) => Kind::ReadOnly,
        _ => Kind::Session,
    }
}

/// GUC_NO_RESET_ALL, of those that a session keeps.
pub fn is_not_reset_by_all(name: &str) -> bool {
    matches!(name, "role" | "session_authorization")
}

/// A list whose elements SET puts in quotes where they need them (GUC_LIST_QUOTE).
pub fn is_quoted_list(name: &str) -> bool {
    matches!(
        name,
        "search_path"
            | "temp_tablespaces"
            | "local_preload_libraries"
            | "session_preload_libraries"
            | "shared_preload_libraries"
            | "unix_socket_directories"
    )
}
