//! The placement of a database as canonical text: what decides where each row lives, and nothing else. Two
//! configurations with the same text find the same rows. Shards go by name, so their order does not matter.

use crate::config::Database;
use crate::config::MapConfig;
use crate::config::MapFunction;
use crate::config::RangePart;
use crate::config::TableConfig;
use crate::config::TablePlace;
use crate::config::UnlistedTables;
use crate::config::name::quoted;
use crate::value::Datum;
use crate::value::KeyType;
use sha2::Digest;
use sha2::Sha256;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is placed → where: ("shard", name), ("table", `"schema"."name"`), ("column", `"name"`), ("unlisted", "").
pub type Entries = BTreeMap<(String, String), String>;

/// SHA-256 of [`text`], in hexadecimal.
pub fn placement_hash(database: &Database) -> String {
    hex(&Sha256::digest(text(database).as_bytes()))
}

/// One line for each entry: kind, name, place.
pub fn text(database: &Database) -> String {
    let lines: Vec<String> =
        entries(database).into_iter().map(|((kind, name), place)| [kind, name, place].join(" ")).collect();
    lines.join("\n")
}

pub fn entries(database: &Database) -> Entries {
    let key = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    let mut entries = Entries::new();
    for shard in &database.shards {
        entries.insert(key("shard", &shard.name), String::new());
    }
    for table in &database.tables {
        entries.insert(key("table", &table_name(table)), table_text(database, &table.place));
    }
    for (column, map) in &database.column_rules {
        let place = TablePlace::Sharded { map: *map, key: vec![column.clone()] };
        entries.insert(key("column", &quoted(column)), table_text(database, &place));
    }
    entries.insert(key("unlisted", ""), unlisted_text(database.unlisted).to_owned());
    entries
}

/// Where entries say that a table lives: by its own entry, else by the first of its columns that has one, else as
/// unlisted tables do. `columns` are bare names.
pub fn effective<'e, 'c>(
    entries: &'e Entries,
    table: &str,
    mut columns: impl Iterator<Item = &'c str>,
) -> Option<&'e str> {
    let entry = |kind: &str, name: &str| entries.get(&(kind.to_owned(), name.to_owned())).map(String::as_str);
    entry("table", table)
        .or_else(|| columns.find_map(|column| entry("column", &quoted(column))))
        .or_else(|| entry("unlisted", ""))
}

/// `"schema"."name"`.
pub fn table_name(table: &TableConfig) -> String {
    format!("{}.{}", quoted(&table.schema), quoted(&table.name))
}

pub fn unlisted_text(unlisted: UnlistedTables) -> &'static str {
    match unlisted {
        UnlistedTables::Single => "single where found",
        UnlistedTables::Reference => "reference",
        UnlistedTables::Refuse => "refuse",
    }
}

/// Where one table's rows live: `reference`, `single s1`, or `sharded ("tenant_id") hash (bigint) …`.
pub fn table_text(database: &Database, place: &TablePlace) -> String {
    match place {
        TablePlace::Reference => "reference".to_owned(),
        TablePlace::Single(shard) => format!("single {}", shard_name(database, *shard)),
        TablePlace::Sharded { map, key } => {
            let columns: Vec<String> = key.iter().map(|column| quoted(column)).collect();
            format!("sharded ({}) {}", columns.join(", "), sharded_text(database, *map))
        }
    }
}

fn sharded_text(database: &Database, map: usize) -> String {
    database.maps.get(map).map_or_else(String::new, |map| map_text(database, map))
}

/// The map's function from keys to shards; its name is not part of it. Integer types give equal places, and so do
/// text and varchar: they are told as one.
pub fn map_text(database: &Database, map: &MapConfig) -> String {
    let types: Vec<&str> = map.key.iter().map(|key| type_text(*key)).collect();
    let shard = |shard: usize| shard_name(database, shard).to_owned();
    let mut text = format!("({}) {}", types.join(", "), function_text(&map.function, &shard));
    if !map.pins.is_empty() {
        let _ = write!(text, " pins: {}", entries_text(&map.pins, &shard));
    }
    text
}

/// `place` tells the places that the function gives.
fn function_text(function: &MapFunction, place: &dyn Fn(usize) -> String) -> String {
    match function {
        MapFunction::Hash(placement) => {
            let runs: Vec<String> =
                runs(placement).into_iter().map(|(from, to, shard)| format!("{from}-{to} {}", place(shard))).collect();
            format!("hash {}: {}", placement.len(), runs.join(", "))
        }
        MapFunction::Range(parts) => {
            let part = |(from, to, shard): &RangePart| {
                let bound = |key: &Option<Vec<Datum>>| key.as_ref().map_or("…".to_owned(), |key| key_text(key));
                format!("[{}, {}) {}", bound(from), bound(to), place(*shard))
            };
            format!("range: {}", parts.iter().map(part).collect::<Vec<_>>().join(" "))
        }
        MapFunction::List { values, default } => {
            let default = default.map(|shard| format!(" default {}", place(shard))).unwrap_or_default();
            format!("list: {}{default}", entries_text(values, place))
        }
        MapFunction::Groups { columns, first, groups } => {
            let group = |group: usize| match groups.get(group) {
                Some(MapFunction::Hash(placement)) if placement.len() == 1 => {
                    placement.first().map_or_else(String::new, |shard| place(*shard))
                }
                Some(function) => format!("{{{}}}", function_text(function, place)),
                None => String::new(),
            };
            format!("{columns} by {}", function_text(first, &group))
        }
    }
}

fn type_text(key: KeyType) -> &'static str {
    match key {
        KeyType::SmallInt | KeyType::Integer | KeyType::BigInt => "integer",
        KeyType::Text | KeyType::Varchar => "text",
        KeyType::Bpchar | KeyType::Uuid | KeyType::Date | KeyType::Timestamp | KeyType::TimestampTz => key.name(),
    }
}

/// Runs of equal shards: (first bucket, last bucket, shard).
pub fn runs(placement: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for (bucket, shard) in placement.iter().enumerate() {
        match runs.last_mut() {
            Some((_, to, last)) if last == shard => *to = bucket,
            _ => runs.push((bucket, bucket, *shard)),
        }
    }
    runs
}

fn entries_text(entries: &[(Vec<Datum>, usize)], place: &dyn Fn(usize) -> String) -> String {
    let mut texts: Vec<String> =
        entries.iter().map(|(key, shard)| format!("{} {}", key_text(key), place(*shard))).collect();
    texts.sort_unstable();
    texts.join(", ")
}

fn key_text(key: &[Datum]) -> String {
    let texts: Vec<String> = key.iter().map(ToString::to_string).collect();
    format!("({})", texts.join(", "))
}

fn shard_name(database: &Database, shard: usize) -> &str {
    database.shards.get(shard).map_or("?", |shard| shard.name.as_str())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
