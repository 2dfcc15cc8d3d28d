//! Values in binary and in text: numbers, arrays, dates, keys.

use crate::engine::Target;
use crate::engine::hex;
use crate::engine::hold;
use crate::engine::kind_of;
use shardway::sql::literal;
use shardway::value::Datum;
use shardway::value::KeyType;
use shardway::value::Oid;
use shardway::value::array::array_elements;
use shardway::value::binary;
use shardway::value::datetime;
use shardway::value::hash;
use shardway::value::key;
use shardway::value::numeric::Numeric;
use shardway::value::oid;
use shardway::value::output;
use shardway::variables::text;
use std::cmp::Ordering;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Numerics are apart: see [`numerics`].
const TYPES: [Oid; 25] = [
    oid::BOOL,
    oid::BYTEA,
    oid::CHAR,
    oid::NAME,
    oid::INT8,
    oid::INT2,
    oid::INT4,
    oid::TEXT,
    oid::OID,
    oid::FLOAT4,
    oid::FLOAT8,
    oid::CIDR,
    oid::MACADDR,
    oid::MONEY,
    oid::INET,
    oid::BPCHAR,
    oid::DATE,
    oid::TIME,
    oid::TIMESTAMPTZ,
    oid::INTERVAL,
    oid::TIMETZ,
    oid::BIT,
    oid::VARBIT,
    oid::UUID,
    oid::PG_LSN,
];

/// One byte of type, one that says where the first value ends, and two values.
fn two_values(input: &[u8]) -> Option<(Oid, &[u8], &[u8])> {
    let [kind, at, rest @ ..] = input else { return None };
    let (a, b) = rest.split_at(usize::from(*at).min(rest.len()));
    Some((TYPES[usize::from(*kind) % TYPES.len()], a, b))
}

/// What holds for two values of a type in binary, whatever their bytes.
fn check_values(oid: Oid, a: &[u8], b: &[u8]) -> Result<String, String> {
    let comparer = binary::Comparer::of(oid).unwrap_or(binary::Comparer::Bytes);
    let (here, there) = (binary::compare_binary(oid, a, b), binary::compare_binary(oid, b, a));
    let both = comparer.accepts(a) && comparer.accepts(b);
    let same = |bytes: &[u8]| {
        let mut out = Vec::new();
        binary::canonical(oid, bytes, &mut out);
        out
    };
    let (canonical_a, canonical_b) = (same(a), same(b));
    hold(binary::compare_binary(oid, a, a) == Ordering::Equal, || "not equal to itself".to_owned())?;
    hold(here == there.reverse(), || format!("{here:?} and {there:?}"))?;
    if both {
        hold((here == Ordering::Equal) == (canonical_a == canonical_b), || {
            format!("{here:?}, {} and {}", hex(&canonical_a), hex(&canonical_b))
        })?;
    }
    let mut out = Vec::new();
    let written = output::write_text(oid, a, &mut out);
    hold(std::str::from_utf8(&out).is_ok(), || "no text".to_owned())?;
    let mut outcome = format!("{oid} {both} {}", written.is_ok());
    if oid == oid::NUMERIC
        && let (Ok(x), Ok(y)) = (Numeric::from_binary(a), Numeric::from_binary(b))
    {
        let mut bytes = Vec::new();
        if x.write_binary(&mut bytes).is_ok() {
            let again = Numeric::from_binary(&bytes).map_err(|error| error.to_string())?;
            hold(again == x, || format!("{x} comes back as {again}"))?;
        }
        hold(x.add(&y) == y.add(&x), || format!("{x} + {y}"))?;
        let _ = x.average(3).to_string();
        let digits = |n: usize| n.checked_ilog2().unwrap_or_default();
        outcome.push_str(&format!(" {here:?} {} {}", digits(out.len()), digits(bytes.len())));
    }
    for key in KeyType::ALL {
        for format in [0, 1, 2] {
            if let Ok(Some(datum)) = key::from_param(key, oid, format, a) {
                let bucket = hash::bucket(&[key], std::slice::from_ref(&datum), 4_096);
                hold(bucket < 4_096, || format!("bucket {bucket}"))?;
                hold(datum.compare(&datum) == Ordering::Equal, || format!("{datum:?}"))?;
                outcome.push_str(&format!(" {key:?}{format}"));
            }
        }
    }
    Ok(outcome)
}

