//! Object identifiers of users' types and tables, rewritten from one server's numbers to another's where messages carry
//! them: in descriptions, and inside binary values of arrays, records, ranges and multiranges (array_send, record_send,
//! range_send and multirange_send of PostgreSQL). Every number has four bytes on both sides, so that messages are
//! rewritten in place and never change their length.

use crate::error::Error;
use crate::error::Result;
use crate::value::Oid;
use crate::value::oid::FIRST_USER;
use crate::value::oid::UNKNOWN;
use std::collections::HashMap;

/// Nested values beyond this depth are refused: the recursion is bounded.
const DEPTH: usize = 64;

/// What a number is replaced by that the other side does not have: no server has it, so that the server refuses it.
const NOBODY: Oid = Oid::MAX;

// range_send's flags (utils/rangetypes.h): empty, and bounds that are not there.
const RANGE_EMPTY: u8 = 0x01;
const RANGE_NO_LOWER: u8 = 0x01 | 0x08 | 0x20;
const RANGE_NO_UPPER: u8 = 0x01 | 0x10 | 0x40;

/// Where a binary value of a type holds numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// An array: the element's type in its header, and the elements.
    Array,
    /// A record: the type of each field, and the fields.
    Record,
    /// A range over this type, whose values hold numbers.
    Range(Oid),
    /// A multirange of this range type.
    Multirange(Oid),
    /// A domain over this type.
    Domain(Oid),
    /// regtype: the value is the number of a type.
    Type,
    /// regclass: the value is the number of a relation.
    Relation,
}

/// A relation on the other side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelationNumbers {
    pub oid: Oid,
    /// Numbers of columns (`pg_attribute.attnum`) that differ there; 0 for a column that it does not have.
    pub columns: HashMap<i16, i16>,
}

/// From one side's numbers to the other's.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Types of users that both sides have.
    pub types: HashMap<Oid, Oid>,
    /// Tables, views and sequences that both sides have.
    pub relations: HashMap<Oid, RelationNumbers>,
    /// Types whose binary values hold numbers that differ; by this side's number.
    pub holders: HashMap<Oid, Holds>,
}

impl Numbers {
    /// The type's number on the other side; `None` for a user's type that it does not have.
    pub fn type_oid(&self, oid: Oid) -> Option<Oid> {
        if oid < FIRST_USER { Some(oid) } else { self.types.get(&oid).copied() }
    }

    /// As `type_oid`, for a server that is to refuse a type that it does not have.
    pub fn type_or_nobody(&self, oid: Oid) -> Oid {
        self.type_oid(oid).unwrap_or(NOBODY)
    }

    fn relation_oid(&self, oid: Oid) -> Option<Oid> {
        if oid < FIRST_USER { Some(oid) } else { self.relations.get(&oid).map(|r| r.oid) }
    }

    /// Rewrites a RowDescription's body. A table that the other side does not have is told as none; a type that it
    /// does not have as `unknown`, which is read as text. True when there was such a type.
    ///
    /// # Errors
    /// 08P01 for a body that is malformed.
    pub fn row_description(&self, body: &mut [u8]) -> Result<bool> {
        let mut at = Place::new(body);
        let mut missing = false;
        for _ in 0..at.u16().ok_or_else(malformed)? {
            missing |= self.field(&mut at).ok_or_else(malformed)?;
        }
        Ok(missing)
    }

    fn field(&self, at: &mut Place<'_>) -> Option<bool> {
        at.skip_text()?;
        let table = at.u32()?;
        let column = at.u16()? as i16;
        if table >= FIRST_USER {
            let known = self.relations.get(&table);
            let number = known.map_or(0, |r| r.columns.get(&column).copied().unwrap_or(column));
            at.put_back(6, &known.map_or(0, |r| r.oid).to_be_bytes())?;
            at.put_back(2, &number.to_be_bytes())?;
        }
        let oid = at.u32()?;
        let mapped = self.type_oid(oid);
        at.put_back(4, &mapped.unwrap_or(UNKNOWN).to_be_bytes())?;
        at.skip(8)?;
        Some(mapped.is_none())
    }

    /// Rewrites a ParameterDescription's body; true when there was a type that the other side does not have.
    ///
    /// # Errors
    /// 08P01 for a body that is malformed.
    pub fn parameter_description(&self, body: &mut [u8]) -> Result<bool> {
        let mut at = Place::new(body);
        let mut missing = false;
        for _ in 0..at.u16().ok_or_else(malformed)? {
            let mapped = self.type_oid(at.u32().ok_or_else(malformed)?);
            missing |= mapped.is_none();
            at.put_back(4, &mapped.unwrap_or(UNKNOWN).to_be_bytes());
        }
        Ok(missing)
    }

    /// The columns of a row to look into: (position, type on this side), of the columns' types and formats.
    pub fn columns(&self, columns: impl Iterator<Item = (Oid, i16)>) -> Vec<(usize, Oid)> {
        let holds = |(n, (oid, format)): (usize, (Oid, i16))| (format == 1 && self.holds(oid)).then_some((n, oid));
        columns.enumerate().filter_map(holds).collect()
    }

