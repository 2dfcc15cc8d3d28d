//! The placement record: the schema `shardway` on a shard, which says what this shard is and under which placement its
//! rows were written. It is made and read by the control login alone.
//!
//! `shardway.installation` has one row for each database of a proxy that this shard serves, `shardway.placement` its
//! entries (see `config::placement`).

use crate::config::placement::Entries;
use crate::error::Error;
use crate::error::Result;
use serde::Deserialize;
use std::fmt::Write;

/// What one shard has on record for one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The same on all shards of a database.
    pub installation: String,
    /// This shard's name.
    pub shard: String,
    /// `config::placement::placement_hash`.
    pub hash: String,
    pub entries: Entries,
}

/// Which of the record's objects are there: CREATE … IF NOT EXISTS would need rights even where there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    pub schema: bool,
    pub installation: bool,
    pub placement: bool,
}

/// One row: three booleans as t or f, in the order of [`Objects`].
pub const OBJECTS_QUERY: &str = "SELECT \
    EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'shardway'), \
    EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
            WHERE nspname = 'shardway' AND relname = 'installation'), \
    EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
            WHERE nspname = 'shardway' AND relname = 'placement')";

impl Objects {
    pub fn of(row: &[Option<String>]) -> Objects {
        let flag = |at: usize| row.get(at).is_some_and(|cell| cell.as_deref() == Some("t"));
        Objects { schema: flag(0), installation: flag(1), placement: flag(2) }
    }

    pub fn all(self) -> bool {
        self.schema && self.installation && self.placement
    }
}

#[derive(Deserialize)]
struct RecordJson {
    installation: String,
    shard: String,
    hash: String,
    entries: Vec<(String, String, String)>,
}

/// No row, or one whose cell [`parse`] reads.
pub fn read_query(database: &str) -> String {
    let database = literal(database);
    format!(
        "SELECT json_build_object('installation', installation, 'shard', shard, 'hash', hash, 'entries', \
            (SELECT coalesce(json_agg(json_build_array(kind, name, place)), '[]') \
             FROM shardway.placement p WHERE p.database = i.database)) \
         FROM shardway.installation i WHERE i.database = {database}"
    )
}

/// # Errors
/// XX000: the record was not written by this program.
pub fn parse(json: &str) -> Result<Record> {
    let read: RecordJson = serde_json::from_str(json)
        .map_err(|error| Error::internal(format!("the placement record in schema shardway cannot be read: {error}")))?;
    let entries = read.entries.into_iter().map(|(kind, name, place)| ((kind, name), place)).collect();
    Ok(Record { installation: read.installation, shard: read.shard, hash: read.hash, entries })
}

/// Statements that replace the record of one database; sent as one Query they are one transaction.
pub fn write_statements(objects: Objects, database: &str, record: &Record) -> String {
    let mut sql = String::new();
    if !objects.schema {
        sql.push_str("CREATE SCHEMA shardway;\n");
    }
    if !objects.installation {
        sql.push_str(
            "CREATE TABLE shardway.installation (database text PRIMARY KEY, installation text NOT NULL, \
             shard text NOT NULL, hash text NOT NULL, written timestamptz NOT NULL DEFAULT now());\n",
        );
    }
    if !objects.placement {
        sql.push_str(
            "CREATE TABLE shardway.placement (database text, kind text, name text, place text NOT NULL, \
             PRIMARY KEY (database, kind, name));\n",
        );
    }
    let database = literal(database);
    let _ = write!(
        sql,
        "DELETE FROM shardway.placement WHERE database = {database};\n\
         DELETE FROM shardway.installation WHERE database = {database};\n\
         INSERT INTO shardway.installation (database, installation, shard, hash) VALUES ({database}, {}, {}, {});\n",
        literal(&record.installation),
        literal(&record.shard),
        literal(&record.hash),
    );
    for ((kind, name), place) in &record.entries {
        let (kind, name, place) = (literal(kind), literal(name), literal(place));
        let _ = writeln!(sql, "INSERT INTO shardway.placement VALUES ({database}, {kind}, {name}, {place});");
    }
    sql
}

/// A string constant; standard_conforming_strings is on in our connections.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
