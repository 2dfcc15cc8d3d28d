//! [`Target`] + values → shards.
//!
//! The fast path, one key of one column, allocates nothing. A value that is not certain here makes its condition true
//! of all shards for reads; a row that is written must have a certain place.

use crate::catalog::Catalog;
use crate::catalog::ShardId;
use crate::catalog::ShardMap;
use crate::catalog::shard_map::Bound;
use crate::error::Error;
use crate::error::Result;
use crate::error::SqlState;
use crate::limits;
use crate::plan::CompareOp;
use crate::plan::CopySplit;
use crate::plan::KeyCondition;
use crate::plan::KeyExpr;
use crate::plan::Source;
use crate::plan::Target;
use crate::plan::writes::Drawn;
use crate::sql::normalize;
use crate::sql::normalize::Literal;
use crate::sql::normalize::LiteralKind;
use crate::sql::splice::character_position;
use crate::value::Datum;
use crate::value::KeyType;
use crate::value::Oid;
use crate::value::array;
use crate::value::key;
use crate::value::oid;
use bytes::Bytes;

/// check_violation, which PostgreSQL gives for a row without a partition.
const NO_PLACE: SqlState = SqlState::new(b"23514");

/// A bound parameter: its type (0: not known), its format (0 text, 1 binary), its bytes (`None`: NULL).
#[derive(Clone, Copy, Debug)]
pub struct Param<'a> {
    pub oid: Oid,
    pub format: i16,
    pub value: Option<&'a [u8]>,
}

/// The values of one execution: the literals of the text, and the parameters.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    pub text: &'a str,
    pub literals: &'a [Literal],
    pub params: &'a [Param<'a>],
    pub standard_conforming_strings: bool,
    /// Values that were drawn, in text form.
    pub drawn: &'a Drawn,
}

/// Where one execution goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Whole, there.
    One(ShardId),
    /// Scattered over these (there may be one), or refused.
    Several(Vec<ShardId>),
    /// Whole, on any shard.
    Any,
    Home,
    /// No row can match: whole, on any shard, so that types and aggregates come out right.
    Nowhere,
}

/// The shards for a target. `write`: rows are written.
///
/// # Errors
/// 0A000 for a key that is written and not certain here, 23514 for one that has no place, and what PostgreSQL would say
/// of a malformed value.
pub fn shards(target: &Target, values: &Values<'_>, catalog: &Catalog, write: bool) -> Result<Route> {
    match target {
        Target::Any => Ok(Route::Any),
        Target::Home => Ok(Route::Home),
        Target::Shard(shard) => Ok(Route::One(*shard)),
        Target::All => Ok(Route::Several(catalog.all_shards())),
        Target::Keys { conditions, also } => {
            if let ([condition], []) = (conditions.as_slice(), also.as_slice())
                && let Some(route) = single_key(condition, values, catalog, write)?
            {
                return Ok(route);
            }
            let route = keys(conditions, also, values, catalog)?;
            if let (Route::Several(_), Some(word)) = (&route, time_word(values)) {
                return Err(Error::unsupported(format!("the constant '{word}' over several shards"))
                    .detail("It may stand for a time, of which each shard has its own.")
                    .hint("Write the time itself."));
            }
            Ok(route)
        }
    }
}

/// Longer texts are no times.
const TIME_BYTES: usize = 64;

/// Whether a text has a word for the present time or day, and no words but those that can stand beside it in a time
/// (datetime.c, datetktbl).
fn is_present(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let (mut found, mut others) = (false, false);
    for word in words {
        let is = |known: &[&str]| known.iter().any(|k| word.eq_ignore_ascii_case(k));
        match is(&["now", "today", "tomorrow", "yesterday"]) {
            true => found = true,
            false => others |= !is(&["e", "u", "allballs", "at", "am", "pm", "t", "z", "zulu", "utc", "gmt"]),
        }
    }
    found && !others
}

/// A constant or parameter that PostgreSQL reads as the present time or day where a date is asked for.
fn time_word<'v>(values: &Values<'v>) -> Option<&'v str> {
    let is_time = |text: &&str| text.len() <= TIME_BYTES && is_present(text);
    let strings = |l: &&Literal| matches!(l.kind, LiteralKind::PlainString | LiteralKind::OtherString);
    let literals = values.literals.iter().filter(strings);
    let mut literals = literals.filter_map(|l| values.text.get(l.start as usize..l.end as usize));
    let params = values.params.iter().filter(|p| p.format == 0).filter_map(|p| std::str::from_utf8(p.value?).ok());
    literals.find(is_time).map(|text| text.trim_matches('\'')).or_else(|| params.into_iter().find(is_time))
}

