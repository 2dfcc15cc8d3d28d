//! Arrays of key values: the right side of `= ANY($1)`.
//!
//! Only what is certain: one dimension, the usual spelling. Malformed or unusual arrays are left to a server.

use super::Datum;
use super::KeyType;
use super::Oid;
use super::key;
use super::oid;
use crate::error::Result;

/// The elements of an array constant or parameter, NULLs as [`Datum::Null`]. `array_type` is the array's type, 0 or
/// `unknown` meaning the array of the key's own type; `format` is 0 for text (`{1,2,NULL,"a b"}`), 1 for binary.
/// `Ok(None)`: a server must say. `Err`: the error that PostgreSQL raises for one of the elements.
pub fn array_elements(key: KeyType, array_type: Oid, format: i16, bytes: &[u8]) -> Result<Option<Vec<Datum>>> {
    let own = matches!(array_type, 0 | oid::UNKNOWN);
    let element = if own { Some(key) } else { KeyType::ALL.into_iter().find(|k| k.array_oid() == array_type) };
    let Some(element) = element.map(KeyType::oid) else { return Ok(None) };
    match format {
        0 => convert(key, element, 0, text_elements(bytes).as_deref()),
        1 => convert(key, element, 1, binary_elements(element, bytes).as_deref()),
        _ => Ok(None),
    }
}

/// Each element's bytes as a parameter of the element's type.
fn convert<B: AsRef<[u8]>>(
    key: KeyType,
    element: Oid,
    format: i16,
    elements: Option<&[Option<B>]>,
) -> Result<Option<Vec<Datum>>> {
    let Some(elements) = elements else { return Ok(None) };
    let mut values = Vec::with_capacity(elements.len());
    for bytes in elements {
        match bytes {
            None => values.push(Datum::Null),
            Some(bytes) => match key::from_param(key, element, format, bytes.as_ref())? {
                Some(value) => values.push(value),
                None => return Ok(None),
            },
        }
    }
    Ok(Some(values))
}

/// array_recv: dimensions, flags, element type, (length, lower bound) for each dimension, elements.
fn binary_elements(element: Oid, bytes: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let (dimensions, rest) = int(bytes)?;
    let (_flags, rest) = int(rest)?;
    let (found, rest) = int(rest)?;
    if found.cast_unsigned() != element {
        return None;
    }
    if dimensions == 0 {
        return rest.is_empty().then(Vec::new);
    }
    let (count, rest) = int(rest)?;
    let (_lower_bound, mut rest) = int(rest)?;
    // each element takes four bytes at least, which bounds the allocation
    let count = usize::try_from(count).ok().filter(|count| dimensions == 1 && *count <= rest.len() / 4)?;
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        let (len, after) = int(rest)?;
        if len == -1 {
            elements.push(None);
            rest = after;
        } else {
            let (value, after) = after.split_at_checked(usize::try_from(len).ok()?)?;
            elements.push(Some(value));
            rest = after;
        }
    }
    rest.is_empty().then_some(elements)
}

fn int(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (int, rest) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*int), rest))
}

/// array_in for one dimension without bounds. White space around elements is skipped, `NULL` in any case is NULL unless
/// quoted, a backslash takes the next byte as it is.
fn text_elements(text: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    let text = text.trim_ascii();
    let mut rest = text.strip_prefix(b"{")?;
    let mut elements = Vec::new();
    if rest.trim_ascii() == b"}" {
        return Some(elements);
    }
    loop {
        let (element, after) = text_element(rest.trim_ascii_start())?;
        elements.push(element);
        match after.trim_ascii_start().split_first()? {
            (b',', after) => rest = after,
            (b'}', []) => return Some(elements),
            _ => return None,
        }
    }
}

fn text_element(text: &[u8]) -> Option<(Option<Vec<u8>>, &[u8])> {
    match text.strip_prefix(b"\"") {
        Some(quoted) => quoted_element(quoted),
        None => plain_element(text),
    }
}

fn quoted_element(text: &[u8]) -> Option<(Option<Vec<u8>>, &[u8])> {
    let mut value = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Some((Some(value), text.get(at + 1..)?)),
            b'\\' => value.push(*bytes.next()?.1),
            byte => value.push(byte),
        }
    }
    None
}

/// Without quotes; what holds quotes, braces or backslashes is rare and left to the server.
fn plain_element(text: &[u8]) -> Option<(Option<Vec<u8>>, &[u8])> {
    let len = text.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    let (value, rest) = text.split_at_checked(len)?;
    let value = value.trim_ascii_end();
    let odd = value.is_empty() || value.iter().any(|byte| matches!(byte, b'"' | b'{' | b'\\'));
    if odd {
        return None;
    }
    Some(((!value.eq_ignore_ascii_case(b"null")).then(|| value.to_vec()), rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn text(key: KeyType, text: &str) -> Option<Vec<Datum>> {
        array_elements(key, 0, 0, text.as_bytes()).unwrap()
    }

    fn words(words: &[&str]) -> Option<Vec<Datum>> {
        Some(words.iter().map(|w| Datum::Text(bytes::Bytes::copy_from_slice(w.as_bytes()))).collect())
    }

    #[test]
    fn texts() {
        assert_eq!(text(KeyType::BigInt, "{}"), Some(vec![]));
        assert_eq!(text(KeyType::BigInt, " { } "), Some(vec![]));
        assert_eq!(text(KeyType::BigInt, "{1, 2 ,NULL,null}").unwrap()[2..], [Datum::Null, Datum::Null]);
        assert_eq!(text(KeyType::BigInt, "{\"7\"}"), Some(vec![Datum::Int(7)]));
        assert_eq!(text(KeyType::Text, r#"{a b,"c,d","NULL","q\"\\"}"#), words(&["a b", "c,d", "NULL", "q\"\\"]));
        for odd in ["", "{", "{1", "{1}x", "{1,}", "{,1}", "[1:1]={1}", "{{1}}", "1", "{\"1}", "{1\"2\"}", "{a\\ }"] {
            assert_eq!(text(KeyType::Text, odd), None, "{odd}");
        }
        assert_eq!(
            array_elements(KeyType::Integer, 0, 0, b"{1,x}").unwrap_err().code,
            crate::error::codes::INVALID_TEXT
        );
        assert_eq!(array_elements(KeyType::Integer, oid::TEXT_ARRAY, 0, b"{1}").unwrap(), None);
        assert_eq!(array_elements(KeyType::SmallInt, oid::INT8_ARRAY, 0, b"{70000}").unwrap(), None);
    }

    #[test]
    fn binaries() {
        let array = |parts: &[&[u8]]| parts.concat();
        let head = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23];
        let two = array(&[&head, &[0, 0, 0, 2, 0, 0, 0, 1], &[0, 0, 0, 4, 0, 0, 0, 9], &[255; 4]]);
        let values = array_elements(KeyType::BigInt, oid::INT4_ARRAY, 1, &two).unwrap();
        assert_eq!(values, Some(vec![Datum::Int(9), Datum::Null]));
        assert_eq!(array_elements(KeyType::BigInt, 0, 1, &two).unwrap(), None, "int4 elements, int8 declared");
        for len in 0..two.len() {
            assert_eq!(array_elements(KeyType::Integer, 0, 1, &two[..len]).unwrap(), None);
        }
        let empty = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23];
        assert_eq!(array_elements(KeyType::Integer, 0, 1, &empty).unwrap(), Some(vec![]));
        let huge = array(&[&head, &[0x7f, 255, 255, 255, 0, 0, 0, 1]]);
        assert_eq!(array_elements(KeyType::Integer, 0, 1, &huge).unwrap(), None);
    }
}
