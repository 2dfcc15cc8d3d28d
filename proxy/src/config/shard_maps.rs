//! As written → as used: shard maps with their functions and pins.

use crate::config::MapConfig;
use crate::config::MapFunction;
use crate::config::RangePart;
use crate::config::check::Checker;
use crate::config::databases::Names;
use crate::config::literal;
use crate::config::mistake::At;
use crate::config::mistake::Place;
use crate::config::reader::Literal;
use crate::config::written::ListFile;
use crate::config::written::MapFile;
use crate::config::written::PlacementFile;
use crate::config::written::RangeFile;
use crate::value::Datum;
use crate::value::KeyType;
use std::collections::HashMap;

/// Buckets of a hash map, unless configured.
pub const BUCKETS: usize = 4096;
/// A map with more would only be slower to read and to verify.
const MAX_BUCKETS: i64 = 65_536;
/// Columns of a key: what the SQL form of the hash can carry, with room.
const MAX_KEY_COLUMNS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Hash,
    Range,
    List,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Function::Hash => "hash",
            Function::Range => "range",
            Function::List => "list",
        }
    }
}

/// One `[[database.x.shard_map]]`. `None` only after a mistake was told.
pub fn shard_map(checker: &Checker<'_>, names: &Names<'_>, file: &MapFile) -> Option<MapConfig> {
    let name = checker.required(&file.place, "name", &file.name);
    if let Some(at) = name.filter(|at| at.value.is_empty() || at.value.contains('\0')) {
        checker.add(&at.place, "expected the shard map's name");
    }
    let key = key_types(checker, file);
    let function = checker.required(&file.place, "function", &file.function).and_then(|_| {
        let choices = [Function::Hash, Function::Range, Function::List].map(|function| (function.name(), function));
        checker.choice(&file.function, &choices)
    });
    function.into_iter().for_each(|function| foreign_keys(checker, file, function));
    let key = key?;
    let pins = pins(checker, names, &key, file);
    let mapped = match function? {
        Function::Hash => hash(checker, names, file),
        Function::Range => range(checker, names, &key, file),
        Function::List => list(checker, names, &key, file),
    };
    let placed_by_default = file.placement.is_empty();
    Some(MapConfig { name: name?.value.clone(), key, function: mapped?, pins, placed_by_default })
}

/// Settings that belong to another shard function.
fn foreign_keys(checker: &Checker<'_>, file: &MapFile, function: Function) {
    let of_list = file.lists.first().map(|list| list.place.clone());
    let settings = [
        (file.buckets.as_ref().map(|at| at.place.clone()), "buckets", Function::Hash),
        (file.placement.first().map(|part| part.place.clone()), "placement", Function::Hash),
        (file.ranges.first().map(|range| range.place.clone()), "ranges", Function::Range),
        (of_list, "lists", Function::List),
        (file.default.as_ref().map(|at| at.place.clone()), "default", Function::List),
    ];
    for (place, setting, owner) in settings {
        if let Some(place) = place.filter(|_| owner != function) {
            let (owner, function) = (owner.name(), function.name());
            checker.add(&place, format!("`{setting}` belongs to function = \"{owner}\", this map's is \"{function}\""));
        }
    }
}

fn key_types(checker: &Checker<'_>, file: &MapFile) -> Option<Vec<KeyType>> {
    let at = checker.required(&file.place, "key", &file.key)?;
    if at.value.is_empty() || at.value.len() > MAX_KEY_COLUMNS {
        checker
            .add(&at.place, format!("expected the types of 1 to {MAX_KEY_COLUMNS} key columns, such as [\"bigint\"]"));
        return None;
    }
    let types: Vec<Option<KeyType>> =
        at.value.iter().map(|at| checker.take(at, |text| literal::key_type(text))).collect();
    types.into_iter().collect()
}

fn hash(checker: &Checker<'_>, names: &Names<'_>, file: &MapFile) -> Option<MapFunction> {
    let buckets = checker.integer(&file.buckets, 1, MAX_BUCKETS, i64::try_from(BUCKETS).ok()?);
    if let Some(at) = file.buckets.as_ref().filter(|_| buckets.count_ones() != 1) {
        checker.add(&at.place, format!("expected a power of two, not {buckets}"));
        return None;
    }
    let buckets = usize::try_from(buckets).ok()?;
    if file.placement.is_empty() {
        return even_placement(checker, names, file, buckets).map(MapFunction::Hash);
    }
    let mut placement: Vec<Option<usize>> = vec![None; buckets];
    let mut all_read = true;
    for part in &file.placement {
        all_read &= place_buckets(checker, names, part, &mut placement);
    }
    let holes = holes(&placement);
    if all_read && !holes.is_empty() {
        checker.add(&file.place.child("placement"), format!("these buckets have no shard: {holes}"));
    }
    placement.into_iter().collect::<Option<Vec<usize>>>().map(MapFunction::Hash)
}

