//! What tables a shard has, and statements that tell whether their rows are where a placement wants them.

use crate::config::MapConfig;
use crate::config::name::quoted;
use crate::control::place::TABLE;
use crate::control::place::place_sql;
use crate::error::Error;
use crate::error::Result;
use crate::value::KeyType;
use serde::Deserialize;

/// A table as one shard has it. Partitions and inheritance children are not listed: their rows are read by way of the
/// topmost parent, and their place is its place.
#[derive(Clone, Debug, Deserialize)]
pub struct TableFacts {
    pub schema: String,
    pub name: String,
    /// Some file of it is not empty: it may hold rows. If false it holds none, whatever our rights to read it.
    pub filled: bool,
    /// (name, type as format_type gives it), in their order.
    pub columns: Vec<(String, String)>,
}

impl TableFacts {
    /// `"schema"."name"`, as in the entries of a placement.
    pub fn sql_name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }
}

/// One cell, which [`parse_tables`] reads.
pub const TABLES_QUERY: &str = "SELECT coalesce(json_agg(json_build_object( \
      'schema', n.nspname, 'name', c.relname, \
      'filled', (WITH RECURSIVE family(oid) AS (SELECT c.oid UNION \
                   SELECT i.inhrelid FROM pg_inherits i JOIN family ON i.inhparent = family.oid) \
                 SELECT coalesce(bool_or(m.relkind = 'f' OR pg_relation_size(m.oid) > 0), false) \
                 FROM family JOIN pg_class m ON m.oid = family.oid), \
      'columns', (SELECT coalesce(json_agg(json_build_array(a.attname, format_type(a.atttypid, a.atttypmod)) \
                                           ORDER BY a.attnum), '[]') \
                  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))), '[]') \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' \
      AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'shardway') \
      AND NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = c.oid) \
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid \
                      AND d.deptype = 'e')";

/// # Errors
/// XX000: the answer is not what the query gives.
pub fn parse_tables(json: &str) -> Result<Vec<TableFacts>> {
    serde_json::from_str(json).map_err(|error| Error::internal(format!("a shard's tables cannot be read: {error}")))
}

/// The key columns of a table with their own types.
///
/// # Errors
/// A column is missing or its type does not fit the map, as a clause with the table as its subject.
pub fn key_columns(map: &MapConfig, key: &[String], table: &TableFacts) -> Result<Vec<(String, KeyType)>, String> {
    let column = |(name, expected): (&String, &KeyType)| {
        let found = table.columns.iter().find(|(column, _)| column == name);
        let (_, type_name) = found.ok_or_else(|| format!("has no column {name}, which is its shard key"))?;
        let own = KeyType::parse_name(type_name).filter(|own| fits(*expected, *own));
        let own = own.ok_or_else(|| {
            format!("has the key column {name} of type {type_name}, but its shard map is of {}", expected.name())
        })?;
        Ok((name.clone(), own))
    };
    key.iter().zip(&map.key).map(column).collect()
}

fn fits(map: KeyType, column: KeyType) -> bool {
    map == column || (map.is_integer() && column.is_integer()) || (map.is_text() && column.is_text())
}

/// A row that belongs elsewhere than on `shard`, if there is one: its key as text, and the position of the shard where
/// it belongs (-1: nowhere).
pub fn misplaced_query(map: &MapConfig, key: &[(String, KeyType)], table: &TableFacts, shard: usize) -> String {
    let place = place_sql(map, key);
    let columns: Vec<String> = key.iter().map(|(column, _)| quoted(column)).collect();
    format!(
        "SELECT ROW({})::text, shardway_place \
         FROM (SELECT {}, {} AS shardway_place FROM {} AS {TABLE}{}) AS shardway_rows \
         WHERE shardway_place IS DISTINCT FROM {shard} LIMIT 1",
        columns.join(", "),
        columns.iter().map(|column| format!("{TABLE}.{column}")).collect::<Vec<_>>().join(", "),
        place.expression,
        table.sql_name(),
        place.laterals,
    )
}

/// One row if the table has any.
pub fn any_row_query(table: &TableFacts) -> String {
    format!("SELECT 1 FROM {} LIMIT 1", table.sql_name())
}

/// A cell that is equal on two shards if their rows are (as text, in any order).
pub fn contents_query(table: &TableFacts) -> String {
    let mut names: Vec<String> = table.columns.iter().map(|(name, _)| quoted(name)).collect();
    names.sort_unstable();
    format!(
        "SELECT count(*) || ':' || coalesce(sum(hashtextextended(shardway_rows::text, 0)::numeric), 0) \
         FROM (SELECT {} FROM {}) AS shardway_rows",
        names.join(", "),
        table.sql_name()
    )
}
