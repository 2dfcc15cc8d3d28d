//! Constants and parameters → the value of a shard key, as PostgreSQL's assignment or comparison would convert them.
//!
//! Every function gives `Ok(Some(value))` when the value is certain whatever the session's settings, `Ok(None)` when a
//! server must say (or the statement be scattered), and `Err` with the very error that PostgreSQL would raise. Text is
//! taken as the bytes that the client sent: the caller must know that the client's encoding is the server's.

use super::Datum;
use super::KeyType;
use super::Oid;
use super::datetime;
use super::oid;
use super::trim_padding;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use bytes::Bytes;

/// A string constant (its value, without quotes) or a text-format parameter of unknown type: PostgreSQL gives it the
/// key's own type.
pub fn from_text_literal(key: KeyType, text: &str) -> Result<Option<Datum>> {
    from_text(key, text.as_bytes())
}

/// An integer constant beside or into an integer key; `digits` are decimal, `negative` says that a minus sign stands
/// before them. Constants beyond the key's range or with other digits (0x1F, 1_000, 1.5, 1e3) are left to a server.
pub fn from_number_literal(key: KeyType, digits: &str, negative: bool) -> Result<Option<Datum>> {
    let Some((least, greatest)) = key.integer_range() else { return Ok(None) };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    // the minus is an operator: 9223372036854775808 is a numeric even behind one
    let Ok(value) = digits.parse::<i64>() else { return Ok(None) };
    let value = if negative { -value } else { value };
    Ok((least..=greatest).contains(&value).then_some(Datum::Int(value)))
}

/// A parameter that is not NULL. `param_type` is its type as declared or inferred by a server, 0 or `unknown` meaning
/// the key's own; `format` is 0 for text, 1 for binary. What PostgreSQL compares with the key by another operator
/// family, or what is malformed in binary, gives `Ok(None)`.
pub fn from_param(key: KeyType, param_type: Oid, format: i16, bytes: &[u8]) -> Result<Option<Datum>> {
    let own = matches!(param_type, 0 | oid::UNKNOWN);
    let Some(param) = (if own { Some(key) } else { KeyType::from_oid(param_type) }) else { return Ok(None) };
    if !converts(param, key) {
        return Ok(None);
    }
    let value = match format {
        0 => from_text(param, bytes)?,
        1 => from_binary(param, bytes),
        _ => None,
    };
    Ok(value.and_then(|value| narrow(key, value)))
}

/// Whether a value of one type is equal to a key of the other exactly when the key values are equal.
fn converts(from: KeyType, to: KeyType) -> bool {
    match (from, to) {
        // varchar = character compares without trailing spaces, so that keys with other hashes can match
        (KeyType::Bpchar, KeyType::Text | KeyType::Varchar) => false,
        _ => from == to || (from.is_integer() && to.is_integer()) || (from.is_text() && to.is_text()),
    }
}

/// A value of a type that converts → a value of the key's type, where both are certain to be the same.
fn narrow(key: KeyType, value: Datum) -> Option<Datum> {
    match (key, value) {
        (KeyType::Bpchar, Datum::Text(bytes)) => Some(Datum::Text(bytes.slice_ref(trim_padding(&bytes)))),
        // a varchar(n) column drops spaces that are too long when it stores a value
        (KeyType::Varchar, Datum::Text(bytes)) if bytes.ends_with(b" ") => None,
        (_, Datum::Int(value)) => {
            let (least, greatest) = key.integer_range()?;
            (least..=greatest).contains(&value).then_some(Datum::Int(value))
        }
        (_, value) => Some(value),
    }
}

fn from_text(key: KeyType, text: &[u8]) -> Result<Option<Datum>> {
    match key {
        KeyType::SmallInt | KeyType::Integer | KeyType::BigInt => integer_in(key, text),
        KeyType::Text | KeyType::Varchar | KeyType::Bpchar => Ok(text_in(text).and_then(|value| narrow(key, value))),
        KeyType::Uuid => uuid_in(text).map(|uuid| Some(Datum::Uuid(uuid))),
        KeyType::Date => Ok(datetime::parse_date(text).map(Datum::Date)),
        KeyType::Timestamp => Ok(datetime::parse_timestamp(text).map(Datum::Timestamp)),
        KeyType::TimestampTz => Ok(datetime::parse_timestamptz(text).map(Datum::Timestamp)),
    }
}

