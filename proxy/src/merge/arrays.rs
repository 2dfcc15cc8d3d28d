//! Rows → one array for each column, in the binary form of PostgreSQL's arrays (array_recv in arrayfuncs.c), for the
//! statement of the final phase.

use super::budget::Budget;
use super::row::Fields;
use crate::error::Result;
use crate::value::Oid;
use bytes::BufMut;
use bytes::BytesMut;

pub(super) struct Arrays {
    columns: Vec<Column>,
    rows: u32,
    budget: Budget,
}

#[derive(Default)]
struct Column {
    /// Each value behind its 32-bit length, -1 for NULL: as in a row, and as in an array.
    values: BytesMut,
    has_nulls: bool,
}

impl Arrays {
    pub(super) fn new(columns: usize, budget: Budget) -> Arrays {
        Arrays { columns: (0..columns).map(|_| Column::default()).collect(), rows: 0, budget }
    }

    /// Adds a row. Error: 54000 if too much would be held.
    pub(super) fn row(&mut self, body: &[u8], fields: &Fields) -> Result<()> {
        self.budget.take(body.len())?;
        for (n, column) in self.columns.iter_mut().enumerate() {
            match fields.get(body, n) {
                None => {
                    column.has_nulls = true;
                    column.values.put_i32(-1);
                }
                Some(value) => {
                    // a value of a row is no longer than a message, whose length is 32 bits wide
                    column.values.put_u32(value.len() as u32);
                    column.values.put_slice(value);
                }
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// The arrays; `elements`: the types of their elements. What was held is given away.
    pub(super) fn take(&mut self, elements: &[Oid]) -> Vec<BytesMut> {
        let rows = self.rows;
        let array = |(column, element): (&mut Column, &Oid)| {
            let values = std::mem::take(&mut column.values);
            let mut array = BytesMut::with_capacity(values.len() + 20);
            array.put_i32(i32::from(rows > 0));
            array.put_i32(i32::from(column.has_nulls));
            array.put_u32(*element);
            if rows > 0 {
                array.put_u32(rows);
                array.put_i32(1);
            }
            array.extend_from_slice(&values);
            array
        };
        self.budget.release_all();
        self.columns.iter_mut().zip(elements).map(array).collect()
    }
}
