//! What a function may do beside computing: the facts that decide where a statement with it can run.

use super::Context;
use crate::catalog::FunctionKind;
use crate::catalog::UserFunction;
use crate::catalog::Volatility;
use crate::config::RunsOn;

/// What is known of a function by its name.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// It computes from its arguments and the session's settings.
    Plain(Traits),
    /// It may read or write what its name does not say.
    Opaque,
    /// The operator says where it runs.
    Declared {
        runs_on: RunsOn,
        stateless: bool,
    },
    /// `now()` and the like: one value for a transaction, another on each server.
    Time,
    /// Its answer depends on the server or the connection.
    Server,
    /// nextval and the like; the first argument names the sequence, where there is one.
    Sequence,
    SetConfig,
    /// Locks that last for the session, or for the transaction.
    AdvisoryLock {
        session: bool,
    },
    Notify,
    /// No such function is known.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    pub volatile: bool,
    pub aggregate: bool,
    pub window: bool,
    pub returns_set: bool,
}

/// Functions that make one value for a transaction or a statement; `age(x)` counts from today.
const TIME: [&str; 10] = [
    "age",
    "current_date",
    "current_time",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "now",
    "statement_timestamp",
    "timenow",
    "transaction_timestamp",
];

/// Built-in functions that read tables by name or by text, their sizes, or large objects.
const READS_TABLES: [&str; 24] = [
    "cursor_to_xml",
    "cursor_to_xmlschema",
    "database_to_xml",
    "database_to_xml_and_xmlschema",
    "database_to_xmlschema",
    "query_to_xml",
    "query_to_xml_and_xmlschema",
    "query_to_xmlschema",
    "schema_to_xml",
    "schema_to_xml_and_xmlschema",
    "schema_to_xmlschema",
    "table_to_xml",
    "table_to_xml_and_xmlschema",
    "table_to_xmlschema",
    "pg_total_relation_size",
    "pg_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_database_size",
    "ts_stat",
    "ts_rewrite",
    "lo_import",
    "lo_export",
    "pg_stat_get_numscans",
];

/// Names of built-in functions whose volatile answers are as good from any server, row by row.
const FRESH: [&str; 6] = ["clock_timestamp", "gen_random_uuid", "random", "random_normal", "uuidv4", "uuidv7"];

/// Built-in functions whose answers differ between servers, databases or connections and do not begin with `pg_`.
const SERVER: [&str; 27] = [
    "current_catalog",
    "current_database",
    "version",
    "inet_client_addr",
    "inet_client_port",
    "inet_server_addr",
    "inet_server_port",
    "txid_current",
    "txid_current_if_assigned",
    "txid_current_snapshot",
    "txid_status",
    "txid_snapshot_xmin",
    "txid_snapshot_xmax",
    "to_regclass",
    "to_regtype",
    "to_regproc",
    "to_regprocedure",
    "to_regoper",
    "to_regoperator",
    "to_regnamespace",
    "to_regrole",
    "to_regcollation",
    "col_description",
    "obj_description",
    "shobj_description",
    "format_type",
    "timeofday",
];

/// Functions with a `pg_` name that only compute.
const PG_PLAIN: [&str; 5] = ["pg_typeof", "pg_column_size", "pg_size_pretty", "pg_size_bytes", "pg_client_encoding"];

/// Aggregates whose result depends on the order of their input.
pub const ORDERED_AGGREGATES: [&str; 11] = [
    "array_agg",
    "string_agg",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    "xmlagg",
    "json_agg_strict",
    "jsonb_agg_strict",
    "json_arrayagg",
    "json_objectagg",
];

