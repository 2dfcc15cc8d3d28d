//! Key types and key values as the file writes them → [`KeyType`] and [`Datum`], and the order of whole keys.

use crate::config::reader::Literal;
use crate::value::Datum;
use crate::value::KeyType;
use crate::value::key::from_text_literal;
use std::cmp::Ordering;

/// A type's name as format_type gives it.
///
/// # Errors
/// Types that cannot be a shard key, with those that can.
pub fn key_type(text: &str) -> Result<KeyType, String> {
    let told = || {
        let names: Vec<&str> = KeyType::ALL.iter().map(|key| key.name()).collect();
        format!("\"{text}\" cannot be the type of a shard key; choices: {}", names.join(", "))
    };
    KeyType::parse_name(text).ok_or_else(told)
}

/// A value of a key column: an integer of the file for integer types, a string (or TOML date) for the others.
///
/// # Errors
/// What was expected.
pub fn datum(key: KeyType, written: &Literal) -> Result<Datum, String> {
    if written.is_integer != key.is_integer() {
        let expected = if key.is_integer() { "an integer" } else { "a string" };
        return Err(format!("expected {expected} for the key type {}", key.name()));
    }
    match from_text_literal(key, &written.text) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(format!("expected {}, not \"{}\"", example(key), written.text)),
        Err(error) => Err(error.into_message().into_owned()),
    }
}

fn example(key: KeyType) -> &'static str {
    match key {
        KeyType::SmallInt | KeyType::Integer | KeyType::BigInt => "an integer in decimal",
        KeyType::Text | KeyType::Varchar | KeyType::Bpchar => "text without trailing spaces or NUL",
        KeyType::Uuid => "a UUID",
        KeyType::Date => "a date such as \"2026-01-31\"",
        KeyType::Timestamp => "a timestamp such as \"2026-01-31 00:00:00\"",
        KeyType::TimestampTz => "a timestamp with its zone such as \"2026-01-31 00:00:00+00\"",
    }
}

/// The order of two whole keys: column by column, as PostgreSQL's row comparison.
pub fn compare(a: &[Datum], b: &[Datum]) -> Ordering {
    let unequal = a.iter().zip(b).map(|(left, right)| left.compare(right)).find(|order| order.is_ne());
    unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// The order of two lower bounds, where none is below all.
pub fn compare_lower(a: Option<&[Datum]>, b: Option<&[Datum]>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Whether a range that ends at `to` (not in it) reaches one that begins at `from`, the ranges being sorted.
pub fn overlap(to: Option<&[Datum]>, from: Option<&[Datum]>) -> bool {
    match (to, from) {
        (Some(to), Some(from)) => compare(to, from).is_gt(),
        _ => true,
    }
}