#[test]
fn binary_values() {
    let pair = |kind: u8, a: &[u8], b: &[u8]| [&[kind, a.len() as u8], a, b].concat();
    let at = |oid: Oid| TYPES.iter().position(|t| *t == oid).unwrap() as u8;
    let corpus = vec![
        pair(at(oid::INT8), &[0, 0, 0, 0, 0, 0, 0, 7], &[255; 8]),
        pair(at(oid::INT4), &[0, 0, 0, 7], &[255; 4]),
        pair(at(oid::FLOAT8), &1.5_f64.to_be_bytes(), &f64::NAN.to_be_bytes()),
        pair(at(oid::FLOAT4), &0_f32.to_be_bytes(), &(-0_f32).to_be_bytes()),
        pair(at(oid::INTERVAL), &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3], &[127; 16]),
        pair(at(oid::TIMETZ), &[0; 12], &[1; 12]),
        pair(at(oid::VARBIT), b"\0\0\0\x0a\xff\xc0", b"\0\0\0\0"),
        pair(at(oid::INET), b"\x02\x18\0\x04\x0a\0\0\x01", b"\x03\x80\0\x100123456789abcdef"),
        pair(at(oid::CIDR), b"\x02\x18\x01\x04\x0a\0\0\0", b"\x02\x08\x01\x04\x0a\0\0\0"),
        pair(at(oid::BPCHAR), b"a  ", b"a"),
    ];
    let run = |input: &[u8]| match two_values(input) {
        Some((oid, a, b)) => check_values(oid, a, b),
        None => Ok("short".to_owned()),
    };
    let memory = (1 << 20, 1_000);
    Target { name: "binary", corpus, dictionary: &[], memory, time: SECOND, run: &run }.fuzz();
}

#[test]
fn numerics() {
    let pair = |a: &[u8], b: &[u8]| [&[a.len() as u8], a, b].concat();
    let number = b"\0\x02\0\x01\0\0\0\x02\x04\xd2\x15\x38";
    let corpus = vec![
        pair(number, b"\0\0\0\0\xc0\0\0\0"),
        pair(b"\0\x01\xff\xff\x40\0\0\x04\0\x01", number),
        // 1 with 131,068 zeros before the point and 4,100 behind it
        pair(b"\0\x01\x7f\xff\x40\0\x10\x04\0\x01", number),
    ];
    let run = |input: &[u8]| {
        let Some((at, rest)) = input.split_first() else { return Ok("short".to_owned()) };
        let (a, b) = rest.split_at(usize::from(*at).min(rest.len()));
        check_values(oid::NUMERIC, a, b)
    };
    // Ten bytes may be a number of 147,000 digits. It takes 60 kB, but each change between its bases takes up to 14 MB
    // of short-lived parts, and one input is read, added and written several times.
    let memory = (128 << 20, 1_000);
    let dictionary: &[&[u8]] = &[b"\xc0\0", b"\x40\0", b"\x27\x0f", b"\x7f\xff", b"\x3f\xff"];
    Target { name: "numerics", corpus, dictionary, memory, time: SECOND, run: &run }.fuzz();
}

#[test]
fn arrays() {
    let element = |value: &[u8]| [(value.len() as i32).to_be_bytes().to_vec(), value.to_vec()].concat();
    let array = |oid: Oid, values: &[&[u8]]| {
        let mut out = vec![0, 0, 0, 1, 0, 0, 0, 0];
        out.extend(oid.to_be_bytes());
        out.extend((values.len() as i32).to_be_bytes());
        out.extend(1_i32.to_be_bytes());
        values.iter().for_each(|v| out.extend(element(v)));
        out
    };
    let mut corpus: Vec<Vec<u8>> =
        ["{}", "{1,2,NULL}", "{\"a b\",c,\"q\\\"\\\\\",null}", "[1:2]={1,2}", "{{1},{2}}", " { 1 , 2 } "]
            .iter()
            .map(|text| [b"\x04", text.as_bytes()].concat())
            .collect();
    corpus.push([vec![0x82], array(oid::INT8, &[&[0; 8], &[255; 8]])].concat());
    corpus.push([vec![0x84], array(oid::TEXT, &[b"a", b"", b"xyz"])].concat());
    corpus.push([vec![0x88], array(oid::DATE, &[&[0, 0, 0, 7]])].concat());
    let run = |input: &[u8]| {
        let Some((kind, bytes)) = input.split_first() else { return Ok("short".to_owned()) };
        let format = i16::from(kind >> 7);
        let key = KeyType::ALL[usize::from(kind & 0x7f) % KeyType::ALL.len()];
        let mut outcome = format!("{format} {key:?}");
        for array_type in [0, key.array_oid(), oid::INT2_ARRAY, oid::BPCHAR_ARRAY] {
            match array_elements(key, array_type, format, bytes) {
                Ok(None) => outcome.push_str(" none"),
                Ok(Some(elements)) => {
                    hold(elements.len() <= bytes.len(), || format!("{} elements", elements.len()))?;
                    let nulls = elements.contains(&Datum::Null);
                    outcome.push_str(&format!(" {} {nulls}", elements.len().min(4)));
                }
                Err(error) => outcome.push_str(&kind_of(&error.to_string())),
            }
        }
        Ok(outcome)
    };
    let dictionary: &[&[u8]] =
        &[b"{", b"}", b",", b"\"", b"\\", b"NULL", b"[1:1]=", b"\xff\xff\xff\xff", b"\0\0\0\x14"];
    Target { name: "arrays", corpus, dictionary, memory: (64 * 1024, 2_000), time: SECOND, run: &run }.fuzz();
}