/// What a function of this name does; `parts` is the name, folded, with its schema where that is written.
pub fn kind(context: &Context<'_>, parts: &[String]) -> Kind {
    let Some(name) = parts.last() else { return Kind::Unknown };
    let schema = parts.len().checked_sub(2).and_then(|n| parts.get(n)).map(String::as_str);
    let functions = &context.catalog.functions;
    let is_named = |f: &&UserFunction| schema.is_none_or(|s| f.name.schema == s);
    let user: Vec<&UserFunction> = functions.user.get(name).into_iter().flatten().filter(is_named).collect();
    if !user.is_empty() && schema != Some("pg_catalog") {
        let declared =
            functions.declared.iter().find(|d| d.name == *name && user.iter().all(|f| f.name.schema == d.schema));
        if let Some(declared) = declared {
            return Kind::Declared { runs_on: declared.runs_on.clone(), stateless: declared.stateless };
        }
        if user.iter().any(|f| !is_transparent(f)) {
            return Kind::Opaque;
        }
    }
    let mut traits = Traits::default();
    for f in &user {
        traits.volatile |= f.volatility == Volatility::Volatile;
        traits.aggregate |= f.kind == FunctionKind::Aggregate;
        traits.window |= f.kind == FunctionKind::Window;
        traits.returns_set |= f.returns_set;
    }
    let may_be_builtin = schema.is_none_or(|s| s == "pg_catalog" || s == "information_schema");
    let Some(builtin) = functions.builtin.get(name.as_str()).filter(|_| may_be_builtin) else {
        if user.is_empty() {
            return special(name, may_be_builtin);
        }
        return Kind::Plain(traits);
    };
    if let Some(special) = builtin_special(name, builtin.volatility) {
        return special;
    }
    traits.volatile |= builtin.volatility == Volatility::Volatile;
    traits.aggregate |= builtin.is_aggregate;
    traits.window |= builtin.is_window;
    traits.returns_set |= builtin.returns_set;
    Kind::Plain(traits)
}

/// Names that the grammar takes as functions and that pg_proc does not have.
fn special(name: &str, may_be_builtin: bool) -> Kind {
    match name {
        _ if !may_be_builtin => Kind::Unknown,
        "current_timestamp" | "current_date" | "current_time" | "localtime" | "localtimestamp" => Kind::Time,
        "current_catalog" => Kind::Server,
        "coalesce" | "nullif" | "greatest" | "least" | "current_role" | "current_user" | "session_user" | "user"
        | "current_schema" | "grouping" | "row" | "normalize" | "overlay" | "position" | "substring" | "trim"
        | "treat" | "extract" | "array" | "json_object" | "json_array" | "json_scalar" | "json_serialize" | "json"
        | "json_value" | "json_query" | "json_exists" | "xmlconcat" | "xmlelement" | "xmlforest" | "xmlparse"
        | "xmlpi" | "xmlroot" | "xmlserialize" | "merge_action" | "system_user" | "convert" => {
            Kind::Plain(Traits::default())
        }
        "json_arrayagg" | "json_objectagg" => Kind::Plain(Traits { aggregate: true, ..Traits::default() }),
        _ => Kind::Unknown,
    }
}

fn builtin_special(name: &str, volatility: Volatility) -> Option<Kind> {
    Some(match name {
        "set_config" => Kind::SetConfig,
        "nextval" | "currval" | "setval" | "lastval" => Kind::Sequence,
        "pg_notify" => Kind::Notify,
        _ if TIME.contains(&name) => Kind::Time,
        _ if READS_TABLES.contains(&name) || name.starts_with("lo_") || name == "loread" || name == "lowrite" => {
            Kind::Opaque
        }
        _ if name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_") => {
            Kind::AdvisoryLock { session: !name.contains("_xact_") }
        }
        _ if SERVER.contains(&name) || (name.starts_with("pg_") && !PG_PLAIN.contains(&name)) => Kind::Server,
        _ if name.starts_with("_pg_") && volatility != Volatility::Immutable => Kind::Server,
        _ if name.starts_with("has_") && name.ends_with("_privilege") => Kind::Server,
        _ if volatility == Volatility::Volatile && !FRESH.contains(&name) => Kind::Server,
        _ => return None,
    })
}

/// Whether a setting's value is the server's own, and no session can make it equal on all.
pub fn is_server_setting(name: &str) -> bool {
    const OF_SERVER: [&str; 16] = [
        "archive_",
        "cluster_name",
        "config_file",
        "data_",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "in_hot_standby",
        "listen_addresses",
        "log_",
        "max_",
        "port",
        "server_version",
        "shared_",
        "ssl",
        "unix_socket_",
    ];
    let name = name.to_ascii_lowercase();
    !name.contains('.') && OF_SERVER.iter().any(|start| name.starts_with(start))
}

/// Declared IMMUTABLE, or in C or built in from an extension.
fn is_transparent(function: &UserFunction) -> bool {
    function.kind != FunctionKind::Procedure
        && (function.volatility == Volatility::Immutable
            || (function.from_extension
                && matches!(function.language.as_str(), "c" | "internal")
                && !function.name.name.starts_with("dblink")))
}
