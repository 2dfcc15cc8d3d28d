//! As written → as used: shard functions with their places, on one level or two.

use crate::config::MapFunction;
use crate::config::check::Checker;
use crate::config::databases::Names;
use crate::config::literal;
use crate::config::mistake::At;
use crate::config::mistake::Place;
use crate::config::reader::Literal;
use crate::config::shard_maps::key_value;
use crate::config::shard_maps::shown;
use crate::config::written::LevelFile;
use crate::config::written::ListFile;
use crate::config::written::PlacementFile;
use crate::config::written::RangeFile;
use crate::config::written::SpotFile;
use crate::value::Datum;
use crate::value::KeyType;
use std::collections::HashMap;

/// Buckets of a hash map, unless configured.
const BUCKETS: usize = 4096;
/// A map with more would only be slower to read and to verify.
const MAX_BUCKETS: i64 = 65_536;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Function {
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

/// The function of a group over the key columns that are left to it. `None` after a mistake was told.
fn level(checker: &Checker<'_>, names: &Names<'_>, key: &[KeyType], file: &LevelFile) -> Option<MapFunction> {
    let function = function(checker, file)?;
    places_of(checker, names, key, function, file)
}

/// Which function it is, and whether the settings are those of this function.
pub fn function(checker: &Checker<'_>, file: &LevelFile) -> Option<Function> {
    let function = checker.required(&file.place, "function", &file.function).and_then(|_| {
        let choices = [Function::Hash, Function::Range, Function::List].map(|function| (function.name(), function));
        checker.choice(&file.function, &choices)
    })?;
    foreign_settings(checker, file, function);
    Some(function)
}

/// The function with its places. `None` after a mistake was told.
pub fn places_of(
    checker: &Checker<'_>,
    names: &Names<'_>,
    key: &[KeyType],
    function: Function,
    file: &LevelFile,
) -> Option<MapFunction> {
    match function {
        Function::Hash => hash(checker, names, file),
        Function::Range => range(checker, names, key, file),
        Function::List => list(checker, names, key, file),
    }
}

/// Settings that belong to another shard function.
fn foreign_settings(checker: &Checker<'_>, file: &LevelFile, function: Function) {
    let of_list = file.lists.first().map(|list| list.place.clone());
    let settings = [
        (file.buckets.as_ref().map(|at| at.place.clone()), "buckets", Function::Hash),
        (file.shards.as_ref().map(|at| at.place.clone()), "shards", Function::Hash),
        (file.placement.first().map(|part| part.place.clone()), "placement", Function::Hash),
        (file.ranges.first().map(|range| range.place.clone()), "ranges", Function::Range),
        (of_list, "lists", Function::List),
        (file.default.as_ref().map(|at| at.place.clone()), "default", Function::List),
    ];
    for (place, setting, owner) in settings {
        if let Some(place) = place.filter(|_| owner != function) {
            let (owner, function) = (owner.name(), function.name());
            checker.add(&place, format!("`{setting}` belongs to function = \"{owner}\", this one is \"{function}\""));
        }
    }
}

fn hash(checker: &Checker<'_>, names: &Names<'_>, file: &LevelFile) -> Option<MapFunction> {
    let buckets = checker.integer(&file.buckets, 1, MAX_BUCKETS, i64::try_from(BUCKETS).ok()?);
    if let Some(at) = file.buckets.as_ref().filter(|_| buckets.count_ones() != 1) {
        checker.add(&at.place, format!("expected a power of two, not {buckets}"));
        return None;
    }
    let buckets = usize::try_from(buckets).ok()?;
    if let (Some(at), false) = (&file.shards, file.placement.is_empty()) {
        checker.add(&at.place, "`placement` names the shards already; leave one of them out");
        return None;
    }
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
fn even_placement(checker: &Checker<'_>, names: &Names<'_>, file: &LevelFile, buckets: usize) -> Option<Vec<usize>> {
    let shards = match &file.shards {
        None => (0..names.shards.len()).collect(),
        Some(at) => named_shards(checker, names, at)?,
    };
    if shards.len() > buckets {
        let message = format!("{buckets} buckets are too few for {} shards; expected at least as many", shards.len());
        checker.add(&file.place.child("buckets"), message);
        return None;
    }
    (0..buckets).map(|bucket| shards.get(bucket * shards.len() / buckets).copied()).collect()
}

fn named_shards(checker: &Checker<'_>, names: &Names<'_>, at: &At<Vec<At<String>>>) -> Option<Vec<usize>> {
    if at.value.is_empty() {
        checker.add(&at.place, "expected the names of shards");
    }
    checker.unique("shard", &at.value);
    let shards: Option<Vec<usize>> = at.value.iter().map(|at| names.shard(checker, at)).collect();
    shards.filter(|shards| !shards.is_empty())
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
fn range(checker: &Checker<'_>, names: &Names<'_>, key: &[KeyType], file: &LevelFile) -> Option<MapFunction> {
    if file.ranges.is_empty() {
        checker.missing(&file.place, "ranges", "missing: expected ranges = [ { from = …, to = …, shard = … }, … ]");
    }
    let split = range_columns(checker, file);
    let read = |part| Some((part, range_part(checker, names, key, split, part)?));
    let read: Vec<_> = file.ranges.iter().map(read).collect();
    let mut parts = read.into_iter().collect::<Option<Vec<_>>>()?;
    parts.sort_by(|(_, a), (_, b)| literal::compare_lower(a.from.as_deref(), b.from.as_deref()));
    for ((earlier, one), (later, next)) in parts.iter().zip(parts.iter().skip(1)) {
        if literal::overlap(one.to.as_deref(), next.from.as_deref()) {
            let other = &earlier.place;
            let message = format!("overlaps {} on line {} (`to` is not in a range)", other.key, other.line);
            checker.add(&later.place, message);
        }
    }
    let (bounds, spots): (Vec<_>, Vec<_>) =
        parts.into_iter().map(|(_, part)| ((part.from, part.to), part.spot)).unzip();
    let (places, groups) = places(spots);
    let parts = bounds.into_iter().zip(places).map(|((from, to), place)| (from, to, place)).collect();
    Some(with_groups(MapFunction::Range(parts), groups, split))
}

struct Part {
    from: Option<Vec<Datum>>,
    to: Option<Vec<Datum>>,
    spot: Spot,
}

/// How many key columns the bounds name. Where one range has a second level, all must name as many.
fn range_columns(checker: &Checker<'_>, file: &LevelFile) -> usize {
    let bounds: Vec<&At<Vec<Literal>>> = file.ranges.iter().flat_map(|part| [&part.from, &part.to]).flatten().collect();
    let columns = bounds.first().map_or(1, |first| first.value.len());
    if file.ranges.iter().any(|part| part.spot.then.is_some())
        && let Some(other) = bounds.iter().find(|bound| bound.value.len() != columns)
    {
        let message = format!("expected {columns} values as in the other bounds of a map of two levels");
        checker.add(&other.place, message);
    }
    columns
}

fn range_part(
    checker: &Checker<'_>,
    names: &Names<'_>,
    key: &[KeyType],
    split: usize,
    file: &RangeFile,
) -> Option<Part> {
    let spot = spot(checker, names, &file.place, key.get(split..).unwrap_or_default(), &file.spot);
    let from = bound(checker, key, &file.from);
    let to = bound(checker, key, &file.to);
    let (from, to) = (from?, to?);
    if let (Some(from), Some(to)) = (&from, &to)
        && literal::compare(from, to).is_ge()
    {
        checker.add(&file.place, "the range is empty: `from` must be less than `to`");
        return None;
    }
    Some(Part { from, to, spot: spot? })
}

/// `Some(None)`: unbounded; `None`: a mistake was told.
#[allow(clippy::option_option, reason = "absent and wrong are two things")]
fn bound(checker: &Checker<'_>, key: &[KeyType], value: &Option<At<Vec<Literal>>>) -> Option<Option<Vec<Datum>>> {
    match value {
        None => Some(None),
        Some(at) => key_value(checker, key, at).map(Some),
    }
}

/// All values of a level name the same number of key columns: all of them, or the first ones.
fn list(checker: &Checker<'_>, names: &Names<'_>, key: &[KeyType], file: &LevelFile) -> Option<MapFunction> {
    if file.lists.is_empty() {
        checker.missing(&file.place, "lists", "missing: expected lists = [ { values = [ … ], shard = … }, … ]");
    }
    let mut seen: HashMap<Vec<Datum>, Place> = HashMap::new();
    let mut values: Vec<(Vec<Datum>, usize)> = Vec::new();
    let mut spots = Vec::new();
    let written = |part: &'_ ListFile| part.values.as_ref().and_then(|at| Some(at.value.first()?.value.len()));
    let split = file.lists.iter().find_map(written).unwrap_or(1);
    for part in &file.lists {
        let spot = spot(checker, names, &part.place, key.get(split..).unwrap_or_default(), &part.spot);
        let written = checker.required(&part.place, "values", &part.values);
        for at in written.into_iter().flat_map(|at| &at.value) {
            let Some(value) = key_value(checker, key, at) else { continue };
            if value.len() != split {
                let message = format!("expected {split} values as the others of this map, not {}", value.len());
                checker.add(&at.place, message);
            }
            if let Some(other) = seen.insert(value.clone(), at.place.clone()) {
                let message = format!("{} is listed already at {} on line {}", shown(&at.value), other.key, other.line);
                checker.add(&at.place, message);
            }
            values.push((value, spots.len()));
        }
        spots.push(spot);
    }
    let default = file.default.as_ref().and_then(|at| names.shard(checker, at));
    let mut spots = spots.into_iter().collect::<Option<Vec<Spot>>>()?;
    let default_at = default.map(|_| spots.len());
    spots.extend(default.map(Spot::Shard));
    let (places, groups) = places(spots);
    let at = |position: usize| places.get(position).copied();
    let values = values.into_iter().filter_map(|(value, position)| Some((value, at(position)?))).collect();
    Some(with_groups(MapFunction::List { values, default: default_at.and_then(at) }, groups, split))
}

/// Where the keys of one range or list live.
enum Spot {
    Shard(usize),
    Level(MapFunction),
}

/// `rest`: the types of the key columns behind those that choose this spot.
fn spot(checker: &Checker<'_>, names: &Names<'_>, place: &Place, rest: &[KeyType], file: &SpotFile) -> Option<Spot> {
    let Some(then) = &file.then else {
        return checker.required(place, "shard", &file.shard).and_then(|at| names.shard(checker, at)).map(Spot::Shard);
    };
    if let Some(at) = &file.shard {
        checker.add(&at.place, "`then` chooses the shard; leave one of them out");
    }
    if rest.is_empty() {
        checker.add(&then.place, "the values name every key column: none is left for a second level");
        return None;
    }
    if then.function.as_ref().is_some_and(|at| at.value == Function::Hash.name())
        && then.shards.is_none()
        && then.placement.is_empty()
    {
        checker.missing(&then.place, "shards", "missing: expected shards = [ … ] or placement = [ … ]");
    }
    level(checker, names, rest, then).map(Spot::Level)
}

/// The shards of these spots or, where one has a second level, the positions of their groups.
fn places(spots: Vec<Spot>) -> (Vec<usize>, Option<Vec<MapFunction>>) {
    let shard = |spot: &Spot| if let Spot::Shard(shard) = spot { Some(*shard) } else { None };
    if let Some(shards) = spots.iter().map(shard).collect::<Option<Vec<_>>>() {
        return (shards, None);
    }
    let group = |spot| match spot {
        Spot::Shard(shard) => MapFunction::whole(shard),
        Spot::Level(function) => function,
    };
    ((0..spots.len()).collect(), Some(spots.into_iter().map(group).collect()))
}

fn with_groups(first: MapFunction, groups: Option<Vec<MapFunction>>, columns: usize) -> MapFunction {
    match groups {
        None => first,
        Some(groups) => MapFunction::Groups { columns, first: Box::new(first), groups },
    }
}
