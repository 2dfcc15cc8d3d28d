//! Checked reading of a message's body: every step says what is missing instead of panicking. The errors are those of
//! PostgreSQL's pqformat.c: the frame was cut whole, so that the session goes on.

use crate::error::Error;
use crate::error::Result;

/// A cursor over one body.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

fn short() -> Error {
    Error::protocol_error("insufficient data left in message")
}

impl<'a> Reader<'a> {
    pub fn new(body: &'a [u8]) -> Self {
        Reader { rest: body }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or_else(short)?;
        self.rest = rest;
        Ok(head)
    }

    pub fn u8(&mut self) -> Result<u8> {
        let none = || Error::protocol_error("no data left in message");
        let (&byte, rest) = self.rest.split_first().ok_or_else(none)?;
        self.rest = rest;
        Ok(byte)
    }

    pub fn i16(&mut self) -> Result<i16> {
        let (bytes, rest) = self.rest.split_first_chunk::<2>().ok_or_else(short)?;
        self.rest = rest;
        Ok(i16::from_be_bytes(*bytes))
    }

    /// A count of items: PostgreSQL reads it as 16 bits without sign.
    pub fn count(&mut self) -> Result<usize> {
        Ok(usize::from(self.i16()? as u16))
    }

    pub fn i32(&mut self) -> Result<i32> {
        let (bytes, rest) = self.rest.split_first_chunk::<4>().ok_or_else(short)?;
        self.rest = rest;
        Ok(i32::from_be_bytes(*bytes))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(self.i32()? as u32)
    }

    /// The bytes up to a NUL, which is passed over.
    pub fn cstr(&mut self) -> Result<&'a [u8]> {
        let end =
            self.rest.iter().position(|&b| b == 0).ok_or_else(|| Error::protocol_error("invalid string in message"))?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(text)
    }

    /// A length of four bytes and that many bytes; -1 is NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            n => Ok(Some(self.take(usize::try_from(n).map_err(|_| short())?)?)),
        }
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::protocol_error("invalid message format")) }
    }
}

/// The columns of a DataRow's body.
pub fn row_values(body: &[u8]) -> Result<Vec<Option<&[u8]>>> {
    let mut reader = Reader::new(body);
    let count = reader.count()?;
    let mut values = Vec::with_capacity(count.min(1_600));
    for _ in 0..count {
        values.push(reader.value()?);
    }
    Ok(values)
}