/// The shard of a row of COPY; values as text or binary of each key column's own type. `None`: not certain here.
///
/// # Errors
/// 23514 for a key that has no place; what PostgreSQL says of a malformed one.
pub fn copied_row(
    split: &CopySplit,
    values: &[Option<Vec<u8>>],
    binary: bool,
    catalog: &Catalog,
) -> Result<Option<ShardId>> {
    let map = catalog.map(split.map).ok_or_else(|| Error::internal("no such shard map"))?;
    let mut key = Vec::with_capacity(values.len());
    for ((column, key_type), value) in split.keys.iter().zip(&split.types).zip(values) {
        key.push(match value {
            None => Datum::Null,
            Some(bytes) => {
                // a value that fits into its character varying(n) is stored as it is
                let fits = *key_type == KeyType::Varchar
                    && column.length.is_none_or(|n| std::str::from_utf8(bytes).is_ok_and(|t| t.chars().count() <= n));
                let read_as = if fits { KeyType::Text } else { *key_type };
                match key::from_param(read_as, 0, i16::from(binary), bytes)? {
                    Some(value) => value,
                    None => return Ok(None),
                }
            }
        });
    }
    match map.locate_typed(&split.types, &key) {
        Some(shard) => Ok(Some(shard)),
        None => {
            let names = split.keys.iter().map(|key| format!("{}.{}", split.table, key.name)).collect();
            let condition = KeyCondition {
                map: split.map,
                types: split.types.clone(),
                names,
                widths: Vec::new(),
                not_null: Vec::new(),
                expr: KeyExpr::True,
            };
            Err(no_place(&condition, map))
        }
    }
}

/// Whether a constant or parameter may stand for the present time.
pub fn is_present_time(values: &Values<'_>) -> bool {
    time_word(values).is_some()
}

