//! Numbers inside messages and values.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::Holds;
use super::NOBODY;
use super::Numbers;
use super::RelationNumbers;
use crate::value::oid;
use crate::wire::HEAD;
use crate::wire::backend;
use crate::wire::backend::Field;
use bytes::BytesMut;
use proptest::prelude::any;
use proptest::prop_assert_eq;
use proptest::proptest;

const MOOD: u32 = 20_000;
const MOODS: u32 = 20_001;
const PAIR: u32 = 20_002;
const PAIRS: u32 = 20_003;
const SPAN: u32 = 20_004;
const SPANS: u32 = 20_005;
const ONLY_HERE: u32 = 20_009;

/// Every number is 10 000 more on the other side.
fn numbers() -> Numbers {
    let types = [MOOD, MOODS, PAIR, PAIRS, SPAN, SPANS].map(|oid| (oid, oid + 10_000));
    let table = RelationNumbers { oid: 35_000, columns: [(2, 3)].into() };
    let holders = [
        (MOODS, Holds::Array),
        (PAIR, Holds::Record),
        (PAIRS, Holds::Array),
        (SPAN, Holds::Range(PAIR)),
        (SPANS, Holds::Multirange(SPAN)),
        (2249, Holds::Record),
    ];
    Numbers { types: types.into(), relations: [(25_000, table)].into(), holders: holders.into() }
}

fn word(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&word(bytes.len() as u32)[..], bytes].concat()
}

fn array(element: u32, values: &[Vec<u8>]) -> Vec<u8> {
    let head = [1, 0, element, values.len() as u32, 1].map(u32::to_be_bytes).concat();
    [head, values.iter().flat_map(|v| sized(v)).collect()].concat()
}

/// (mood, integer)
fn pair(mood: u32) -> Vec<u8> {
    [word(2), word(mood), sized(b"happy"), word(oid::INT4), word(u32::MAX)].concat()
}

fn changed(oid: u32, bytes: &[u8]) -> Vec<u8> {
    let mut body = [&[0, 1][..], &sized(bytes)].concat();
    let numbers = numbers();
    let columns = numbers.columns([(oid, 1)].into_iter());
    numbers.values(&columns, &mut body).unwrap();
    body[6..].to_vec()
}

#[test]
fn arrays_and_records_are_rewritten_at_every_depth() {
    assert_eq!(changed(MOODS, &array(MOOD, &[b"sad".to_vec()])), array(30_000, &[b"sad".to_vec()]));
    assert_eq!(changed(PAIRS, &array(PAIR, &[pair(MOOD)])), array(30_002, &[pair(30_000)]));
    let anonymous = |pairs, mood| [word(1), word(pairs), sized(&array(pairs - 1, &[pair(mood)]))].concat();
    assert_eq!(changed(2249, &anonymous(PAIRS, MOOD)), anonymous(30_003, 30_000));
    let empty = [0, 0, MOOD].map(u32::to_be_bytes).concat();
    assert_eq!(changed(MOODS, &empty), [0, 0, 30_000].map(u32::to_be_bytes).concat());
}

#[test]
fn bounds_of_ranges_are_rewritten_where_there_are_any() {
    let range = |flags: u8, bounds: &[u32]| {
        let bounds: Vec<u8> = bounds.iter().flat_map(|mood| sized(&pair(*mood))).collect();
        [&[flags][..], &bounds].concat()
    };
    for (flags, bounds) in [(0x02, 2), (0x08, 1), (0x10, 1), (0x18, 0), (0x01, 0)] {
        let (here, there) = (vec![MOOD; bounds], vec![30_000; bounds]);
        assert_eq!(changed(SPAN, &range(flags, &here)), range(flags, &there));
        let several = |moods: &[u32]| [word(1), sized(&range(flags, moods))].concat();
        assert_eq!(changed(SPANS, &several(&here)), several(&there));
    }
}

#[test]
fn text_and_other_columns_stay() {
    let numbers = numbers();
    assert!(numbers.columns([(MOODS, 0), (MOOD, 1), (oid::INT4, 1)].into_iter()).is_empty());
    assert_eq!(numbers.columns([(oid::INT4, 1), (MOODS, 1)].into_iter()), [(1, MOODS)]);
    let moods = |element| array(element, &[]);
    let row = |element| [&[0, 3][..], &sized(&moods(MOOD)), &word(u32::MAX), &sized(&moods(element))].concat();
    let mut body = row(MOOD);
    numbers.values(&[(2, MOODS)], &mut body).unwrap();
    assert_eq!(body, row(30_000));
}

#[test]
fn what_the_other_side_does_not_have_is_never_taken_for_something_else() {
    assert_eq!(changed(MOODS, &array(ONLY_HERE, &[])), array(NOBODY, &[]));
    assert_eq!(numbers().type_or_nobody(ONLY_HERE), NOBODY);
    let field = |table, attribute, type_oid| Field { table, attribute, type_oid, ..backend::text_field("a") };
    let described = |fields: &[Field]| {
        let mut out = BytesMut::new();
        backend::put_row_description(&mut out, fields);
        let mut body = out[HEAD..].to_vec();
        let missing = numbers().row_description(&mut body).unwrap();
        (missing, backend::row_description(&body).unwrap())
    };
    let known = [field(25_000, 2, MOOD), field(25_000, 1, oid::TEXT), field(25_000, -1, oid::TEXT)];
    let expected = [field(35_000, 3, 30_000), field(35_000, 1, oid::TEXT), field(35_000, -1, oid::TEXT)];
    assert_eq!(described(&known), (false, expected.to_vec()));
    assert_eq!(described(&[field(26_000, 4, ONLY_HERE)]), (true, vec![field(0, 0, oid::UNKNOWN)]));
}

proptest! {
    #[test]
    fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..200), column in 20_000u32..20_006) {
        let numbers = numbers();
        let mut bytes = body.clone();
        let _ = numbers.value(column, &mut bytes, super::DEPTH);
        let _ = numbers.row_description(&mut bytes);
        let _ = numbers.parameter_description(&mut bytes);
        let _ = numbers.values(&[(0, column), (1, 2249)], &mut bytes);
        prop_assert_eq!(bytes.len(), body.len());
    }
}