#[test]
fn text_values() {
    let corpus = [
        "42",
        "-9223372036854775808",
        " 7 ",
        "0x1F",
        "1_000",
        "1e5",
        "2024-02-29",
        "2024-02-29 23:59:60.123456+05:30",
        "infinity",
        "-infinity",
        "2024-01-01T00:00:00Z",
        "0001-01-01 BC",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
        "text",
        "\"quoted\", public, $user",
        "a, \"b\"\"c\"",
        "'x', E'\\n', -5, on",
        "5874897-12-31",
        "294276-12-31 23:59:59.999999",
        "4714-11-24 BC",
    ];
    let run = |input: &[u8]| {
        let string = String::from_utf8_lossy(input);
        let mut outcome = String::new();
        for key in KeyType::ALL {
            match key::from_text_literal(key, &string) {
                Ok(Some(datum)) => {
                    hash::bucket(&[key], std::slice::from_ref(&datum), 4_096);
                    let param = key::from_param(key, 0, 0, string.as_bytes()).map_err(|error| error.to_string())?;
                    hold(param == Some(datum), || format!("{key:?}: a parameter is {param:?}"))?;
                    outcome.push_str(&format!("{key:?} "));
                }
                Ok(None) => {}
                Err(error) => outcome.push_str(&kind_of(&error.to_string())),
            }
            for negative in [false, true] {
                let _ = key::from_number_literal(key, &string, negative);
            }
        }
        if let Some(days) = datetime::parse_date(input) {
            let again = datetime::DateText(days).to_string();
            // Years before 1 are written otherwise.
            let read = datetime::parse_date(again.as_bytes());
            hold(read == Some(days) || again.starts_with(['-', '0']), || format!("{days} is written {again}"))?;
        }
        if let Some(micros) = datetime::parse_timestamp(input) {
            let again = datetime::TimestampText(micros).to_string();
            let read = datetime::parse_timestamp(again.as_bytes());
            hold(read == Some(micros) || again.starts_with(['-', '0']), || format!("{micros} is written {again}"))?;
        }
        outcome.push_str(if datetime::parse_timestamptz(input).is_some() { " zoned" } else { "" });
        if let Some(schemas) = text::search_path(&string) {
            outcome.push_str(&format!(" path {}", schemas.len().min(3)));
        }
        outcome.push_str(&format!(" {:?}", text::boolean(&string)));
        for name in ["search_path", "work_mem", "datestyle"] {
            for conforming in [true, false] {
                outcome.push(if text::setting_value(name, &string, conforming).is_some() { 'v' } else { '-' });
            }
        }
        outcome.push(if literal::integer_value(&string).is_some() { 'i' } else { '-' });
        Ok(outcome)
    };
    let corpus = corpus.iter().map(|text| text.as_bytes().to_vec()).collect();
    let dictionary: &[&[u8]] = &[
        b"infinity",
        b"-",
        b"+",
        b":",
        b".",
        b"T",
        b"Z",
        b" BC",
        b"24:00:00",
        b"0x",
        b"_",
        b"e",
        b"\"",
        b",",
        b"99999",
    ];
    Target { name: "text", corpus, dictionary, memory: (64 * 1024, 3_000), time: SECOND, run: &run }.fuzz();
}
