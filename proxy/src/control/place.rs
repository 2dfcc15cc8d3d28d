//! Where a row belongs, as SQL: a shard map → an expression over a table's key columns that gives the shard's position,
//! or -1 for a key that lives nowhere. It must say what `route` says.

use crate::config::MapConfig;
use crate::config::MapFunction;
use crate::config::name::quoted;
use crate::value::Datum;
use crate::value::KeyType;
use std::fmt::Write;

/// HASH_PARTITION_SEED (partbounds.h), as a bigint.
const SEED: i64 = 0x7A5B_2236_7996_DCFD;
/// What hash_combine64 adds.
const COMBINE: i64 = 0x49a0_f4dd_15e5_a8e3;
/// hash_array of one element is 31 plus the element's hash, for every type.
const ARRAY_OF_ONE: i64 = 31;

/// The name under which the statement must read the table.
pub const TABLE: &str = "shardway_t";

/// `FROM table, LATERAL …` items that the expression needs (with their leading comma), and the expression. Both name
/// the table [`TABLE`].
pub struct PlaceSql {
    pub laterals: String,
    pub expression: String,
}

/// `key`: the table's key columns with their own types, in the order of the map's key. A type may be another of the
/// map's family (integers, text): values are hashed and compared as the table's.
pub fn place_sql(map: &MapConfig, key: &[(String, KeyType)]) -> PlaceSql {
    let types: Vec<KeyType> = key.iter().map(|(_, key)| *key).collect();
    let types = types.as_slice();
    let columns: Vec<String> =
        key.iter().map(|(column, key)| operand(*key, &format!("{TABLE}.{}", quoted(column)))).collect();
    let mut cases = String::new();
    for (key, shard) in &map.pins {
        let _ = write!(cases, " WHEN {} THEN {shard}", equals(types, &columns, key));
    }
    let mut sql = PlaceSql { laterals: String::new(), expression: String::new() };
    let function = place(&map.function, types, &columns, &mut sql.laterals);
    sql.expression = if cases.is_empty() { function } else { format!("CASE{cases} ELSE {function} END") };
    sql
}

/// The place that a function gives to the key in `columns`.
fn place(function: &MapFunction, types: &[KeyType], columns: &[String], laterals: &mut String) -> String {
    match function {
        MapFunction::Hash(placement) if placement.len() == 1 => placement.first().map_or(-1, |s| *s as i64).to_string(),
        MapFunction::Hash(placement) => {
            let hash = hash_laterals(columns, placement.len(), laterals);
            let shards: Vec<String> = placement.iter().map(ToString::to_string).collect();
            format!("('{{{}}}'::int4[])[{hash} + 1]", shards.join(","))
        }
        MapFunction::Range(_) | MapFunction::List { .. } => {
            chosen(function, types, columns, &|shard| shard.to_string())
        }
        MapFunction::Groups { columns: split, first, groups } => {
            let (Some((types, rest)), Some((columns, others))) =
                (types.split_at_checked(*split), columns.split_at_checked(*split))
            else {
                return "-1".to_owned();
            };
            let places: Vec<String> = groups.iter().map(|group| place(group, rest, others, laterals)).collect();
            chosen(first, types, columns, &|group| places.get(group).cloned().unwrap_or_else(|| "-1".to_owned()))
        }
    }
}

/// A range or list whose places are told by `told`.
fn chosen(function: &MapFunction, types: &[KeyType], columns: &[String], told: &dyn Fn(usize) -> String) -> String {
    let mut cases = String::new();
    let otherwise = match function {
        MapFunction::Range(parts) => {
            for (from, to, shard) in parts {
                let from = from.as_ref().map(|key| compare(types, columns, ">=", key));
                let to = to.as_ref().map(|key| compare(types, columns, "<", key));
                // Without bounds a NULL key would be in the range too; it has no place.
                let filled = columns.iter().map(|column| format!("{column} IS NOT NULL"));
                let conditions: Vec<String> = filled.chain(from).chain(to).collect();
                let _ = write!(cases, " WHEN {} THEN {}", conditions.join(" AND "), told(*shard));
            }
            None
        }
        MapFunction::List { values, default } => {
            for (key, shard) in values {
                let _ = write!(cases, " WHEN {} THEN {}", equals(types, columns, key), told(*shard));
            }
            *default
        }
        MapFunction::Hash(_) | MapFunction::Groups { .. } => None,
    };
    let otherwise = otherwise.map_or_else(|| "-1".to_owned(), told);
    if cases.is_empty() { otherwise } else { format!("CASE{cases} ELSE {otherwise} END") }
}