/// Contiguous runs of equal length (to one bucket) in the order of the shards.
fn even_placement(checker: &Checker<'_>, names: &Names<'_>, file: &MapFile, buckets: usize) -> Option<Vec<usize>> {
    let shards = names.shards.len();
    if shards > buckets {
        let message = format!("{buckets} buckets are too few for {shards} shards; expected at least as many");
        checker.add(&file.place.child("buckets"), message);
        return None;
    }
    Some((0..buckets).map(|bucket| bucket * shards / buckets).collect())
}

/// Whether the part's buckets could be read.
fn place_buckets(
    checker: &Checker<'_>,
    names: &Names<'_>,
    part: &PlacementFile,
    placement: &mut [Option<usize>],
) -> bool {
    let shard = checker.required(&part.place, "shard", &part.shard).and_then(|at| names.shard(checker, at));
    let Some(at) = checker.required(&part.place, "buckets", &part.buckets) else { return false };
    let last = placement.len().saturating_sub(1);
    let Some((from, to)) = bucket_range(&at.value).filter(|(from, to)| from <= to && *to <= last) else {
        checker.add(&at.place, format!("expected \"FIRST-LAST\" or one bucket, within 0-{last}, not \"{}\"", at.value));
        return false;
    };
    let Some(slots) = placement.get_mut(from..=to) else { return false };
    if slots.iter().any(Option::is_some) {
        checker.add(&at.place, format!("some of the buckets {} have a shard already", at.value));
    }
    // A wrong shard was told; its buckets are no holes.
    slots.fill(Some(shard.unwrap_or(0)));
    true
}

fn bucket_range(text: &str) -> Option<(usize, usize)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
}

/// The buckets without a shard, as `0-3, 8`.
fn holes(placement: &[Option<usize>]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (bucket, _) in placement.iter().enumerate().filter(|(_, shard)| shard.is_none()) {
        match runs.last_mut() {
            Some((_, to)) if *to + 1 == bucket => *to = bucket,
            _ => runs.push((bucket, bucket)),
        }
    }
    let text = runs.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") });
    text.collect::<Vec<_>>().join(", ")
}

/// A bound that names only the first key columns stands before every key that begins with it.
fn range(checker: &Checker<'_>, names: &Names<'_>, key: &[KeyType], file: &MapFile) -> Option<MapFunction> {
    if file.ranges.is_empty() {
        checker.missing(&file.place, "ranges", "missing: expected ranges = [ { from = …, to = …, shard = … }, … ]");
    }
    let read: Vec<_> = file.ranges.iter().map(|part| Some((part, range_part(checker, names, key, part)?))).collect();
    let mut parts = read.into_iter().collect::<Option<Vec<_>>>()?;
    parts.sort_by(|(_, a), (_, b)| literal::compare_lower(a.0.as_deref(), b.0.as_deref()));
    for ((earlier, (_, to, _)), (later, (from, _, _))) in parts.iter().zip(parts.iter().skip(1)) {
        if literal::overlap(to.as_deref(), from.as_deref()) {
            let other = &earlier.place;
            let message = format!("overlaps {} on line {} (`to` is not in a range)", other.key, other.line);
            checker.add(&later.place, message);
        }
    }
    Some(MapFunction::Range(parts.into_iter().map(|(_, part)| part).collect()))
}

fn range_part(checker: &Checker<'_>, names: &Names<'_>, key: &[KeyType], file: &RangeFile) -> Option<RangePart> {
    let shard = checker.required(&file.place, "shard", &file.shard).and_then(|at| names.shard(checker, at));
    let from = bound(checker, key, &file.from);
    let to = bound(checker, key, &file.to);
    let (from, to) = (from?, to?);
    if let (Some(from), Some(to)) = (&from, &to)
        && literal::compare(from, to).is_ge()
    {
        checker.add(&file.place, "the range is empty: `from` must be less than `to`");
        return None;
    }
    Some((from, to, shard?))
}

