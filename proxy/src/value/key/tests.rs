//! Conversions to key values: expectations as a PostgreSQL server gives them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn word(text: &str) -> Datum {
    Datum::Text(Bytes::copy_from_slice(text.as_bytes()))
}

fn error(result: Result<Option<Datum>>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn integer_texts() {
    let ok = [
        ("42", 42),
        (" \t-7\n", -7),
        ("+9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
        ("007", 7),
    ];
    for (text, value) in ok {
        assert_eq!(from_text_literal(KeyType::BigInt, text).unwrap(), Some(Datum::Int(value)), "{text}");
    }
    assert_eq!(from_text_literal(KeyType::Integer, "-2147483648").unwrap(), Some(Datum::Int(-2_147_483_648)));
    assert_eq!(
        error(from_text_literal(KeyType::BigInt, "abc")),
        "22P02: invalid input syntax for type bigint: \"abc\""
    );
    for bad in ["", " ", "-", "1 2", "1.0", "1e3", "--1", "+-1", "- 1", "12abc", "٣"] {
        assert_eq!(
            error(from_text_literal(KeyType::Integer, bad)),
            format!("22P02: invalid input syntax for type integer: \"{bad}\"")
        );
    }
    let too_large = [
        (KeyType::SmallInt, "32768"),
        (KeyType::Integer, "-2147483649"),
        (KeyType::BigInt, " 9223372036854775808"),
        (KeyType::BigInt, "99999999999999999999999999"),
    ];
    for (key, text) in too_large {
        let message = format!("22003: value \"{text}\" is out of range for type {}", key.name());
        assert_eq!(error(from_text_literal(key, text)), message);
    }
    for text in ["0x1F", "1_000", "0b1", "-0O7", "99999999999999999999x"] {
        assert_eq!(from_text_literal(KeyType::BigInt, text).unwrap(), None, "{text}");
    }
}

#[test]
fn number_constants() {
    assert_eq!(from_number_literal(KeyType::SmallInt, "5", true).unwrap(), Some(Datum::Int(-5)));
    assert_eq!(from_number_literal(KeyType::SmallInt, "40000", false).unwrap(), None);
    assert_eq!(from_number_literal(KeyType::BigInt, "9223372036854775807", true).unwrap(), Some(Datum::Int(-i64::MAX)));
    assert_eq!(from_number_literal(KeyType::BigInt, "9223372036854775808", true).unwrap(), None, "a numeric");
    for (key, digits) in
        [(KeyType::BigInt, "1.0"), (KeyType::BigInt, "0x1"), (KeyType::BigInt, ""), (KeyType::Text, "1")]
    {
        assert_eq!(from_number_literal(key, digits, false).unwrap(), None);
    }
}

#[test]
fn uuids() {
    let value = Some(Datum::Uuid([
        0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11,
    ]));
    for text in [
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
    ] {
        assert_eq!(from_text_literal(KeyType::Uuid, text).unwrap(), value, "{text}");
    }
    for text in [
        "",
        "a0eebc99",
        " a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
    ] {
        assert_eq!(
            error(from_text_literal(KeyType::Uuid, text)),
            format!("22P02: invalid input syntax for type uuid: \"{text}\"")
        );
    }
}

#[test]
fn texts() {
    assert_eq!(from_text_literal(KeyType::Text, "a ").unwrap(), Some(word("a ")));
    assert_eq!(from_text_literal(KeyType::Varchar, "a").unwrap(), Some(word("a")));
    assert_eq!(from_text_literal(KeyType::Varchar, "a ").unwrap(), None, "varchar(1) would store it without the space");
    assert_eq!(from_text_literal(KeyType::Bpchar, " a  ").unwrap(), Some(word(" a")));
}

#[test]
fn parameters() {
    let int = |key, oid, bytes: &[u8]| from_param(key, oid, 1, bytes).unwrap();
    assert_eq!(int(KeyType::BigInt, oid::INT4, &[255, 255, 255, 254]), Some(Datum::Int(-2)));
    assert_eq!(int(KeyType::BigInt, oid::INT2, &[1, 0]), Some(Datum::Int(256)));
    assert_eq!(int(KeyType::SmallInt, oid::INT8, &[0, 0, 0, 0, 0, 0, 0, 3]), Some(Datum::Int(3)));
    assert_eq!(int(KeyType::SmallInt, oid::INT8, &[0, 0, 0, 1, 0, 0, 0, 3]), None);
    assert_eq!(int(KeyType::Integer, 0, &[0, 0, 0, 3]), Some(Datum::Int(3)));
    assert_eq!(int(KeyType::Integer, oid::FLOAT8, &[0; 8]), None);
    assert_eq!(int(KeyType::Integer, oid::NUMERIC, &[0; 8]), None);
    assert_eq!(int(KeyType::Integer, oid::INT4, &[0; 3]), None);
    assert_eq!(int(KeyType::Text, oid::INT4, &[0; 4]), None);
    assert_eq!(int(KeyType::Text, oid::VARCHAR, b"x"), Some(word("x")));
    assert_eq!(int(KeyType::Text, oid::BPCHAR, b"x "), None);
    assert_eq!(int(KeyType::Bpchar, oid::TEXT, b"x "), Some(word("x")));
    assert_eq!(int(KeyType::Text, oid::TEXT, b"x\0"), None);
    assert_eq!(int(KeyType::Uuid, 0, &[7; 16]), Some(Datum::Uuid([7; 16])));
    assert_eq!(int(KeyType::Date, 0, &[0, 0, 0, 1]), Some(Datum::Date(1)));
    assert_eq!(int(KeyType::TimestampTz, oid::TIMESTAMPTZ, &[0, 0, 0, 0, 0, 0, 0, 1]), Some(Datum::Timestamp(1)));
    assert_eq!(int(KeyType::TimestampTz, oid::TIMESTAMP, &[0, 0, 0, 0, 0, 0, 0, 1]), None);
    assert_eq!(from_param(KeyType::BigInt, oid::INT4, 0, b"12").unwrap(), Some(Datum::Int(12)));
    assert_eq!(
        error(from_param(KeyType::BigInt, oid::INT4, 0, b"3000000000")),
        "22003: value \"3000000000\" is out of range for type integer"
    );
    assert_eq!(from_param(KeyType::BigInt, 0, 2, b"12").unwrap(), None);
}

#[test]
fn names() {
    for key in KeyType::ALL {
        assert_eq!(KeyType::parse_name(key.name()), Some(key));
        assert_eq!(KeyType::from_oid(key.oid()), Some(key));
    }
    let more = [
        ("int", Some(KeyType::Integer)),
        ("INT8", Some(KeyType::BigInt)),
        ("varchar(20)", Some(KeyType::Varchar)),
        ("character(3)", Some(KeyType::Bpchar)),
        ("timestamptz", Some(KeyType::TimestampTz)),
        ("timestamp(3) without time zone", None),
        ("timestamp(3)", None),
        ("numeric", None),
        ("bigint[]", None),
        ("varchar(", None),
        ("\"char\"", None),
    ];
    for (name, key) in more {
        assert_eq!(KeyType::parse_name(name), key, "{name}");
    }
}
