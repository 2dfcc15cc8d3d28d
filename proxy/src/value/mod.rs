//! Column bytes ↔ [`Datum`]: the values of the types that Shardway compares, hashes and sums itself, exactly as
//! PostgreSQL does. What is not here is computed by PostgreSQL.
//!
//! A [`Datum`] is the value of a shard key (for routing: [`key`], [`mod@array`], [`hash`]). A merge works on the bytes that
//! shards send: [`binary`] compares them, [`numeric`] adds and divides, [`output`] writes results.

pub mod array;
pub mod binary;
pub mod datetime;
pub mod float;
pub mod hash;
pub mod key;
pub mod numeric;
pub mod oid;
pub mod output;

use bytes::Bytes;
use std::cmp::Ordering;
use std::fmt;

/// A PostgreSQL type's object identifier.
pub type Oid = u32;

/// A value of a type that we know. Which SQL type it is follows from the column; integers of all widths are `Int`, so
/// that equal numbers are equal keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Datum {
    Null,
    Bool(bool),
    /// smallint, integer, bigint, oid
    Int(i64),
    /// text, varchar, name, char(n) (without its padding), "char", enum labels are not here
    Text(Bytes),
    Bytea(Bytes),
    Uuid([u8; 16]),
    /// days since 2000-01-01; i32::MIN and MAX are the infinities
    Date(i32),
    /// microseconds since midnight
    Time(i64),
    /// microseconds since 2000-01-01 (UTC for timestamptz); i64::MIN and MAX are the infinities
    Timestamp(i64),
}

