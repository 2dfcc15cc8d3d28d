//! A key → its shard; a bounded set of keys → the shards where they can be.

use super::RangePart;
use super::ShardFunction;
use super::ShardId;
use super::ShardMap;
use crate::value::Datum;
use crate::value::KeyType;
use crate::value::hash;
use std::cmp::Ordering;

/// What is known of one key column.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Bound {
    /// Anything, NULL included.
    #[default]
    Any,
    /// This value; NULL is a value here.
    Is(Datum),
    /// Between two ends that are not NULL; (value, inclusive).
    Within { low: Option<(Datum, bool)>, high: Option<(Datum, bool)> },
}

impl ShardMap {
    /// Where a whole key lives; NULL is a value (under hash it adds nothing to the bucket). `None`: nowhere.
    pub fn locate(&self, key: &[Datum]) -> Option<ShardId> {
        self.locate_typed(&self.key, key)
    }

    /// As [`ShardMap::locate`], hashing as a table's own column types do (integers and text types hash alike).
    pub fn locate_typed(&self, types: &[KeyType], key: &[Datum]) -> Option<ShardId> {
        if !self.pins.is_empty()
            && let Some(shard) = self.pins.get(key)
        {
            return Some(*shard);
        }
        self.function.locate(types, key)
    }

    /// Every shard that can hold rows of this map, in order.
    pub fn shards(&self) -> Vec<ShardId> {
        let mut shards: Vec<ShardId> = self.pins.values().copied().collect();
        self.function.all(&mut shards);
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// Adds the shards where keys within `bounds` (one for each key column) can be to `shards`.
    pub fn prune(&self, types: &[KeyType], bounds: &[Bound], shards: &mut Vec<ShardId>) {
        let known: Vec<&Datum> =
            bounds.iter().map_while(|bound| if let Bound::Is(value) = bound { Some(value) } else { None }).collect();
        if known.len() == self.key.len() {
            let key: Vec<Datum> = known.into_iter().cloned().collect();
            shards.extend(self.locate_typed(types, &key));
            return;
        }
        for (pin, shard) in &self.pins {
            if pin.iter().zip(bounds).all(|(value, bound)| allows(bound, value)) {
                shards.push(*shard);
            }
        }
        self.function.prune(types, bounds, shards);
    }
}

impl ShardFunction {
    /// Where a key lives; `key` has a value for every column of this function.
    fn locate(&self, types: &[KeyType], key: &[Datum]) -> Option<ShardId> {
        match self {
            ShardFunction::Hash { placement } => {
                let bucket = hash::bucket(types, key, placement.len() as u64);
                placement.get(usize::try_from(bucket).ok()?).copied()
            }
            ShardFunction::Range { parts } => {
                if key.contains(&Datum::Null) {
                    return None;
                }
                parts.iter().find(|part| contains(part, key)).map(|part| part.shard)
            }
            ShardFunction::List { values, default } => {
                let columns = values.keys().next().map_or(1, Vec::len);
                values.get(key.get(..columns)?).copied().or(*default)
            }
            ShardFunction::Groups { columns, first, groups } => {
                let group = first.locate(types.get(..*columns)?, key.get(..*columns)?)?;
                groups.get(usize::from(group.0))?.locate(types.get(*columns..)?, key.get(*columns..)?)
            }
        }
    }

    /// Adds every shard that it can give.
    fn all(&self, shards: &mut Vec<ShardId>) {
        match self {
            ShardFunction::Hash { placement } => add_runs(placement, shards),
            ShardFunction::Range { parts } => shards.extend(parts.iter().map(|part| part.shard)),
            ShardFunction::List { values, default } => {
                shards.extend(values.values().copied());
                shards.extend(*default);
            }
            ShardFunction::Groups { groups, .. } => groups.iter().for_each(|group| group.all(shards)),
        }
    }

