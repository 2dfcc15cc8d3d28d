//! Partial aggregates of the shards → the aggregate of all rows.
//!
//! Rules: NULL partials are skipped, no partial at all is NULL (0 for count). Results are computed in the type that
//! PostgreSQL gives the aggregate, with its errors (int8pl, numeric_add, float8pl, numeric_div, …).

use super::column_type;
use super::comparer;
use super::distinct::check;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::plan::Aggregate;
use crate::value::Oid;
use crate::value::binary::Comparer;
use crate::value::numeric::Numeric;
use crate::value::oid;
use crate::value::output;
use crate::value::output::fixed;
use std::cmp::Ordering;

/// How one output column is combined.
pub(super) struct Combine {
    kind: Kind,
    result: Oid,
    binary: bool,
}

enum Kind {
    Count {
        partial: usize,
    },
    Sum {
        partial: usize,
    },
    Avg {
        sum: usize,
        count: usize,
        sum_type: Oid,
    },
    /// The row whose `sort` compares like this to the others' wins.
    Extreme {
        value: usize,
        sort: usize,
        sort_type: Oid,
        comparer: Comparer,
        wins: Ordering,
    },
    Logic {
        partial: usize,
        and: bool,
    },
}

/// What a group has gathered for one aggregate.
pub(super) enum State {
    /// Nothing but NULLs yet.
    Empty,
    Int(i64),
    Numeric(Numeric),
    Float8(f64),
    Float4(f32),
    /// boolean, or an integer's bits with its sign extended.
    Bits(i64),
    AvgInt {
        sum: i128,
        count: i64,
    },
    AvgNumeric {
        sum: Numeric,
        count: i64,
    },
    AvgFloat {
        sum: f64,
        count: i64,
    },
    Extreme {
        sort: Vec<u8>,
        value: Option<Vec<u8>>,
    },
}

impl State {
    /// Bytes that grow with the values.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            State::Extreme { sort, value } => sort.len() + value.as_ref().map_or(0, Vec::len),
            State::Numeric(number) | State::AvgNumeric { sum: number, .. } => match number {
                Numeric::Finite { unscaled, .. } => usize::try_from(unscaled.bits() / 8 + 8).unwrap_or(usize::MAX),
                Numeric::NaN | Numeric::Infinity | Numeric::NegInfinity => 0,
            },
            _ => 0,
        }
    }
}

impl Combine {
    /// `columns` are the shards' types, `result` and `format` what the client was told. Error: 0A000 for types that are
    /// not combined exactly.
    pub(super) fn new(aggregate: &Aggregate, columns: &[Oid], result: Oid, format: i16) -> Result<Combine> {
        let of = |column: &usize| column_type(columns, *column);
        let (kind, computed) = match aggregate {
            Aggregate::Count { partial } => {
                need("count", of(partial)?, &[oid::INT8])?;
                (Kind::Count { partial: *partial }, oid::INT8)
            }
            Aggregate::Sum { partial } => {
                let summed = of(partial)?;
                need("sum", summed, &[oid::INT8, oid::NUMERIC, oid::FLOAT4, oid::FLOAT8])?;
                (Kind::Sum { partial: *partial }, summed)
            }
            Aggregate::Avg { sum, count } => {
                let sum_type = of(sum)?;
                need("avg", sum_type, &[oid::INT8, oid::NUMERIC, oid::FLOAT8])?;
                need("avg", of(count)?, &[oid::INT8])?;
                let averaged = if sum_type == oid::FLOAT8 { oid::FLOAT8 } else { oid::NUMERIC };
                (Kind::Avg { sum: *sum, count: *count, sum_type }, averaged)
            }
            Aggregate::Min { value, sort } => extreme("min", (*value, *sort), columns, Ordering::Less)?,
            Aggregate::Max { value, sort } => extreme("max", (*value, *sort), columns, Ordering::Greater)?,
            Aggregate::BoolAnd { partial } => logic("bool_and", *partial, true, of(partial)?, &[oid::BOOL])?,
            Aggregate::BoolOr { partial } => logic("bool_or", *partial, false, of(partial)?, &[oid::BOOL])?,
            Aggregate::BitAnd { partial } => logic("bit_and", *partial, true, of(partial)?, &INTEGERS)?,
            Aggregate::BitOr { partial } => logic("bit_or", *partial, false, of(partial)?, &INTEGERS)?,
        };
        if computed != result {
            let (computed, due) = (oid::describe(computed), oid::describe(result));
            let message = format!("aggregate over several shards would be of {computed} where {due} is due");
            return Err(Error::unsupported(message));
        }
        Ok(Combine { kind, result, binary: format != 0 })
    }