/// One column, one value: no allocation.
fn single_key(condition: &KeyCondition, values: &Values<'_>, catalog: &Catalog, write: bool) -> Result<Option<Route>> {
    let (source, row) = match &condition.expr {
        KeyExpr::Equals { column: 0, value } => (value, false),
        KeyExpr::Row(sources) => match sources.as_slice() {
            [source] => (source, true),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let (Some(map), [key_type]) = (catalog.map(condition.map), condition.types.as_slice()) else { return Ok(None) };
    if map.key.len() != 1 {
        return Ok(None);
    }
    let value = if row {
        written(condition, 0, source, values)?
    } else {
        match value(source, *key_type, values)? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
    if value == Datum::Null && !row {
        return Ok(Some(Route::Nowhere));
    }
    match map.locate_typed(&condition.types, std::slice::from_ref(&value)) {
        Some(shard) => Ok(Some(Route::One(shard))),
        None if row && write && !condition.is_violated(&[value]) => Err(no_place(condition, map)),
        None => Ok(Some(Route::Nowhere)),
    }
}

fn keys(conditions: &[KeyCondition], also: &[ShardId], values: &Values<'_>, catalog: &Catalog) -> Result<Route> {
    let mut first: Option<Vec<ShardId>> = None;
    let mut all: Vec<ShardId> = also.to_vec();
    for condition in conditions {
        let shards = condition_shards(condition, values, catalog)?;
        all.extend_from_slice(&shards);
        first.get_or_insert(shards);
    }
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [] => Ok(Route::Nowhere),
        [shard] => Ok(Route::One(*shard)),
        _ => {
            // the answer is made of the first table's rows: the others' conditions may be wider, or it may have none
            Ok(Route::Several(first.filter(|shards| !shards.is_empty()).unwrap_or(all)))
        }
    }
}

/// The shards where rows that satisfy a condition can be, in order.
pub fn condition_shards(condition: &KeyCondition, values: &Values<'_>, catalog: &Catalog) -> Result<Vec<ShardId>> {
    let Some(map) = catalog.map(condition.map) else { return Err(Error::internal("no such shard map")) };
    let scope = Bounds { condition, map, values };
    let mut shards = Vec::new();
    match scope.candidates(&condition.expr)? {
        None => shards = map.shards(),
        Some(candidates) => {
            for bounds in &candidates {
                let before = shards.len();
                map.prune(&condition.types, bounds, &mut shards);
                if shards.len() == before && matches!(condition.expr, KeyExpr::Row(_) | KeyExpr::Or(_)) {
                    scope.must_have_place(bounds)?;
                }
            }
        }
    }
    shards.sort_unstable();
    shards.dedup();
    Ok(shards)
}

/// The shard of each row that an INSERT writes.
///
/// # Errors
/// As [`shards`].
pub fn row_shards(condition: &KeyCondition, values: &Values<'_>, catalog: &Catalog) -> Result<Vec<ShardId>> {
    let Some(map) = catalog.map(condition.map) else { return Err(Error::internal("no such shard map")) };
    let rows = match &condition.expr {
        KeyExpr::Or(rows) => rows.as_slice(),
        row => std::slice::from_ref(row),
    };
    let mut shards = Vec::with_capacity(rows.len());
    let mut key = Vec::with_capacity(condition.types.len());
    for row in rows {
        let KeyExpr::Row(sources) = row else { return Err(Error::internal("a row without its key")) };
        key.clear();
        for (column, source) in sources.iter().enumerate() {
            key.push(written(condition, column, source, values)?);
        }
        let told = || map.shards().first().copied().filter(|_| condition.is_violated(&key));
        let shard = map.locate_typed(&condition.types, &key).or_else(told);
        shards.push(shard.ok_or_else(|| no_place(condition, map))?);
    }
    Ok(shards)
}

/// What is known of each key column, as one alternative of several.
type Candidate = Vec<Bound>;

struct Bounds<'a> {
    condition: &'a KeyCondition,
    map: &'a ShardMap,
    values: &'a Values<'a>,
}

impl Bounds<'_> {
    /// The alternatives; `None`: anything.
    fn candidates(&self, expr: &KeyExpr) -> Result<Option<Vec<Candidate>>> {
        match expr {
            KeyExpr::True => Ok(None),
            KeyExpr::False => Ok(Some(Vec::new())),
            KeyExpr::Equals { column, value } => Ok(match self.value(*column, value)? {
                None => None,
                Some(Datum::Null) => Some(Vec::new()),
                Some(value) => Some(vec![self.one(*column, Bound::Is(value))]),
            }),
            KeyExpr::EqualsAny { column, array } => self.any(*column, array),
            KeyExpr::IsNull { column } => Ok(Some(vec![self.one(*column, Bound::Is(Datum::Null))])),
            KeyExpr::Compare { column, op, value } => Ok(match self.value(*column, value)? {
                None => None,
                Some(Datum::Null) => Some(Vec::new()),
                Some(value) => Some(vec![self.one(*column, within(*op, value))]),
            }),
            KeyExpr::Row(sources) => {
                let mut candidate = Vec::new();
                for (column, source) in sources.iter().enumerate() {
                    candidate.push(Bound::Is(written(self.condition, column, source, self.values)?));
                }
                Ok(Some(vec![candidate]))
            }
            KeyExpr::And(parts) => self.all_of(parts),
            KeyExpr::Or(parts) => self.any_of(parts),
        }
    }

    fn one(&self, column: usize, bound: Bound) -> Candidate {
        let mut candidate = vec![Bound::Any; self.map.key.len()];
        if let Some(place) = candidate.get_mut(column) {
            *place = bound;
        }
        candidate
    }

    fn value(&self, column: usize, source: &Source) -> Result<Option<Datum>> {
        match self.condition.types.get(column) {
            Some(key_type) => value(source, *key_type, self.values),
            None => Ok(None),
        }
    }

    fn any(&self, column: usize, array: &Source) -> Result<Option<Vec<Candidate>>> {
        let Some(key_type) = self.condition.types.get(column) else { return Ok(None) };
        let Some(elements) = elements(array, *key_type, self.values)? else { return Ok(None) };
        if elements.len() > limits::KEY_VALUES {
            return Ok(None);
        }
        let elements = elements.into_iter().filter(|value| *value != Datum::Null);
        Ok(Some(elements.map(|value| self.one(column, Bound::Is(value))).collect()))
    }

    fn all_of(&self, parts: &[KeyExpr]) -> Result<Option<Vec<Candidate>>> {
        let mut all: Option<Vec<Candidate>> = None;
        for part in parts {
            let Some(next) = self.candidates(part)? else { continue };
            all =
                Some(match all {
                    None => next,
                    // leaving a condition out only widens
                    Some(all) if all.len().saturating_mul(next.len()) > limits::KEY_VALUES => {
                        if next.len() < all.len() { next } else { all }
                    }
                    Some(all) => all.iter().flat_map(|a| next.iter().filter_map(move |b| meet(a, b))).collect(),
                });
        }
        Ok(all)
    }

    fn any_of(&self, parts: &[KeyExpr]) -> Result<Option<Vec<Candidate>>> {
        let mut any = Vec::new();
        for part in parts {
            match self.candidates(part)? {
                None => return Ok(None),
                Some(next) => any.extend(next),
            }
            if any.len() > limits::KEY_VALUES && !matches!(part, KeyExpr::Row(_)) {
                return Ok(None);
            }
        }
        Ok(Some(any))
    }

    /// A row that is written has a place; a row that is read need not.
    fn must_have_place(&self, bounds: &[Bound]) -> Result<()> {
        let is_row = match &self.condition.expr {
            KeyExpr::Row(_) => true,
            KeyExpr::Or(parts) => parts.iter().all(|p| matches!(p, KeyExpr::Row(_))),
            _ => false,
        };
        let whole = bounds.iter().all(|b| matches!(b, Bound::Is(_)));
        let key: Vec<Datum> =
            bounds.iter().filter_map(|b| if let Bound::Is(v) = b { Some(v.clone()) } else { None }).collect();
        let nowhere = || self.map.locate_typed(&self.condition.types, &key).is_none();
        if is_row && whole && nowhere() && !self.condition.is_violated(&key) {
            return Err(no_place(self.condition, self.map));
        }
        Ok(())
    }
}

