//! Order and equality of encoded values. The whole was compared with a server: 700 random values of each type against
//! dense_rank(); these are the corners.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::value::numeric::Numeric;
use proptest::prelude::any;

/// Values in ascending order; those in one row are equal.
fn check(oid: Oid, rows: &[&[Vec<u8>]]) {
    let flat: Vec<(usize, &Vec<u8>)> =
        rows.iter().enumerate().flat_map(|(i, row)| row.iter().map(move |v| (i, v))).collect();
    let key = |value: &[u8]| {
        let mut out = Vec::new();
        canonical(oid, value, &mut out);
        out
    };
    for (i, a) in &flat {
        assert!(Comparer::of(oid).unwrap().accepts(a));
        for (j, b) in &flat {
            assert_eq!(compare_binary(oid, a, b), i.cmp(j), "{a:?} {b:?}");
            assert_eq!(key(a) == key(b), i == j, "{a:?} {b:?}");
        }
    }
}

fn number(unscaled: i64, scale: u16) -> Vec<u8> {
    encoded(&Numeric::Finite { unscaled: unscaled.into(), scale })
}

fn encoded(value: &Numeric) -> Vec<u8> {
    let mut out = Vec::new();
    value.write_binary(&mut out).unwrap();
    out
}

#[test]
fn numerics() {
    check(
        oid::NUMERIC,
        &[
            &[encoded(&Numeric::NegInfinity)],
            &[number(-10_000, 0), number(-100_000, 1)],
            &[number(-1, 0), number(-100, 2)],
            &[number(-1, 4)],
            &[number(0, 0), number(0, 5), vec![0, 0, 0, 0, 0x40, 0, 0, 0]],
            &[number(1, 4)],
            &[number(9_999, 4)],
            &[number(1, 0), number(10, 1), vec![0, 3, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0]],
            &[number(10_001, 4)],
            &[number(99_999_999, 0)],
            &[number(100_000_000, 0)],
            &[encoded(&Numeric::Infinity)],
            &[encoded(&Numeric::NaN)],
        ],
    );
}

#[test]
fn floats() {
    let f = |value: f64| value.to_be_bytes().to_vec();
    let negative_nan = (f64::NAN.to_bits() | 1 << 63).to_be_bytes().to_vec();
    let rows: [&[Vec<u8>]; 6] = [
        &[f(f64::NEG_INFINITY)],
        &[f(-1.0)],
        &[f(-0.0), f(0.0)],
        &[f(5e-324)],
        &[f(f64::INFINITY)],
        &[f(f64::NAN), negative_nan],
    ];
    check(oid::FLOAT8, &rows);
    let f = |value: f32| value.to_be_bytes().to_vec();
    check(oid::FLOAT4, &[&[f(-1.0)], &[f(-0.0), f(0.0)], &[f(f32::INFINITY)], &[f(f32::NAN), f(-f32::NAN)]]);
}

#[test]
fn integers_and_dates() {
    let rows: [&[Vec<u8>]; 4] = [&[vec![0x80, 0]], &[vec![255, 255]], &[vec![0, 0]], &[vec![0x7f, 255]]];
    check(oid::INT2, &rows);
    let rows: [&[Vec<u8>]; 3] = [&[vec![0x80, 0, 0, 0]], &[vec![0; 4]], &[vec![0x7f, 255, 255, 255]]];
    check(oid::INT4, &rows);
    check(oid::DATE, &rows);
    let rows: [&[Vec<u8>]; 3] = [&[vec![0; 4]], &[vec![0x7f, 255, 255, 255]], &[vec![0x80, 0, 0, 0]]];
    check(oid::OID, &rows);
}

#[test]
fn texts() {
    let t = |text: &str| text.as_bytes().to_vec();
    check(oid::TEXT, &[&[t("")], &[t("A")], &[t("a")], &[t("a ")], &[t("ab")], &[t("é")]]);
    check(oid::BPCHAR, &[&[t(""), t("  ")], &[t("a"), t("a ")], &[t("a\u{1}")], &[t("a a")]]);
}

#[test]
fn times() {
    let interval = |months: i32, days: i32, hours: i64| {
        [&(hours * 3_600_000_000).to_be_bytes()[..], &days.to_be_bytes(), &months.to_be_bytes()].concat()
    };
    check(
        oid::INTERVAL,
        &[
            &[interval(i32::MIN, 0, 0)],
            &[interval(0, -1, 0), interval(0, 0, -24)],
            &[interval(0, 0, 0)],
            &[interval(1, 0, 0), interval(0, 30, 0), interval(0, 29, 24)],
            &[interval(0, 31, 0)],
            &[interval(i32::MAX, i32::MAX, 0)],
        ],
    );
    let timetz =
        |hours: i64, west: i32| [&(hours * 3_600_000_000).to_be_bytes()[..], &(west * 3_600).to_be_bytes()].concat();
    check(oid::TIMETZ, &[&[timetz(2, -2)], &[timetz(0, 0)], &[timetz(23, -2)], &[timetz(22, -1)], &[timetz(21, 0)]]);
}

#[test]
fn networks_and_bits() {
    let inet = |bits: u8, cidr: u8, address: [u8; 4]| [&[2, bits, cidr, 4][..], &address].concat();
    let rows: [&[Vec<u8>]; 5] = [
        &[inet(8, 1, [10, 0, 0, 0]), inet(8, 0, [10, 0, 0, 0])],
        &[inet(8, 0, [10, 1, 0, 0])],
        &[inet(16, 0, [10, 0, 0, 1])],
        &[inet(9, 0, [10, 128, 0, 0])],
        &[[&[3, 0, 1, 16][..], &[0; 16]].concat()],
    ];
    check(oid::INET, &rows);
    let rows: [&[Vec<u8>]; 4] =
        [&[vec![0, 0, 0, 0]], &[vec![0, 0, 0, 1, 0]], &[vec![0, 0, 0, 2, 0]], &[vec![0, 0, 0, 1, 0x80]]];
    check(oid::VARBIT, &rows);
}

#[test]
fn types_of_others_are_not_compared() {
    for oid in [oid::JSONB, oid::JSON, oid::INT4_ARRAY, oid::UNKNOWN, oid::FIRST_USER, 0] {
        assert!(!comparable(oid));
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(a in proptest::collection::vec(any::<u8>(), 0..24), b in proptest::collection::vec(any::<u8>(), 0..24)) {
        for oid in 0..4000 {
            if let Some(comparer) = Comparer::of(oid) {
                let _ = comparer.accepts(&a);
                comparer.compare(&a, &b);
                comparer.canonical(&a, &mut Vec::new());
            }
        }
    }
}