    pub(super) fn start(&self) -> State {
        match self.kind {
            Kind::Count { .. } => State::Int(0),
            _ => State::Empty,
        }
    }

    /// Adds a row's partial values. Errors: 22003 if the sum is out of range, XX000 for malformed values.
    pub(super) fn add<'a>(&self, state: &mut State, get: impl Fn(usize) -> Option<&'a [u8]>) -> Result<()> {
        match &self.kind {
            Kind::Count { partial } => match get(*partial) {
                Some(bytes) => add_value(state, oid::INT8, bytes),
                None => Ok(()),
            },
            Kind::Sum { partial } => match get(*partial) {
                Some(bytes) => add_value(state, self.result, bytes),
                None => Ok(()),
            },
            Kind::Avg { sum, count, sum_type } => match (get(*sum), get(*count)) {
                (Some(sum), Some(count)) => add_average(state, *sum_type, sum, i64::from_be_bytes(fixed(count)?)),
                _ => Ok(()),
            },
            Kind::Extreme { value, sort, comparer, wins, .. } => match get(*sort) {
                Some(sort) => add_extreme(state, *comparer, *wins, sort, get(*value)),
                None => Ok(()),
            },
            Kind::Logic { partial, and } => match get(*partial) {
                Some(bytes) => add_logic(state, *and, bits(self.result, bytes)?),
                None => Ok(()),
            },
        }
    }

    /// The result in the client's format; `None` is NULL. Errors: 22003, XX000.
    pub(super) fn result(&self, state: &State) -> Result<Option<Vec<u8>>> {
        if let State::Extreme { value, .. } = state {
            return Ok(value.clone());
        }
        let Some(binary) = self.computed(state)? else { return Ok(None) };
        if self.binary {
            return Ok(Some(binary));
        }
        let mut text = Vec::new();
        output::write_text(self.result, &binary, &mut text)?;
        Ok(Some(text))
    }

    /// The type by which results compare.
    pub(super) fn sort_type(&self) -> Oid {
        match &self.kind {
            Kind::Extreme { sort_type, .. } => *sort_type,
            _ => self.result,
        }
    }

    /// The result in binary format, for sorting by it.
    pub(super) fn sort_value(&self, state: &State) -> Result<Option<Vec<u8>>> {
        match state {
            State::Extreme { sort, .. } => Ok(Some(sort.clone())),
            state => self.computed(state),
        }
    }

    fn computed(&self, state: &State) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        match state {
            State::Empty | State::Extreme { .. } => return Ok(None),
            State::Int(value) => out.extend_from_slice(&value.to_be_bytes()),
            State::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
            State::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
            State::Numeric(value) => value.write_binary(&mut out)?,
            State::AvgInt { count: 0, .. } | State::AvgNumeric { count: 0, .. } | State::AvgFloat { count: 0, .. } => {
                return Ok(None);
            }
            State::AvgInt { sum, count } => {
                let sum = Numeric::Finite { unscaled: (*sum).into(), scale: 0 };
                sum.average(*count).write_binary(&mut out)?;
            }
            State::AvgNumeric { sum, count } => sum.average(*count).write_binary(&mut out)?,
            State::AvgFloat { sum, count } => out.extend_from_slice(&(*sum / *count as f64).to_be_bytes()),
            State::Bits(value) => match self.result {
                oid::BOOL => out.push(u8::from(*value != 0)),
                oid::INT2 => out.extend_from_slice(&(*value as i16).to_be_bytes()),
                oid::INT4 => out.extend_from_slice(&(*value as i32).to_be_bytes()),
                _ => out.extend_from_slice(&value.to_be_bytes()),
            },
        }
        Ok(Some(out))
    }
}

const INTEGERS: [Oid; 3] = [oid::INT2, oid::INT4, oid::INT8];

fn need(function: &str, found: Oid, known: &[Oid]) -> Result<()> {
    if known.contains(&found) {
        return Ok(());
    }
    let name = oid::describe(found);
    Err(Error::unsupported(format!("{function} over several shards is not supported for {name}"))
        .hint("Cast the argument to numeric or bigint, or name the shard key so that one shard answers."))
}

fn extreme(name: &str, (value, sort): (usize, usize), columns: &[Oid], wins: Ordering) -> Result<(Kind, Oid)> {
    let sort_type = column_type(columns, sort)?;
    let comparer = comparer(name, sort_type)?;
    Ok((Kind::Extreme { value, sort, sort_type, comparer, wins }, column_type(columns, value)?))
}

fn logic(name: &str, partial: usize, and: bool, found: Oid, known: &[Oid]) -> Result<(Kind, Oid)> {
    need(name, found, known)?;
    Ok((Kind::Logic { partial, and }, found))
}