fn within(op: CompareOp, value: Datum) -> Bound {
    match op {
        CompareOp::Less => Bound::Within { low: None, high: Some((value, false)) },
        CompareOp::LessOrEqual => Bound::Within { low: None, high: Some((value, true)) },
        CompareOp::Greater => Bound::Within { low: Some((value, false)), high: None },
        CompareOp::GreaterOrEqual => Bound::Within { low: Some((value, true)), high: None },
    }
}

/// Both alternatives at once; `None` if they exclude each other.
fn meet(a: &[Bound], b: &[Bound]) -> Option<Candidate> {
    a.iter().zip(b).map(|(a, b)| meet_bound(a, b)).collect()
}

fn meet_bound(a: &Bound, b: &Bound) -> Option<Bound> {
    match (a, b) {
        (Bound::Any, other) | (other, Bound::Any) => Some(other.clone()),
        (Bound::Is(x), Bound::Is(y)) => (x == y).then(|| a.clone()),
        (Bound::Is(x), Bound::Within { low, high }) | (Bound::Within { low, high }, Bound::Is(x)) => {
            let inside = *x != Datum::Null
                && low.as_ref().is_none_or(|(l, incl)| above(x, l, *incl))
                && high.as_ref().is_none_or(|(h, incl)| above(h, x, *incl));
            inside.then(|| Bound::Is(x.clone()))
        }
        (Bound::Within { low: l1, high: h1 }, Bound::Within { low: l2, high: h2 }) => {
            let low = match (l1, l2) {
                (Some(x), Some(y)) => Some(if above(&x.0, &y.0, true) && (x.0 != y.0 || !x.1) { x } else { y }),
                (x, y) => x.as_ref().or(y.as_ref()),
            };
            let high = match (h1, h2) {
                (Some(x), Some(y)) => Some(if above(&y.0, &x.0, true) && (x.0 != y.0 || !x.1) { x } else { y }),
                (x, y) => x.as_ref().or(y.as_ref()),
            };
            if let (Some(low), Some(high)) = (low, high)
                && !above(&high.0, &low.0, low.1 && high.1)
            {
                return None;
            }
            Some(Bound::Within { low: low.cloned(), high: high.cloned() })
        }
    }
}

/// a > b, or a >= b.
fn above(a: &Datum, b: &Datum, or_equal: bool) -> bool {
    match a.compare(b) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => or_equal,
        std::cmp::Ordering::Less => false,
    }
}

/// A value of the key's type; `None`: not certain here. NULL is [`Datum::Null`].
fn value(source: &Source, key_type: KeyType, values: &Values<'_>) -> Result<Option<Datum>> {
    match source {
        Source::Const(value) => Ok(Some(value.clone())),
        Source::Drawn(number) => match values.drawn.get(*number).and_then(Option::as_ref) {
            None => Ok(None),
            Some(None) => Ok(Some(Datum::Null)),
            Some(Some(text)) => key::from_text_literal(key_type, text),
        },
        Source::Param(number) => match number.checked_sub(1).and_then(|n| values.params.get(n)) {
            None => Ok(None),
            Some(Param { value: None, .. }) => Ok(Some(Datum::Null)),
            Some(Param { oid, format, value: Some(bytes) }) => key::from_param(key_type, *oid, *format, bytes),
        },
        Source::Literal { ordinal, negative } => {
            let Some(literal) = values.literals.get(*ordinal) else { return Ok(None) };
            let range = literal.start as usize..literal.end as usize;
            // Where PostgreSQL points to when it reads a constant (coerce_type in parse_coerce.c).
            let here = |error: Error| match character_position(values.text, range.start) {
                Some(position) => error.at(position),
                None => error,
            };
            match literal.kind {
                LiteralKind::Integer => {
                    key::from_number_literal(key_type, values.text.get(range.clone()).unwrap_or(""), *negative)
                }
                LiteralKind::PlainString | LiteralKind::OtherString if !negative => {
                    match normalize::string_value(values.text, range.clone(), values.standard_conforming_strings) {
                        Some(text) => key::from_text_literal(key_type, &text).map_err(here),
                        None => Ok(None),
                    }
                }
                _ => Ok(None),
            }
        }
    }
}

