//! Column bytes ↔ [`Datum`]: the values of the types that Shardway compares, hashes and sums itself, exactly as
//! PostgreSQL does. What is not here is computed by PostgreSQL.

pub mod oid;

use bytes::Bytes;

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