/// `Some(None)`: unbounded; `None`: a mistake was told.
#[allow(clippy::option_option, reason = "absent and wrong are two things")]
fn bound(checker: &Checker<'_>, key: &[KeyType], value: &Option<At<Vec<Literal>>>) -> Option<Option<Vec<Datum>>> {
    match value {
        None => Some(None),
        Some(at) => key_value(checker, key, at).map(Some),
    }
}

/// All values of a map name the same number of key columns: all of them, or the first ones.
fn list(checker: &Checker<'_>, names: &Names<'_>, key: &[KeyType], file: &MapFile) -> Option<MapFunction> {
    if file.lists.is_empty() {
        checker.missing(&file.place, "lists", "missing: expected lists = [ { values = [ … ], shard = … }, … ]");
    }
    let mut seen: HashMap<Vec<Datum>, Place> = HashMap::new();
    let mut values = Vec::new();
    for part in &file.lists {
        let shard = list_shard(checker, names, part);
        let written = checker.required(&part.place, "values", &part.values);
        for at in written.into_iter().flat_map(|at| &at.value) {
            let Some(value) = key_value(checker, key, at) else { continue };
            let expected = values.first().map_or(value.len(), |(first, _): &(Vec<Datum>, usize)| first.len());
            if value.len() != expected {
                let message = format!("expected {expected} values as the others of this map, not {}", value.len());
                checker.add(&at.place, message);
            }
            if let Some(other) = seen.insert(value.clone(), at.place.clone()) {
                let message = format!("{} is listed already at {} on line {}", shown(&at.value), other.key, other.line);
                checker.add(&at.place, message);
            }
            values.extend(shard.map(|shard| (value, shard)));
        }
    }
    let default = file.default.as_ref().and_then(|at| names.shard(checker, at));
    Some(MapFunction::List { values, default })
}

fn list_shard(checker: &Checker<'_>, names: &Names<'_>, file: &ListFile) -> Option<usize> {
    if let Some(place) = &file.then {
        checker.add(place, "maps of two levels are not supported yet; expected shard = \"NAME\"");
        return None;
    }
    checker.required(&file.place, "shard", &file.shard).and_then(|at| names.shard(checker, at))
}

fn pins(checker: &Checker<'_>, names: &Names<'_>, key: &[KeyType], file: &MapFile) -> Vec<(Vec<Datum>, usize)> {
    let mut seen: HashMap<Vec<Datum>, usize> = HashMap::new();
    let mut pins = Vec::new();
    for pin in &file.pins {
        let shard = checker.required(&pin.place, "shard", &pin.shard).and_then(|at| names.shard(checker, at));
        let Some(at) = checker.required(&pin.place, "key", &pin.key) else { continue };
        let Some(value) = whole_key(checker, key, at) else { continue };
        if let Some(line) = seen.insert(value.clone(), at.place.line) {
            checker.add(&at.place, format!("{} is pinned already on line {line}", shown(&at.value)));
        }
        pins.extend(shard.map(|shard| (value, shard)));
    }
    pins
}

/// One literal for each of the first key columns, of the column's type.
fn key_value(checker: &Checker<'_>, key: &[KeyType], at: &At<Vec<Literal>>) -> Option<Vec<Datum>> {
    if at.value.is_empty() || at.value.len() > key.len() {
        let values = if key.len() == 1 { "1 value" } else { "1 to {n} values (of the first key columns)" };
        let values = values.replace("{n}", &key.len().to_string());
        checker.add(&at.place, format!("expected {values}, not {}", at.value.len()));
        return None;
    }
    let convert = |literals: &Vec<Literal>| {
        literals.iter().zip(key).map(|(written, key_type)| literal::datum(*key_type, written)).collect()
    };
    checker.take(at, convert)
}

/// One literal for every key column.
fn whole_key(checker: &Checker<'_>, key: &[KeyType], at: &At<Vec<Literal>>) -> Option<Vec<Datum>> {
    if at.value.len() != key.len() {
        let message = format!("expected one value for each key column ({} in all), not {}", key.len(), at.value.len());
        checker.add(&at.place, message);
        return None;
    }
    key_value(checker, key, at)
}

fn shown(literals: &[Literal]) -> String {
    let texts: Vec<String> = literals
        .iter()
        .map(|one| if one.is_integer { one.text.clone() } else { format!("\"{}\"", one.text) })
        .collect();
    match texts.as_slice() {
        [one] => one.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}