    /// Adds the shards where keys within `bounds` can be; there is a bound for every column of this function.
    fn prune(&self, types: &[KeyType], bounds: &[Bound], shards: &mut Vec<ShardId>) {
        let known: Vec<&Datum> =
            bounds.iter().map_while(|bound| if let Bound::Is(value) = bound { Some(value) } else { None }).collect();
        match self {
            ShardFunction::Hash { placement } if known.len() < bounds.len() => add_runs(placement, shards),
            ShardFunction::Hash { .. } => {
                let key: Vec<Datum> = known.into_iter().cloned().collect();
                shards.extend(self.locate(types, &key));
            }
            ShardFunction::List { values, default } => {
                let columns = values.keys().next().map_or(1, Vec::len);
                for (value, shard) in values {
                    if value.iter().zip(bounds).all(|(value, bound)| allows(bound, value)) {
                        shards.push(*shard);
                    }
                }
                let named = known
                    .get(..columns)
                    .is_some_and(|key| values.keys().any(|value| value.iter().zip(key).all(|(a, b)| a == *b)));
                if !named {
                    shards.extend(*default);
                }
            }
            ShardFunction::Range { parts } => {
                shards.extend(parts.iter().filter(|part| overlaps(part, bounds)).map(|part| part.shard));
            }
            ShardFunction::Groups { columns, first, groups } => {
                let mut chosen = Vec::new();
                first.prune(
                    types.get(..*columns).unwrap_or(types),
                    bounds.get(..*columns).unwrap_or(bounds),
                    &mut chosen,
                );
                chosen.sort_unstable();
                chosen.dedup();
                let (types, bounds) = (types.get(*columns..).unwrap_or(&[]), bounds.get(*columns..).unwrap_or(&[]));
                for group in chosen.iter().filter_map(|group| groups.get(usize::from(group.0))) {
                    group.prune(types, bounds, shards);
                }
            }
        }
    }
}

/// Each run of buckets once: a placement is long, and mostly the same shard again.
fn add_runs(placement: &[ShardId], shards: &mut Vec<ShardId>) {
    let mut last = None;
    for shard in placement {
        if last != Some(*shard) {
            shards.push(*shard);
            last = Some(*shard);
        }
    }
}

fn contains(part: &RangePart, key: &[Datum]) -> bool {
    part.from.as_ref().is_none_or(|from| order(from, key) != Ordering::Greater)
        && part.to.as_ref().is_none_or(|to| order(to, key) == Ordering::Greater)
}

/// The order of a bound and a key by the columns that the bound has; a bound that is a prefix of the key is equal to
/// the smallest key that begins with it.
fn order(bound: &[Datum], key: &[Datum]) -> Ordering {
    let unequal = bound.iter().zip(key).map(|(a, b)| a.compare(b)).find(|o| *o != Ordering::Equal);
    match unequal {
        Some(order) => order,
        // [1] as an upper bound excludes (1, x); as a lower bound it includes it
        None => Ordering::Equal,
    }
}

fn allows(bound: &Bound, value: &Datum) -> bool {
    match bound {
        Bound::Any => true,
        Bound::Is(known) => known == value,
        Bound::Within { low, high } => {
            *value != Datum::Null
                && low.as_ref().is_none_or(|(low, inclusive)| match value.compare(low) {
                    Ordering::Greater => true,
                    Ordering::Equal => *inclusive,
                    Ordering::Less => false,
                })
                && high.as_ref().is_none_or(|(high, inclusive)| match value.compare(high) {
                    Ordering::Less => true,
                    Ordering::Equal => *inclusive,
                    Ordering::Greater => false,
                })
        }
    }
}

/// Whether a key within `bounds` can be in a part: the leading columns that are known or bounded are compared with the
/// part's ends; what is not known makes it possible.
fn overlaps(part: &RangePart, bounds: &[Bound]) -> bool {
    if bounds.iter().any(|bound| *bound == Bound::Is(Datum::Null)) {
        return false;
    }
    let above_from = part.from.as_ref().is_none_or(|from| reaches(from, bounds, true));
    let below_to = part.to.as_ref().is_none_or(|to| reaches(to, bounds, false));
    above_from && below_to
}

/// With `from`: whether some key within `bounds` is at or above `end`; else whether some key is below it.
fn reaches(end: &[Datum], bounds: &[Bound], from: bool) -> bool {
    for (position, (end_value, bound)) in end.iter().zip(bounds).enumerate() {
        let last = position + 1 == end.len();
        match bound {
            Bound::Any => return true,
            Bound::Is(value) => match value.compare(end_value) {
                Ordering::Equal => {}
                Ordering::Greater => return from,
                Ordering::Less => return !from,
            },
            Bound::Within { low, high } => {
                let limit = if from { high } else { low };
                let Some((limit, inclusive)) = limit else { return true };
                return match (limit.compare(end_value), from) {
                    (Ordering::Greater, true) | (Ordering::Less, false) => true,
                    (Ordering::Equal, true) => *inclusive,
                    // a key equal to the end's first columns can be below it only by its further columns
                    (Ordering::Equal, false) => *inclusive && !last,
                    (Ordering::Less, true) | (Ordering::Greater, false) => false,
                };
            }
        }
    }
    // all columns of the end are equal: such keys are at or above it, never below
    from
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::Bound;
    use crate::catalog::RangePart;
    use crate::catalog::ShardFunction;
    use crate::catalog::ShardId;
    use crate::catalog::ShardMap;
    use crate::value::Datum;
    use crate::value::KeyType;
    use std::collections::HashMap;

    fn range(key: Vec<KeyType>, ends: &[Option<Vec<i64>>]) -> ShardMap {
        let datums = |end: &Option<Vec<i64>>| end.as_ref().map(|v| v.iter().map(|i| Datum::Int(*i)).collect());
        let parts = ends
            .windows(2)
            .enumerate()
            .map(|(n, pair)| RangePart { from: datums(&pair[0]), to: datums(&pair[1]), shard: ShardId(n as u16) })
            .collect();
        ShardMap { name: "m".into(), key, function: ShardFunction::Range { parts }, pins: HashMap::new() }
    }

    fn pruned(map: &ShardMap, bounds: &[Bound]) -> Vec<u16> {
        let mut shards = Vec::new();
        map.prune(&map.key, bounds, &mut shards);
        shards.iter().map(|s| s.0).collect()
    }

    #[test]
    fn pruning_never_loses_a_key() {
        let map = range(vec![KeyType::BigInt], &[None, Some(vec![10]), Some(vec![20]), None]);
        for low in 5..25 {
            for high in low..25 {
                for (li, hi) in [(true, true), (false, true), (true, false), (false, false)] {
                    let bound = Bound::Within { low: Some((Datum::Int(low), li)), high: Some((Datum::Int(high), hi)) };
                    let shards = pruned(&map, std::slice::from_ref(&bound));
                    for key in 0..30 {
                        let value = Datum::Int(key);
                        if super::allows(&bound, &value) {
                            let shard = map.locate(&[value]).unwrap();
                            assert!(shards.contains(&shard.0), "{low}..{high} loses {key}");
                        }
                    }
                }
            }
        }
        let below = Bound::Within { low: None, high: Some((Datum::Int(10), false)) };
        assert_eq!(pruned(&map, &[below]), [0]);
        assert_eq!(pruned(&map, &[Bound::Within { low: Some((Datum::Int(20), true)), high: None }]), [2]);
    }

    #[test]
    fn composite_ranges_compare_as_rows() {
        let map = range(vec![KeyType::BigInt, KeyType::BigInt], &[None, Some(vec![10, 5]), Some(vec![20]), None]);
        assert_eq!(map.locate(&[Datum::Int(10), Datum::Int(4)]).unwrap().0, 0);
        assert_eq!(map.locate(&[Datum::Int(10), Datum::Int(5)]).unwrap().0, 1);
        assert_eq!(map.locate(&[Datum::Int(20), Datum::Int(0)]).unwrap().0, 2);
        assert_eq!(pruned(&map, &[Bound::Is(Datum::Int(10)), Bound::Any]), [0, 1]);
        assert_eq!(pruned(&map, &[Bound::Is(Datum::Int(20)), Bound::Any]), [2]);
        assert_eq!(pruned(&map, &[Bound::Is(Datum::Int(9)), Bound::Any]), [0]);
    }

    fn within(low: i64, high: i64) -> Bound {
        Bound::Within { low: Some((Datum::Int(low), true)), high: Some((Datum::Int(high), false)) }
    }

    /// Regions 1 and 2 are hashed over two shards each, region 3 is split by range, the rest is on shard 6.
    fn geography() -> ShardMap {
        let hash = |a, b| ShardFunction::Hash { placement: vec![ShardId(a), ShardId(a), ShardId(b), ShardId(b)] };
        let parts = vec![
            RangePart { from: None, to: Some(vec![Datum::Int(10)]), shard: ShardId(4) },
            RangePart { from: Some(vec![Datum::Int(20)]), to: None, shard: ShardId(5) },
        ];
        let groups = vec![
            hash(0, 1),
            hash(2, 3),
            ShardFunction::Range { parts },
            ShardFunction::Hash { placement: vec![ShardId(6)] },
        ];
        let values = (1..4).map(|region| (vec![Datum::Int(region)], ShardId(region as u16 - 1))).collect();
        let first = Box::new(ShardFunction::List { values, default: Some(ShardId(3)) });
        ShardMap {
            name: "g".into(),
            key: vec![KeyType::BigInt, KeyType::BigInt],
            function: ShardFunction::Groups { columns: 1, first, groups },
            pins: HashMap::from([(vec![Datum::Int(1), Datum::Int(5)], ShardId(6))]),
        }
    }

    #[test]
    fn a_region_touches_its_group_only() {
        let map = geography();
        let sorted = |bounds: &[Bound]| {
            let mut shards = pruned(&map, bounds);
            shards.sort_unstable();
            shards.dedup();
            shards
        };
        let is = |value| Bound::Is(Datum::Int(value));
        assert_eq!(sorted(&[is(2), Bound::Any]), [2, 3]);
        // a pin lives outside its region's group
        assert_eq!(sorted(&[is(1), Bound::Any]), [0, 1, 6]);
        assert_eq!(sorted(&[is(1), within(0, 5)]), [0, 1]);
        assert_eq!(sorted(&[is(3), Bound::Any]), [4, 5]);
        assert_eq!(sorted(&[is(3), within(0, 9)]), [4]);
        assert_eq!(sorted(&[is(9), Bound::Any]), [6]);
        assert_eq!(sorted(&[Bound::Is(Datum::Null), is(1)]), [6]);
        assert_eq!(sorted(&[within(2, 3), Bound::Any]), [2, 3, 6]);
        assert_eq!(sorted(&[Bound::Any, Bound::Any]), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(map.shards().len(), 7);
        assert_eq!(map.locate(&[Datum::Int(1), Datum::Int(5)]), Some(ShardId(6)));
        assert_eq!(map.locate(&[Datum::Int(3), Datum::Int(15)]), None);
        assert_eq!(map.locate(&[Datum::Int(3), Datum::Null]), None);
    }

    #[test]
    fn pruning_of_two_levels_never_loses_a_key() {
        let map = geography();
        let values = || (0..5).map(Datum::Int).chain([Datum::Null]);
        let bounds = || values().map(Bound::Is).chain([Bound::Any, within(1, 3), within(2, 20)]);
        for (first, second) in bounds().flat_map(|a| bounds().map(move |b| (a.clone(), b))) {
            let shards = pruned(&map, &[first.clone(), second.clone()]);
            for key in values().flat_map(|a| values().map(move |b| [a.clone(), b])) {
                if super::allows(&first, &key[0]) && super::allows(&second, &key[1]) {
                    let place = map.locate(&key);
                    assert!(place.is_none_or(|shard| shards.contains(&shard.0)), "{first:?} {second:?} loses {key:?}");
                }
            }
        }
    }

    #[test]
    fn lists_have_a_default_for_the_rest() {
        let mut values = HashMap::new();
        values.insert(vec![Datum::Int(1)], ShardId(0));
        values.insert(vec![Datum::Int(2)], ShardId(1));
        let function = ShardFunction::List { values, default: Some(ShardId(2)) };
        let map = ShardMap { name: "l".into(), key: vec![KeyType::BigInt], function, pins: HashMap::new() };
        assert_eq!(map.locate(&[Datum::Int(2)]), Some(ShardId(1)));
        assert_eq!(map.locate(&[Datum::Int(3)]), Some(ShardId(2)));
        assert_eq!(map.locate(&[Datum::Null]), Some(ShardId(2)));
        let mut all = pruned(&map, &[Bound::Any]);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    }
}