    /// Whether binary values of a type of this side hold numbers.
    pub fn holds(&self, oid: Oid) -> bool {
        self.holders.contains_key(&oid)
    }

    /// Rewrites values of these columns in a body that is a count and that many values: a DataRow, the values of a Bind
    /// behind its formats, a row of a binary COPY.
    ///
    /// # Errors
    /// What is malformed, and numbers that the other side does not have (XX000). The rest is as it was.
    pub fn values(&self, columns: &[(usize, Oid)], body: &mut [u8]) -> Result<()> {
        let mut at = Place::new(body);
        let mut left = columns.iter();
        let mut next = left.next();
        for n in 0..usize::from(at.u16().ok_or_else(malformed)?) {
            let Some((column, oid)) = next else { break };
            let value = at.value().ok_or_else(malformed)?;
            if n == *column {
                next = left.next();
                if let Some(value) = value {
                    self.value(*oid, value, DEPTH)?;
                }
            }
        }
        Ok(())
    }

    /// Rewrites one binary value of a type of this side.
    fn value(&self, oid: Oid, bytes: &mut [u8], depth: usize) -> Result<()> {
        let Some(holds) = self.holders.get(&oid) else { return Ok(()) };
        let depth = depth.checked_sub(1).ok_or_else(|| Error::unsupported("values nested this deeply"))?;
        let mut at = Place::new(bytes);
        match *holds {
            Holds::Domain(base) => self.value(base, bytes, depth),
            Holds::Array => self.array(&mut at, depth),
            Holds::Record => self.record(&mut at, depth),
            Holds::Range(subtype) => self.range(subtype, &mut at, depth),
            Holds::Multirange(range) => {
                for _ in 0..at.u32().ok_or_else(malformed)? {
                    if let Some(value) = at.value().ok_or_else(malformed)? {
                        self.value(range, value, depth)?;
                    }
                }
                Ok(())
            }
            Holds::Type => self.number(&mut at, |oid| self.type_oid(oid)).map(|_| ()),
            Holds::Relation => self.number(&mut at, |oid| self.relation_oid(oid)).map(|_| ()),
        }
    }

    fn array(&self, at: &mut Place<'_>, depth: usize) -> Result<()> {
        let dimensions = at.u32().ok_or_else(malformed)? as usize;
        at.skip(4).ok_or_else(malformed)?;
        let element = self.number(at, |oid| self.type_oid(oid))?;
        if !self.holders.contains_key(&element) || dimensions == 0 {
            return Ok(());
        }
        at.skip(dimensions.saturating_mul(8)).ok_or_else(malformed)?;
        while !at.is_at_end() {
            if let Some(value) = at.value().ok_or_else(malformed)? {
                self.value(element, value, depth)?;
            }
        }
        Ok(())
    }

    fn record(&self, at: &mut Place<'_>, depth: usize) -> Result<()> {
        for _ in 0..at.u32().ok_or_else(malformed)? {
            let field = self.number(at, |oid| self.type_oid(oid))?;
            if let Some(value) = at.value().ok_or_else(malformed)? {
                self.value(field, value, depth)?;
            }
        }
        Ok(())
    }

    fn range(&self, subtype: Oid, at: &mut Place<'_>, depth: usize) -> Result<()> {
        let flags = at.u8().ok_or_else(malformed)?;
        for missing in [RANGE_NO_LOWER, RANGE_NO_UPPER] {
            if flags & (missing | RANGE_EMPTY) == 0
                && let Some(bound) = at.value().ok_or_else(malformed)?
            {
                self.value(subtype, bound, depth)?;
            }
        }
        Ok(())
    }

    /// Rewrites the number that is next; what it was.
    fn number(&self, at: &mut Place<'_>, map: impl Fn(Oid) -> Option<Oid>) -> Result<Oid> {
        let oid = at.u32().ok_or_else(malformed)?;
        at.put_back(4, &map(oid).unwrap_or(NOBODY).to_be_bytes()).ok_or_else(malformed)?;
        Ok(oid)
    }
}

fn malformed() -> Error {
    Error::protocol_error("invalid binary value")
}

/// A place in bytes that are read and rewritten.
struct Place<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Place<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Place { bytes, at: 0 }
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn skip(&mut self, n: usize) -> Option<()> {
        let end = self.at.checked_add(n)?;
        (end <= self.bytes.len()).then(|| self.at = end)
    }

    fn skip_text(&mut self) -> Option<()> {
        let length = self.bytes.get(self.at..)?.iter().position(|&b| b == 0)?;
        self.skip(length + 1)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// A length of four bytes and that many bytes; -1 is NULL.
    fn value(&mut self) -> Option<Option<&mut [u8]>> {
        let Ok(length) = usize::try_from(self.u32()? as i32) else { return Some(None) };
        let start = self.at;
        self.skip(length)?;
        self.bytes.get_mut(start..start + length).map(Some)
    }

    /// Writes over what was read, beginning this many bytes back.
    fn put_back(&mut self, back: usize, bytes: &[u8]) -> Option<()> {
        let start = self.at.checked_sub(back)?;
        self.bytes.get_mut(start..start + bytes.len())?.copy_from_slice(bytes);
        Some(())
    }
}

#[cfg(test)]
mod tests;