/// The type's binary representation (its `…recv` function); `None` if it is malformed.
fn from_binary(param: KeyType, bytes: &[u8]) -> Option<Datum> {
    match param {
        KeyType::SmallInt => Some(Datum::Int(i64::from(i16::from_be_bytes(bytes.try_into().ok()?)))),
        KeyType::Integer => Some(Datum::Int(i64::from(i32::from_be_bytes(bytes.try_into().ok()?)))),
        KeyType::BigInt => Some(Datum::Int(i64::from_be_bytes(bytes.try_into().ok()?))),
        KeyType::Text | KeyType::Varchar | KeyType::Bpchar => text_in(bytes),
        KeyType::Uuid => Some(Datum::Uuid(bytes.try_into().ok()?)),
        KeyType::Date => Some(Datum::Date(i32::from_be_bytes(bytes.try_into().ok()?))),
        KeyType::Timestamp | KeyType::TimestampTz => Some(Datum::Timestamp(i64::from_be_bytes(bytes.try_into().ok()?))),
    }
}

/// Text as it is. A zero byte is an error that the server words.
fn text_in(text: &[u8]) -> Option<Datum> {
    (!text.contains(&0)).then(|| Datum::Text(Bytes::copy_from_slice(text)))
}

/// int2in, int4in, int8in (pg_strtoint64): white space, sign, decimal digits, white space. What newer servers read and
/// older ones refuse (0x1F, 1_000), and what they refuse for different reasons, is left to the server.
fn integer_in(key: KeyType, text: &[u8]) -> Result<Option<Datum>> {
    if let Some(value) = plain_integer(text)
        && key.integer_range().is_none_or(|(least, greatest)| (least..=greatest).contains(&value))
    {
        return Ok(Some(Datum::Int(value)));
    }
    let Ok(text) = std::str::from_utf8(text) else { return Ok(None) };
    let trimmed = text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    let len = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = digits.split_at_checked(len).unwrap_or((digits, ""));
    let radix = number == "0" && rest.starts_with(['x', 'X', 'o', 'O', 'b', 'B']);
    if radix || text.contains('_') || text.contains('\0') {
        return Ok(None);
    }
    let (least, greatest) = key.integer_range().unwrap_or((i64::MIN, i64::MAX));
    let value = trimmed.get(..trimmed.len() - rest.len()).unwrap_or_default().parse::<i64>().ok();
    let value = value.filter(|value| (least..=greatest).contains(value));
    match (value, number.is_empty(), rest.is_empty()) {
        (Some(value), false, true) => Ok(Some(Datum::Int(value))),
        (None, false, true) => Err(Error::new(
            codes::NUMERIC_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type {}", key.name()),
        )),
        (_, true, _) | (Some(_), false, false) => Err(invalid_text(key, text)),
        // too large and malformed: versions differ in what they see first
        (None, false, false) => Ok(None),
    }
}

/// Decimal digits and nothing else, few enough for any value of them: what clients send.
fn plain_integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

/// uuid_in: 32 hexadecimal digits, a hyphen allowed after each four of them but the last, braces around all.
fn uuid_in(text: &[u8]) -> Result<[u8; 16]> {
    parse_uuid(text).ok_or_else(|| invalid_text(KeyType::Uuid, &String::from_utf8_lossy(text)))
}

fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match text.strip_prefix(b"{") {
        Some(inner) => inner.strip_suffix(b"}")?,
        None => text,
    };
    let mut uuid = [0; 16];
    for (i, byte) in uuid.iter_mut().enumerate() {
        let ([high, low], after) = rest.split_first_chunk::<2>()?;
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        rest = if i % 2 == 1 && i < 15 { after.strip_prefix(b"-").unwrap_or(after) } else { after };
    }
    rest.is_empty().then_some(uuid)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn invalid_text(key: KeyType, text: &str) -> Error {
    Error::new(codes::INVALID_TEXT, format!("invalid input syntax for type {}: \"{text}\"", key.name()))
}

#[cfg(test)]
mod tests;