impl Datum {
    /// The btree order of the values of one key type; NULL is greatest, text compares as bytes (so range maps on text
    /// need a collation that does the same). Values of different kinds have the order of their kinds.
    pub fn compare(&self, other: &Datum) -> Ordering {
        match (self, other) {
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
            (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
            (Datum::Text(a), Datum::Text(b)) | (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
            (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
            (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
            (Datum::Time(a), Datum::Time(b)) | (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Datum::Bool(_) => 0,
            Datum::Int(_) => 1,
            Datum::Text(_) => 2,
            Datum::Bytea(_) => 3,
            Datum::Uuid(_) => 4,
            Datum::Date(_) => 5,
            Datum::Time(_) => 6,
            Datum::Timestamp(_) => 7,
            Datum::Null => 8,
        }
    }
}

/// As a SQL constant, for plans and messages.
impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Null => f.write_str("NULL"),
            Datum::Bool(value) => write!(f, "{value}"),
            Datum::Int(value) => write!(f, "{value}"),
            Datum::Text(bytes) => write!(f, "'{}'", String::from_utf8_lossy(bytes).replace('\'', "''")),
            Datum::Bytea(bytes) => {
                f.write_str("'\\x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("'")
            }
            Datum::Uuid(bytes) => {
                f.write_str("'")?;
                for (i, byte) in bytes.iter().enumerate() {
                    if matches!(i, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("'")
            }
            Datum::Date(days) => write!(f, "'{}'", datetime::DateText(*days)),
            Datum::Time(micros) => write!(f, "'{}'", datetime::TimeText(*micros)),
            Datum::Timestamp(micros) => write!(f, "'{}'", datetime::TimestampText(*micros)),
        }
    }
}

/// The types that a shard key may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    SmallInt,
    Integer,
    BigInt,
    Text,
    Varchar,
    Bpchar,
    Uuid,
    Date,
    Timestamp,
    TimestampTz,
}

impl KeyType {
    /// Every key type, in the order in which messages list them.
    pub const ALL: [KeyType; 10] = [
        KeyType::SmallInt,
        KeyType::Integer,
        KeyType::BigInt,
        KeyType::Text,
        KeyType::Varchar,
        KeyType::Bpchar,
        KeyType::Uuid,
        KeyType::Date,
        KeyType::Timestamp,
        KeyType::TimestampTz,
    ];

    /// Reads a type as format_type spells it, or by its short name; `None` for what cannot be a shard key. A length is
    /// accepted (`character varying(20)`, `char(3)`). A precision is not: `timestamp(0)` rounds what it stores, so the
    /// place of a stored value would not follow from the value that the client wrote.
    pub fn parse_name(name: &str) -> Option<KeyType> {
        let lower = name.trim().to_ascii_lowercase();
        let (base, length) = match lower.split_once('(') {
            Some((base, rest)) => (base.trim_end(), Some(rest.strip_suffix(')')?.trim())),
            None => (lower.as_str(), None),
        };
        let key = match base {
            "smallint" | "int2" => KeyType::SmallInt,
            "integer" | "int" | "int4" => KeyType::Integer,
            "bigint" | "int8" => KeyType::BigInt,
            "text" => KeyType::Text,
            "character varying" | "varchar" => KeyType::Varchar,
            "character" | "char" | "bpchar" => KeyType::Bpchar,
            "uuid" => KeyType::Uuid,
            "date" => KeyType::Date,
            "timestamp without time zone" | "timestamp" => KeyType::Timestamp,
            "timestamp with time zone" | "timestamptz" => KeyType::TimestampTz,
            _ => return None,
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match length {
            None => Some(key),
            Some(length) => (matches!(key, KeyType::Varchar | KeyType::Bpchar) && digits(length)).then_some(key),
        }
    }

    /// The key type of a column of this type; modifiers are not looked at (see [`KeyType::parse_name`]).
    pub fn from_oid(oid: Oid) -> Option<KeyType> {
        KeyType::ALL.into_iter().find(|key| key.oid() == oid)
    }

    pub fn oid(self) -> Oid {
        match self {
            KeyType::SmallInt => oid::INT2,
            KeyType::Integer => oid::INT4,
            KeyType::BigInt => oid::INT8,
            KeyType::Text => oid::TEXT,
            KeyType::Varchar => oid::VARCHAR,
            KeyType::Bpchar => oid::BPCHAR,
            KeyType::Uuid => oid::UUID,
            KeyType::Date => oid::DATE,
            KeyType::Timestamp => oid::TIMESTAMP,
            KeyType::TimestampTz => oid::TIMESTAMPTZ,
        }
    }

    /// The type's array type.
    pub fn array_oid(self) -> Oid {
        match self {
            KeyType::SmallInt => oid::INT2_ARRAY,
            KeyType::Integer => oid::INT4_ARRAY,
            KeyType::BigInt => oid::INT8_ARRAY,
            KeyType::Text => oid::TEXT_ARRAY,
            KeyType::Varchar => oid::VARCHAR_ARRAY,
            KeyType::Bpchar => oid::BPCHAR_ARRAY,
            KeyType::Uuid => oid::UUID_ARRAY,
            KeyType::Date => oid::DATE_ARRAY,
            KeyType::Timestamp => oid::TIMESTAMP_ARRAY,
            KeyType::TimestampTz => oid::TIMESTAMPTZ_ARRAY,
        }
    }

    /// The name as format_type gives it, without modifiers.
    pub fn name(self) -> &'static str {
        match self {
            KeyType::SmallInt => "smallint",
            KeyType::Integer => "integer",
            KeyType::BigInt => "bigint",
            KeyType::Text => "text",
            KeyType::Varchar => "character varying",
            KeyType::Bpchar => "character",
            KeyType::Uuid => "uuid",
            KeyType::Date => "date",
            KeyType::Timestamp => "timestamp without time zone",
            KeyType::TimestampTz => "timestamp with time zone",
        }
    }

    /// smallint, integer, bigint: their hashes agree, so that they may share a shard map.
    pub fn is_integer(self) -> bool {
        matches!(self, KeyType::SmallInt | KeyType::Integer | KeyType::BigInt)
    }

    /// text, varchar, character.
    pub fn is_text(self) -> bool {
        matches!(self, KeyType::Text | KeyType::Varchar | KeyType::Bpchar)
    }

    /// Least and greatest value of an integer type.
    pub(crate) fn integer_range(self) -> Option<(i64, i64)> {
        match self {
            KeyType::SmallInt => Some((i64::from(i16::MIN), i64::from(i16::MAX))),
            KeyType::Integer => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
            KeyType::BigInt => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The bytes without trailing spaces: what `character(n)` compares and hashes (bpchartruelen).
pub(crate) fn trim_padding(bytes: &[u8]) -> &[u8] {
    let padding = bytes.iter().rev().take_while(|&&byte| byte == b' ').count();
    bytes.get(..bytes.len() - padding).unwrap_or(bytes)
}
