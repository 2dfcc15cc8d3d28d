//! As written → as used: shard maps with their key and pins, and key values. Their functions: see `levels`.

use crate::config::MapConfig;
use crate::config::MapFunction;
use crate::config::check::Checker;
use crate::config::databases::Names;
use crate::config::levels::function;
use crate::config::levels::places_of;
use crate::config::literal;
use crate::config::mistake::At;
use crate::config::reader::Literal;
use crate::config::written::MapFile;
use crate::value::Datum;
use crate::value::KeyType;
use std::collections::HashMap;

/// Columns of a key: what the SQL form of the hash can carry, with room.
const MAX_KEY_COLUMNS: usize = 4;

/// One `[[database.x.shard_map]]`. `None` only after a mistake was told.
pub fn shard_map(checker: &Checker<'_>, names: &Names<'_>, file: &MapFile) -> Option<MapConfig> {
    let name = checker.required(&file.place, "name", &file.name);
    if let Some(at) = name.filter(|at| at.value.is_empty() || at.value.contains('\0')) {
        checker.add(&at.place, "expected the shard map's name");
    }
    let key = key_types(checker, file);
    let function = function(checker, &file.level);
    let key = key?;
    let pins = pins(checker, names, &key, file);
    let function = places_of(checker, names, &key, function?, &file.level);
    let function = function?;
    let is_hash = matches!(function, MapFunction::Hash(_));
    let placed_by_default = is_hash && file.level.placement.is_empty() && file.level.shards.is_none();
    Some(MapConfig { name: name?.value.clone(), key, function, pins, placed_by_default })
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

/// One literal for each of the first columns of `key`, of the column's type. `None` after a mistake was told.
pub fn key_value(checker: &Checker<'_>, key: &[KeyType], at: &At<Vec<Literal>>) -> Option<Vec<Datum>> {
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

pub fn shown(literals: &[Literal]) -> String {
    let texts: Vec<String> = literals
        .iter()
        .map(|one| if one.is_integer { one.text.clone() } else { format!("\"{}\"", one.text) })
        .collect();
    match texts.as_slice() {
        [one] => one.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}