/// A key column as it is hashed and compared: text by its bytes, whatever the column's collation.
fn operand(key: KeyType, column: &str) -> String {
    match key {
        KeyType::Text | KeyType::Varchar => format!("({column}::text COLLATE \"C\")"),
        KeyType::Bpchar => format!("({column}::bpchar COLLATE \"C\")"),
        KeyType::SmallInt | KeyType::Integer | KeyType::BigInt => format!("{column}::int8"),
        KeyType::Uuid | KeyType::Date | KeyType::Timestamp | KeyType::TimestampTz => column.to_owned(),
    }
}

/// compute_partition_hash_value (partbounds.c), modulo the number of buckets: `h = hash_combine64(h, hash(column))` for
/// each column that is not NULL. bigint arithmetic must not overflow, so each step keeps only the low bits that the
/// bucket and the later steps (which shift right by 7) need; with at most 4 columns that is less than 54 bits, where the
/// `h << 54` of the combination begins.
///
/// Adds the items to `text` and gives the column that holds the bucket.
fn hash_laterals(columns: &[String], buckets: usize, text: &mut String) -> String {
    let bucket_bits = buckets.trailing_zeros();
    let done = text.matches(", LATERAL ").count();
    let mut before = "0::int8".to_owned();
    for (i, column) in columns.iter().enumerate() {
        let later = u32::try_from(columns.len() - 1 - i).unwrap_or(0);
        let mask = (1_i64 << (bucket_bits + 7 * later)) - 1;
        let constant = COMBINE.wrapping_sub(ARRAY_OF_ONE) & mask;
        let number = done + i + 1;
        let hash = format!("(hash_array_extended(ARRAY[{column}], {SEED}) & {mask})");
        let _ = write!(
            text,
            ", LATERAL (SELECT CASE WHEN {column} IS NULL THEN {before} & {mask} \
             ELSE ({before} # ({hash} + {constant} + ({before} >> 7))) & {mask} END AS h) AS shardway_h{number}"
        );
        before = format!("shardway_h{number}.h");
    }
    before
}

fn equals(types: &[KeyType], columns: &[String], key: &[Datum]) -> String {
    let one = |((column, value), key): ((&String, &Datum), &KeyType)| match value {
        Datum::Null => format!("{column} IS NULL"),
        value => format!("{column} = {}", literal(*key, value)),
    };
    let conditions: Vec<String> = columns.iter().zip(key).zip(types).map(one).collect();
    format!("({})", conditions.join(" AND "))
}

fn compare(types: &[KeyType], columns: &[String], operator: &str, key: &[Datum]) -> String {
    let literals: Vec<String> = key.iter().zip(types).map(|(value, key)| literal(*key, value)).collect();
    let columns = columns.get(..literals.len()).unwrap_or_default();
    format!("({}) {operator} ({})", columns.join(", "), literals.join(", "))
}

/// A value as a constant of the key's type.
fn literal(key: KeyType, value: &Datum) -> String {
    match key {
        KeyType::SmallInt | KeyType::Integer | KeyType::BigInt => format!("'{value}'::int8"),
        KeyType::Text | KeyType::Varchar => format!("{value}::text"),
        KeyType::Bpchar => format!("{value}::bpchar"),
        KeyType::Uuid => format!("{value}::uuid"),
        KeyType::Date => format!("{value}::date"),
        KeyType::Timestamp => format!("{value}::timestamp"),
        KeyType::TimestampTz => format!("({value}::timestamp AT TIME ZONE 'UTC')"),
    }
}
