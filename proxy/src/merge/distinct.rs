//! Rows that are equal in some columns are given once.

use super::budget::Budget;
use super::budget::ENTRY_BYTES;
use super::row::Fields;
use crate::error::Error;
use crate::error::Result;
use crate::value::binary::Comparer;
use std::collections::HashSet;

pub(super) struct Distinct {
    columns: Vec<(usize, Comparer)>,
    seen: HashSet<Box<[u8]>>,
    /// Columns by which the rows come sorted, of those that are distinct: when they change, no earlier row can be equal
    /// to a later one, and what was seen is forgotten. Empty: the rows come in any order.
    run_columns: Vec<(usize, Comparer)>,
    run: Vec<u8>,
    budget: Budget,
    scratch: Vec<u8>,
}

impl Distinct {
    pub(super) fn new(
        columns: Vec<(usize, Comparer)>,
        run_columns: Vec<(usize, Comparer)>,
        budget: Budget,
    ) -> Distinct {
        Distinct { columns, seen: HashSet::new(), run_columns, run: Vec::new(), budget, scratch: Vec::new() }
    }

    /// Whether no earlier row was equal in the columns. Errors: 54000, XX000.
    pub(super) fn is_new(&mut self, body: &[u8], fields: &Fields) -> Result<bool> {
        if !self.run_columns.is_empty() {
            self.start_run(body, fields)?;
        }
        self.scratch.clear();
        write_key(&self.columns, body, fields, &mut self.scratch)?;
        if self.seen.contains(self.scratch.as_slice()) {
            return Ok(false);
        }
        self.budget.take(self.scratch.len() + ENTRY_BYTES)?;
        self.seen.insert(self.scratch.as_slice().into());
        Ok(true)
    }

    fn start_run(&mut self, body: &[u8], fields: &Fields) -> Result<()> {
        self.scratch.clear();
        write_key(&self.run_columns, body, fields, &mut self.scratch)?;
        if self.scratch != self.run {
            std::mem::swap(&mut self.scratch, &mut self.run);
            self.seen.clear();
            self.budget.release_all();
        }
        Ok(())
    }
}

/// Appends the columns' canonical bytes, each behind its length: equal exactly when the values are (NULL equals NULL, as
/// in GROUP BY and DISTINCT). Error: XX000 for a malformed value.
pub(super) fn write_key(columns: &[(usize, Comparer)], body: &[u8], fields: &Fields, out: &mut Vec<u8>) -> Result<()> {
    for (column, comparer) in columns {
        let start = out.len();
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        let Some(value) = fields.get(body, *column) else { continue };
        check(*comparer, value)?;
        comparer.canonical(value, out);
        let len = (out.len() - start - 4) as u32;
        if let Some(place) = out.get_mut(start..start + 4) {
            place.copy_from_slice(&len.to_be_bytes());
        }
    }
    Ok(())
}

/// Error: XX000 if a shard's value is not what its type says.
pub(super) fn check(comparer: Comparer, value: &[u8]) -> Result<()> {
    if comparer.accepts(value) {
        return Ok(());
    }
    Err(Error::internal(format!("a shard sent a malformed binary value of {} bytes", value.len())))
}
