//! Object identifiers of built-in types (src/include/catalog/pg_type.dat); they never change.

use super::Oid;

pub const BOOL: Oid = 16;
pub const BYTEA: Oid = 17;
pub const CHAR: Oid = 18;
pub const NAME: Oid = 19;
pub const INT8: Oid = 20;
pub const INT2: Oid = 21;
pub const INT4: Oid = 23;
pub const REGPROC: Oid = 24;
pub const TEXT: Oid = 25;
pub const OID: Oid = 26;
pub const JSON: Oid = 114;
pub const FLOAT4: Oid = 700;
pub const FLOAT8: Oid = 701;
pub const UNKNOWN: Oid = 705;
pub const CIDR: Oid = 650;
pub const MACADDR8: Oid = 774;
pub const MONEY: Oid = 790;
pub const MACADDR: Oid = 829;
pub const INET: Oid = 869;
pub const INT2_ARRAY: Oid = 1005;
pub const INT4_ARRAY: Oid = 1007;
pub const TEXT_ARRAY: Oid = 1009;
pub const BPCHAR_ARRAY: Oid = 1014;
pub const VARCHAR_ARRAY: Oid = 1015;
pub const INT8_ARRAY: Oid = 1016;
pub const BPCHAR: Oid = 1042;
pub const VARCHAR: Oid = 1043;
pub const DATE: Oid = 1082;
pub const TIME: Oid = 1083;
pub const TIMESTAMP: Oid = 1114;
pub const TIMESTAMP_ARRAY: Oid = 1115;
pub const DATE_ARRAY: Oid = 1182;
pub const TIMESTAMPTZ: Oid = 1184;
pub const TIMESTAMPTZ_ARRAY: Oid = 1185;
pub const INTERVAL: Oid = 1186;
pub const TIMETZ: Oid = 1266;
pub const BIT: Oid = 1560;
pub const VARBIT: Oid = 1562;
pub const NUMERIC: Oid = 1700;
pub const UUID: Oid = 2950;
pub const UUID_ARRAY: Oid = 2951;
pub const REGCLASS: Oid = 2205;
pub const REGTYPE: Oid = 2206;
pub const REGCLASS_ARRAY: Oid = 2210;
pub const REGTYPE_ARRAY: Oid = 2211;
pub const RECORD: Oid = 2249;
pub const RECORD_ARRAY: Oid = 2287;
pub const PG_LSN: Oid = 3220;
pub const JSONB: Oid = 3802;
/// The first identifier that a user's object can have (FirstNormalObjectId): such types differ from shard to shard.
pub const FIRST_USER: Oid = 16_384;

/// Bytes of a binary value, for types whose values all have the same length.
pub fn binary_length(oid: Oid) -> Option<usize> {
    match oid {
        BOOL => Some(1),
        INT2 => Some(2),
        INT4 | OID | FLOAT4 | DATE => Some(4),
        INT8 | FLOAT8 | MONEY | TIME | TIMESTAMP | TIMESTAMPTZ => Some(8),
        INTERVAL | UUID => Some(16),
        _ => None,
    }
}

/// The type's name as format_type gives it, for messages; `type with OID n` for types that are not named here.
pub fn describe(oid: Oid) -> String {
    match name(oid) {
        Some(name) => format!("type {name}"),
        None => format!("type with OID {oid}"),
    }
}

fn name(oid: Oid) -> Option<&'static str> {
    Some(match oid {
        BOOL => "boolean",
        BYTEA => "bytea",
        CHAR => "\"char\"",
        NAME => "name",
        INT8 => "bigint",
        INT2 => "smallint",
        INT4 => "integer",
        REGPROC => "regproc",
        TEXT => "text",
        OID => "oid",
        JSON => "json",
        CIDR => "cidr",
        FLOAT4 => "real",
        FLOAT8 => "double precision",
        UNKNOWN => "unknown",
        MACADDR8 => "macaddr8",
        MONEY => "money",
        MACADDR => "macaddr",
        INET => "inet",
        INT2_ARRAY => "smallint[]",
        INT4_ARRAY => "integer[]",
        TEXT_ARRAY => "text[]",
        INT8_ARRAY => "bigint[]",
        BPCHAR => "character",
        VARCHAR => "character varying",
        DATE => "date",
        TIME => "time without time zone",
        TIMESTAMP => "timestamp without time zone",
        TIMESTAMPTZ => "timestamp with time zone",
        INTERVAL => "interval",
        TIMETZ => "time with time zone",
        BIT => "bit",
        VARBIT => "bit varying",
        NUMERIC => "numeric",
        UUID => "uuid",
        PG_LSN => "pg_lsn",
        JSONB => "jsonb",
        _ => return None,
    })
}
