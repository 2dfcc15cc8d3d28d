//! Text → binary format and rows → frames and back, for tests.

use num_bigint::BigInt;
use shardway::value::Datum;
use shardway::value::KeyType;
use shardway::value::Oid;
use shardway::value::key;
use shardway::value::numeric::Numeric;
use shardway::value::oid;

pub fn type_oid(name: &str) -> Oid {
    match name {
        "bool" => oid::BOOL,
        "int2" => oid::INT2,
        "int4" => oid::INT4,
        "int8" => oid::INT8,
        "float4" => oid::FLOAT4,
        "float8" => oid::FLOAT8,
        "numeric" => oid::NUMERIC,
        "text" => oid::TEXT,
        "bpchar" => oid::BPCHAR,
        "date" => oid::DATE,
        "timestamptz" => oid::TIMESTAMPTZ,
        "interval" => oid::INTERVAL,
        "uuid" => oid::UUID,
        "money" => oid::MONEY,
        "jsonb" => oid::JSONB,
        "enum" => oid::FIRST_USER,
        other => panic!("unknown type {other}"),
    }
}

/// Intervals are written `months/days/microseconds`.
pub fn binary(type_oid: Oid, text: &str) -> Vec<u8> {
    match type_oid {
        oid::BOOL => vec![u8::from(text == "t")],
        oid::INT2 => text.parse::<i16>().unwrap().to_be_bytes().to_vec(),
        oid::INT4 => text.parse::<i32>().unwrap().to_be_bytes().to_vec(),
        oid::INT8 | oid::MONEY => text.parse::<i64>().unwrap().to_be_bytes().to_vec(),
        oid::FLOAT4 => text.parse::<f32>().unwrap().to_be_bytes().to_vec(),
        oid::FLOAT8 => text.parse::<f64>().unwrap().to_be_bytes().to_vec(),
        oid::NUMERIC => {
            let mut out = Vec::new();
            number(text).write_binary(&mut out).unwrap();
            out
        }
        oid::INTERVAL => {
            let parts: Vec<i64> = text.split('/').map(|part| part.parse().unwrap()).collect();
            [&parts[2].to_be_bytes()[..], &(parts[1] as i32).to_be_bytes(), &(parts[0] as i32).to_be_bytes()].concat()
        }
        oid::DATE | oid::TIMESTAMPTZ | oid::UUID => {
            let key_type = KeyType::from_oid(type_oid).unwrap();
            match key::from_text_literal(key_type, text).unwrap().unwrap() {
                Datum::Date(days) => days.to_be_bytes().to_vec(),
                Datum::Timestamp(micros) => micros.to_be_bytes().to_vec(),
                Datum::Uuid(bytes) => bytes.to_vec(),
                other => panic!("{other}"),
            }
        }
        _ => text.as_bytes().to_vec(),
    }
}

fn number(text: &str) -> Numeric {
    match text {
        "NaN" => return Numeric::NaN,
        "Infinity" => return Numeric::Infinity,
        "-Infinity" => return Numeric::NegInfinity,
        _ => {}
    }
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let unscaled: BigInt = format!("{integer}{fraction}").parse().unwrap();
    Numeric::Finite { unscaled, scale: fraction.len() as u16 }
}

/// The body of a DataRow message.
pub fn row(values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        match value {
            None => body.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(value) => {
                body.extend_from_slice(&(value.len() as u32).to_be_bytes());
                body.extend_from_slice(value);
            }
        }
    }
    body
}

/// DataRow messages → values.
pub fn rows(mut out: &[u8]) -> Vec<Vec<Option<Vec<u8>>>> {
    let mut rows = Vec::new();
    while !out.is_empty() {
        assert_eq!(out[0], b'D');
        let len = u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize;
        let mut body = &out[7..len + 1];
        let count = u16::from_be_bytes(out[5..7].try_into().unwrap());
        let mut values = Vec::new();
        for _ in 0..count {
            let len = i32::from_be_bytes(body[..4].try_into().unwrap());
            body = &body[4..];
            values.push((len >= 0).then(|| body[..len as usize].to_vec()));
            body = &body[len.max(0) as usize..];
        }
        assert!(body.is_empty());
        rows.push(values);
        out = &out[len + 1..];
    }
    rows
}