/// The value of a key column of a row that is written.
///
/// # Errors
/// 0A000 where it is not certain here.
fn written(condition: &KeyCondition, column: usize, source: &Source, values: &Values<'_>) -> Result<Datum> {
    let Some(key_type) = condition.types.get(column) else { return Err(Error::internal("no key column")) };
    match value(source, *key_type, values)? {
        Some(value) => Ok(value),
        None => padded(condition, column, source, values).ok_or_else(|| undetermined(condition, column)),
    }
}

/// A text that ends in spaces, for a varchar column that is wide enough not to drop any (varchar() in varchar.c).
fn padded(condition: &KeyCondition, column: usize, source: &Source, values: &Values<'_>) -> Option<Datum> {
    let width = *condition.widths.get(column)?;
    let text = match source {
        Source::Param(number) => {
            let param = values.params.get(number.checked_sub(1)?)?;
            let own = param.oid == 0 || KeyType::from_oid(param.oid) == Some(KeyType::Varchar);
            let text = own || param.oid == oid::UNKNOWN || KeyType::from_oid(param.oid) == Some(KeyType::Text);
            std::str::from_utf8(param.value.filter(|_| text)?).ok()?.to_owned()
        }
        Source::Literal { ordinal, negative: false } => {
            let literal = values.literals.get(*ordinal)?;
            let range = literal.start as usize..literal.end as usize;
            if !matches!(literal.kind, LiteralKind::PlainString | LiteralKind::OtherString) {
                return None;
            }
            normalize::string_value(values.text, range, values.standard_conforming_strings)?.into_owned()
        }
        _ => return None,
    };
    let fits = text.ends_with(' ') && !text.contains('\0') && text.chars().count() <= width? as usize;
    fits.then(|| Datum::Text(Bytes::from(text)))
}

/// The elements of an array; `None`: not certain here.
fn elements(source: &Source, key_type: KeyType, values: &Values<'_>) -> Result<Option<Vec<Datum>>> {
    match source {
        Source::Const(_) | Source::Drawn(_) => Ok(None),
        Source::Param(number) => match number.checked_sub(1).and_then(|n| values.params.get(n)) {
            None => Ok(None),
            Some(Param { value: None, .. }) => Ok(Some(Vec::new())),
            Some(Param { oid, format, value: Some(bytes) }) => array::array_elements(key_type, *oid, *format, bytes),
        },
        Source::Literal { ordinal, .. } => {
            let Some(literal) = values.literals.get(*ordinal) else { return Ok(None) };
            if !matches!(literal.kind, LiteralKind::PlainString | LiteralKind::OtherString) {
                return Ok(None);
            }
            let range = literal.start as usize..literal.end as usize;
            match normalize::string_value(values.text, range, values.standard_conforming_strings) {
                Some(text) => array::array_elements(key_type, 0, 0, text.as_bytes()),
                None => Ok(None),
            }
        }
    }
}

fn undetermined(condition: &KeyCondition, column: usize) -> Error {
    let name = condition.names.get(column).map_or("?", String::as_str);
    Error::unsupported(format!("the shard key value of column {name} cannot be determined here"))
        .hint("Give the shard key as a constant or a parameter of the column's own type, in its plain form.")
}

impl KeyCondition {
    /// Whether a key that is written has NULL where its column does not take it: any shard says so (23502).
    fn is_violated(&self, key: &[Datum]) -> bool {
        key.iter().zip(&self.not_null).any(|(value, not_null)| *not_null && *value == Datum::Null)
    }
}

fn no_place(condition: &KeyCondition, map: &ShardMap) -> Error {
    Error::new(NO_PLACE, format!("no shard for shard key value of {}", condition.names.join(", ")))
        .detail(format!("Shard map {} has no place for it.", map.name))
}
