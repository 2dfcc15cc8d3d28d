//! The body of a DataRow message: where its columns are.

use crate::error::Error;
use crate::error::Result;

/// Positions of a row's columns, kept apart from the row so that they can be reused for the next one.
#[derive(Default)]
pub(super) struct Fields {
    /// Start and end of each column's bytes; `None` for NULL.
    spans: Vec<Option<(usize, usize)>>,
}

impl Fields {
    /// Finds the columns of a row. Error: XX000 if the row is malformed or has another number of columns.
    pub(super) fn parse(&mut self, body: &[u8], columns: usize) -> Result<()> {
        check_count(body, columns)?;
        self.spans.clear();
        let mut at = 2;
        for _ in 0..columns {
            let len = body.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(malformed)?;
            at += 4;
            let len = i32::from_be_bytes(*len);
            if len == -1 {
                self.spans.push(None);
                continue;
            }
            let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len)).ok_or_else(malformed)?;
            if end > body.len() {
                return Err(malformed());
            }
            self.spans.push(Some((at, end)));
            at = end;
        }
        if at == body.len() { Ok(()) } else { Err(malformed()) }
    }

    /// A column's bytes in the row that was parsed; `None` for NULL.
    pub(super) fn get<'a>(&self, body: &'a [u8], column: usize) -> Option<&'a [u8]> {
        let (start, end) = (*self.spans.get(column)?)?;
        body.get(start..end)
    }

    /// Where the first `columns` columns end in the body.
    pub(super) fn end_of_prefix(&self, columns: usize) -> usize {
        let prefix = self.spans.iter().take(columns);
        prefix.fold(2, |end, span| span.map_or(end + 4, |(_, end)| end))
    }
}

/// Error: XX000 if the row does not have this number of columns.
pub(super) fn check_count(body: &[u8], columns: usize) -> Result<()> {
    let count = body.first_chunk::<2>().map(|count| u16::from_be_bytes(*count)).ok_or_else(malformed)?;
    if usize::from(count) == columns {
        return Ok(());
    }
    Err(Error::internal(format!("a shard sent a row of {count} columns where {columns} are due")))
}

fn malformed() -> Error {
    Error::internal("a shard sent a malformed row")
}
