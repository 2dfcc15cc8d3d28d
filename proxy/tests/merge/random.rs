//! Merges of random parts against the whole: sorted parts, distinct rows, groups, malformed rows.

use crate::encode;
use bytes::BytesMut;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::ProptestConfig;
use proptest::prelude::any;
use proptest::prop_assert_eq;
use shardway::merge::Merge;
use shardway::merge::Want;
use shardway::plan::Aggregate;
use shardway::plan::MergeSpec;
use shardway::plan::Output;
use shardway::plan::SortBy;
use shardway::plan::SortKey;
use shardway::value::oid;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// A key that may be NULL and a number that tells rows apart.
type Row = (Option<i64>, i64);

const COLUMNS: [u32; 3] = [oid::INT8, oid::INT8, oid::INT8];

/// Shown key and number in binary, then the hidden key.
fn body((key, number): Row) -> Vec<u8> {
    let key = key.map(|key| key.to_be_bytes().to_vec());
    encode::row(&[key.clone(), Some(number.to_be_bytes().to_vec()), key])
}

fn shown(out: &[u8]) -> Vec<Row> {
    let int = |bytes: &Vec<u8>| i64::from_be_bytes(bytes.as_slice().try_into().unwrap());
    encode::rows(out).iter().map(|row| (row[0].as_ref().map(int), row[1].as_ref().map(int).unwrap())).collect()
}

fn merged(spec: &MergeSpec, parts: &[Vec<Row>], limit: Option<u64>, offset: u64) -> Vec<Row> {
    let mut out = BytesMut::new();
    let types = vec![oid::INT8; spec.output.len()];
    let formats = vec![1; spec.output.len()];
    let mut merge = Merge::new(spec, &COLUMNS, &formats, &types, parts.len(), limit, offset, 1 << 20).unwrap();
    let mut next = vec![0; parts.len()];
    while let Want::Input(input) = merge.wants() {
        match parts[input].get(next[input]) {
            Some(row) => merge.row(input, &body(*row), &mut out).unwrap(),
            None => merge.end(input, &mut out).unwrap(),
        }
        next[input] += 1;
    }
    merge.finish(&mut out).unwrap();
    let rows = shown(&out);
    assert_eq!(merge.rows() as usize, rows.len());
    rows
}

fn spec(order: Vec<SortKey>) -> MergeSpec {
    MergeSpec { output: vec![Output::Column(0), Output::Column(1)], group: None, distinct: None, order }
}

/// A key that sorts as the sort key says.
fn rank(key: Option<i64>, descending: bool, nulls_first: bool) -> (u8, i64) {
    match key {
        None => (if nulls_first { 0 } else { 2 }, 0),
        Some(key) => (1, if descending { -key } else { key }),
    }
}

proptest::proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn sorted_parts_give_the_sorted_whole(
        parts in vec(vec((option::weighted(0.9, -3_i64..9), any::<i64>()), 0..12), 0..6),
        descending in any::<bool>(),
        nulls_first in any::<bool>(),
        limit in option::of(0_u64..30),
        offset in 0_u64..6,
    ) {
        let mut parts: Vec<Vec<Row>> = parts;
        let mut whole: Vec<Row> = parts.concat();
        parts.iter_mut().for_each(|part| part.sort_by_key(|row| rank(row.0, descending, nulls_first)));
        whole.sort_by_key(|row| rank(row.0, descending, nulls_first));
        let whole: Vec<Row> = whole.into_iter().skip(offset as usize).take(limit.unwrap_or(1_000) as usize).collect();
        let order = vec![SortKey { by: SortBy::Column(2), descending, nulls_first }];
        // equal keys come in the order of the inputs, as a stable sort of the whole gives them
        prop_assert_eq!(merged(&spec(order), &parts, limit, offset), whole);
    }

    #[test]
    fn concatenation_keeps_every_row(parts in vec(vec((option::of(0_i64..9), any::<i64>()), 0..6), 0..4)) {
        let parts: Vec<Vec<Row>> = parts;
        prop_assert_eq!(merged(&spec(vec![]), &parts, None, 0), parts.concat());
    }

    #[test]
    fn distinct_parts_give_the_distinct_whole(
        parts in vec(vec(option::of(0_i64..9), 0..12), 0..5),
        sorted in any::<bool>(),
    ) {
        let rows = parts.iter().map(|part| part.iter().map(|key| (*key, 0)).collect());
        let mut parts: Vec<Vec<Row>> = rows.collect();
        let mut spec = spec(vec![]);
        spec.distinct = Some(vec![2]);
        if sorted {
            parts.iter_mut().for_each(|part| part.sort_by_key(|row| rank(row.0, false, false)));
            spec.order = vec![SortKey { by: SortBy::Column(2), descending: false, nulls_first: false }];
        }
        let mut given = merged(&spec, &parts, None, 0);
        let mut whole: Vec<Row> = parts.concat().into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        whole.sort_by_key(|row| rank(row.0, false, false));
        if !sorted {
            given.sort_by_key(|row| rank(row.0, false, false));
        }
        prop_assert_eq!(given, whole);
    }

    #[test]
    fn grouped_parts_give_the_groups_of_the_whole(
        parts in vec(vec((option::of(0_i64..9), -1_000_i64..1_000), 0..20), 0..5),
        descending in any::<bool>(),
    ) {
        let parts: Vec<Vec<Row>> = parts;
        let mut sums: BTreeMap<Option<i64>, i64> = BTreeMap::new();
        parts.concat().iter().for_each(|(key, number)| *sums.entry(*key).or_default() += number);
        let mut whole: Vec<Row> = sums.into_iter().collect();
        whole.sort_by_key(|row| rank(row.0, descending, false));
        let spec = MergeSpec {
            output: vec![Output::Column(0), Output::Aggregate(Aggregate::Sum { partial: 1 })],
            group: Some(vec![2]),
            distinct: None,
            order: vec![SortKey { by: SortBy::Column(2), descending, nulls_first: false }],
        };
        prop_assert_eq!(merged(&spec, &parts, None, 0), whole);
    }

    #[test]
    fn malformed_rows_are_refused(bytes in vec(any::<u8>(), 0..40), flat in any::<bool>()) {
        let order = vec![SortKey { by: SortBy::Column(2), descending: false, nulls_first: false }];
        let spec = spec(if flat { vec![] } else { order });
        let mut merge = Merge::new(&spec, &COLUMNS, &[0, 0], &[oid::INT8; 2], 1, None, 0, 1_000).unwrap();
        let mut out = BytesMut::new();
        let mut body = vec![0, 3];
        body.extend_from_slice(&bytes);
        if merge.row(0, &body, &mut out).is_err() {
            prop_assert_eq!(out.len(), 0);
        }
    }
}