/// int8pl, numeric_add, float8pl, float4pl.
fn add_value(state: &mut State, type_oid: Oid, bytes: &[u8]) -> Result<()> {
    let next = match (&*state, type_oid) {
        (State::Int(sum), oid::INT8) => {
            let sum = sum.checked_add(i64::from_be_bytes(fixed(bytes)?));
            State::Int(sum.ok_or_else(|| Error::new(codes::NUMERIC_OUT_OF_RANGE, "bigint out of range"))?)
        }
        (State::Float8(sum), oid::FLOAT8) => {
            let value = f64::from_be_bytes(fixed(bytes)?);
            State::Float8(add_float8(*sum, value)?)
        }
        (State::Float4(sum), oid::FLOAT4) => {
            let value = f32::from_be_bytes(fixed(bytes)?);
            let total = *sum + value;
            overflowed(total.is_infinite() && sum.is_finite() && value.is_finite())?;
            State::Float4(total)
        }
        (State::Numeric(sum), oid::NUMERIC) => State::Numeric(sum.add(&Numeric::from_binary(bytes)?)),
        (_, oid::INT8) => State::Int(i64::from_be_bytes(fixed(bytes)?)),
        (_, oid::FLOAT8) => State::Float8(f64::from_be_bytes(fixed(bytes)?)),
        (_, oid::FLOAT4) => State::Float4(f32::from_be_bytes(fixed(bytes)?)),
        (_, _) => State::Numeric(Numeric::from_binary(bytes)?),
    };
    *state = next;
    Ok(())
}

fn add_float8(sum: f64, value: f64) -> Result<f64> {
    let total = sum + value;
    overflowed(total.is_infinite() && sum.is_finite() && value.is_finite())?;
    Ok(total)
}

/// float_overflow_error.
fn overflowed(overflowed: bool) -> Result<()> {
    if overflowed {
        return Err(Error::new(codes::NUMERIC_OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(())
}

fn add_average(state: &mut State, sum_type: Oid, bytes: &[u8], more: i64) -> Result<()> {
    let total = |count: i64| {
        let out_of_range = || Error::new(codes::NUMERIC_OUT_OF_RANGE, "bigint out of range");
        count.checked_add(more).ok_or_else(out_of_range)
    };
    let next = match (&*state, sum_type) {
        (State::AvgInt { sum, count }, oid::INT8) => {
            let value = i64::from_be_bytes(fixed(bytes)?);
            State::AvgInt { sum: sum.saturating_add(value.into()), count: total(*count)? }
        }
        (State::AvgFloat { sum, count }, oid::FLOAT8) => {
            let value = f64::from_be_bytes(fixed(bytes)?);
            State::AvgFloat { sum: add_float8(*sum, value)?, count: total(*count)? }
        }
        (State::AvgNumeric { sum, count }, oid::NUMERIC) => {
            State::AvgNumeric { sum: sum.add(&Numeric::from_binary(bytes)?), count: total(*count)? }
        }
        (_, oid::INT8) => State::AvgInt { sum: i64::from_be_bytes(fixed(bytes)?).into(), count: more },
        // float8_accum starts at 0, so that the average of -0 is 0
        (_, oid::FLOAT8) => State::AvgFloat { sum: 0.0 + f64::from_be_bytes(fixed(bytes)?), count: more },
        (_, _) => State::AvgNumeric { sum: Numeric::from_binary(bytes)?, count: more },
    };
    *state = next;
    Ok(())
}

/// The first of equal values stays.
fn add_extreme(state: &mut State, comparer: Comparer, wins: Ordering, sort: &[u8], value: Option<&[u8]>) -> Result<()> {
    check(comparer, sort)?;
    match state {
        State::Extreme { sort: best, .. } if comparer.compare(sort, best) != wins => {}
        state => *state = State::Extreme { sort: sort.to_vec(), value: value.map(<[u8]>::to_vec) },
    }
    Ok(())
}

fn add_logic(state: &mut State, and: bool, bits: i64) -> Result<()> {
    *state = State::Bits(match (&*state, and) {
        (State::Bits(found), true) => found & bits,
        (State::Bits(found), false) => found | bits,
        _ => bits,
    });
    Ok(())
}

fn bits(type_oid: Oid, bytes: &[u8]) -> Result<i64> {
    Ok(match type_oid {
        oid::BOOL => i64::from(fixed::<1>(bytes)? != [0]),
        oid::INT2 => i16::from_be_bytes(fixed(bytes)?).into(),
        oid::INT4 => i32::from_be_bytes(fixed(bytes)?).into(),
        _ => i64::from_be_bytes(fixed(bytes)?),
    })
}
