//! Finished rows → DataRow messages: which columns, and how many rows.

use super::row::Fields;
use crate::error::Error;
use crate::error::Result;
use crate::plan::Output;
use bytes::BufMut;
use bytes::BytesMut;

/// OFFSET and LIMIT.
pub(super) struct Window {
    skip: u64,
    left: Option<u64>,
    rows: u64,
}

impl Window {
    pub(super) fn new(limit: Option<u64>, offset: u64) -> Window {
        Window { skip: offset, left: limit, rows: 0 }
    }

    /// Counts a row; whether it is one of the answer.
    pub(super) fn admit(&mut self) -> bool {
        if self.is_full() {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.left = self.left.map(|left| left - 1);
        self.rows += 1;
        true
    }

    /// No further row can be one of the answer.
    pub(super) fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }
}

/// Which columns of a shard's row the client sees.
pub(super) enum Projection {
    /// All of them as they stand.
    Whole,
    /// The first ones: hidden columns follow.
    Prefix(usize),
    /// These, in this order.
    Pick(Vec<usize>),
}

impl Projection {
    /// For plain columns; aggregates are written by the grouping, which does not use it.
    pub(super) fn new(output: &[Output], columns: usize) -> Projection {
        let plain = output.iter().filter_map(|output| match output {
            Output::Column(column) => Some(*column),
            Output::Aggregate(_) => None,
        });
        let picked: Vec<usize> = plain.collect();
        match picked.iter().copied().eq(0..picked.len()) {
            true if picked.len() == columns => Projection::Whole,
            true => Projection::Prefix(picked.len()),
            false => Projection::Pick(picked),
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Projection::Whole)
    }

    /// Appends the row's message. Error: XX000 if it is larger than a message can be.
    pub(super) fn write(&self, body: &[u8], fields: &Fields, out: &mut BytesMut) -> Result<()> {
        match self {
            Projection::Whole => write_frame(body, out),
            Projection::Prefix(columns) => {
                let values = body.get(2..fields.end_of_prefix(*columns)).unwrap_or_default();
                out.reserve(values.len() + 7);
                out.put_u8(b'D');
                out.put_u32(values.len() as u32 + 6);
                out.put_u16(*columns as u16);
                out.put_slice(values);
            }
            Projection::Pick(columns) => {
                let mut frame = FrameWriter::new(columns.len(), out);
                columns.iter().for_each(|column| frame.value(fields.get(body, *column)));
                frame.finish()?;
            }
        }
        Ok(())
    }
}

/// Appends a DataRow message with this body.
pub(super) fn write_frame(body: &[u8], out: &mut BytesMut) {
    out.reserve(body.len() + 5);
    out.put_u8(b'D');
    out.put_u32(body.len() as u32 + 4);
    out.put_slice(body);
}

/// Builds a DataRow message column by column.
pub(super) struct FrameWriter<'a> {
    out: &'a mut BytesMut,
    start: usize,
}

impl FrameWriter<'_> {
    pub(super) fn new(columns: usize, out: &mut BytesMut) -> FrameWriter<'_> {
        let start = out.len();
        out.put_u8(b'D');
        out.put_u32(0);
        out.put_u16(columns as u16);
        FrameWriter { out, start }
    }

    pub(super) fn value(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.out.put_i32(-1),
            Some(value) => {
                self.out.put_u32(value.len() as u32);
                self.out.put_slice(value);
            }
        }
    }

    /// Patches the length. Error: XX000 if it does not fit; nothing is left of the row then.
    pub(super) fn finish(self) -> Result<()> {
        let Ok(len) = i32::try_from(self.out.len() - self.start - 1) else {
            self.discard();
            return Err(Error::internal("a merged row is larger than a message can be"));
        };
        if let Some(place) = self.out.get_mut(self.start + 1..self.start + 5) {
            place.copy_from_slice(&len.to_be_bytes());
        }
        Ok(())
    }

    /// Takes the unfinished row back.
    pub(super) fn discard(self) {
        self.out.truncate(self.start);
    }
}
