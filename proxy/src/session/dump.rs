//! What pg_dump must not see: the schema `shardway`, which is the proxy's own.
//!
//! pg_dump reads every schema and dumps those whose names are not the system's, and it finds no way to be told otherwise
//! but its own switches. So its query for schemas, and no other statement, gets another name for this one.

/// How pg_dump's query for schemas begins since PostgreSQL 8.1 (getNamespaces in pg_dump.c).
const BEGINS: &str = "SELECT n.tableoid, n.oid, n.nspname, ";
const COLUMN: &str = "n.nspname";
/// Names that begin with `pg_` are the system's (selectDumpableNamespace in pg_dump.c).
const RENAMED: &str = "CASE n.nspname WHEN 'shardway' THEN 'pg_shardway' ELSE n.nspname END AS nspname";

/// pg_dump's query for schemas, with another name for our own; `None` for any other text.
pub fn schemas_query(text: &str) -> Option<String> {
    if !text.starts_with(BEGINS) || !text.contains("FROM pg_namespace n") {
        return None;
    }
    Some(text.replacen(COLUMN, RENAMED, 1))
}

#[cfg(test)]
mod tests {
    use super::schemas_query;

    #[test]
    fn only_the_schemas_query_is_changed() {
        let query = "SELECT n.tableoid, n.oid, n.nspname, n.nspowner, n.nspacl, acldefault('n', n.nspowner) AS acldefault \
                     FROM pg_namespace n";
        let changed = schemas_query(query).unwrap_or_default();
        assert!(changed.starts_with("SELECT n.tableoid, n.oid, CASE n.nspname WHEN 'shardway'"), "{changed}");
        assert!(changed.ends_with(
            "AS nspname, n.nspowner, n.nspacl, acldefault('n', n.nspowner) AS acldefault FROM pg_namespace n"
        ));
        assert_eq!(schemas_query("SELECT n.nspname FROM pg_namespace n"), None);
        assert_eq!(schemas_query("SELECT n.tableoid, n.oid, n.nspname, 1 FROM t n"), None);
    }
}
