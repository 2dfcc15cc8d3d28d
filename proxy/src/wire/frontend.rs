//! The client's messages that we route on, as checked views of a body; and the same messages built for servers.

use crate::error::Error;
use crate::error::Result;
use crate::wire::Tag;
use crate::wire::read::Reader;
use bytes::BufMut;
use bytes::BytesMut;

pub const BIND: Tag = b'B';
pub const CLOSE: Tag = b'C';
pub const COPY_DATA: Tag = b'd';
pub const COPY_DONE: Tag = b'c';
pub const COPY_FAIL: Tag = b'f';
pub const DESCRIBE: Tag = b'D';
pub const EXECUTE: Tag = b'E';
pub const FLUSH: Tag = b'H';
pub const FUNCTION_CALL: Tag = b'F';
pub const PARSE: Tag = b'P';
pub const PASSWORD: Tag = b'p';
pub const QUERY: Tag = b'Q';
pub const SYNC: Tag = b'S';
pub const TERMINATE: Tag = b'X';

/// Whether a client may send a message of this type after its login (SocketBackend in postgres.c).
pub fn is_known(tag: Tag) -> bool {
    matches!(
        tag,
        BIND | CLOSE
            | COPY_DATA
            | COPY_DONE
            | COPY_FAIL
            | DESCRIBE
            | EXECUTE
            | FLUSH
            | FUNCTION_CALL
            | PARSE
            | QUERY
            | SYNC
            | TERMINATE
    )
}

/// Whether PostgreSQL takes only short messages of this type.
pub fn is_short(tag: Tag) -> bool {
    matches!(tag, CLOSE | COPY_DONE | COPY_FAIL | DESCRIBE | EXECUTE | FLUSH | SYNC | TERMINATE)
}

/// The text of a Query message, without its NUL.
pub fn query(body: &[u8]) -> Result<&[u8]> {
    let mut reader = Reader::new(body);
    let text = reader.cstr()?;
    reader.end()?;
    Ok(text)
}

#[derive(Debug)]
pub struct Parse<'a> {
    pub name: &'a [u8],
    pub text: &'a [u8],
    pub types: Vec<u32>,
}

impl<'a> Parse<'a> {
    pub fn decode(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let name = reader.cstr()?;
        let text = reader.cstr()?;
        let count = reader.count()?;
        let mut types = Vec::with_capacity(count.min(1_024));
        for _ in 0..count {
            types.push(reader.u32()?);
        }
        reader.end()?;
        Ok(Parse { name, text, types })
    }
}

/// A Bind message. Parameter values stay where they are: `params` holds ranges of the body.
#[derive(Debug)]
pub struct Bind<'a> {
    pub portal: &'a [u8],
    pub statement: &'a [u8],
    formats: &'a [u8],
    params: Vec<Option<&'a [u8]>>,
    result_formats: &'a [u8],
    /// Everything behind the two names.
    pub tail: &'a [u8],
}

impl<'a> Bind<'a> {
    pub fn decode(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let portal = reader.cstr()?;
        let statement = reader.cstr()?;
        let tail = reader.rest();
        let count = reader.count()?;
        let formats = reader.take(count * 2)?;
        let count = reader.count()?;
        let mut params = Vec::with_capacity(count.min(1_024));
        for _ in 0..count {
            params.push(reader.value()?);
        }
        let count = reader.count()?;
        let result_formats = reader.take(count * 2)?;
        reader.end()?;
        Ok(Bind { portal, statement, formats, params, result_formats, tail })
    }

    pub fn params(&self) -> &[Option<&'a [u8]>] {
        &self.params
    }

    pub fn format_count(&self) -> usize {
        self.formats.len() / 2
    }

    /// The format code of the parameter with this index: none given is text, one given is for all.
    pub fn format(&self, index: usize) -> i16 {
        format_at(self.formats, index)
    }

    /// The result formats as they stand, two bytes each.
    pub fn result_formats(&self) -> &'a [u8] {
        self.result_formats
    }

    pub fn result_format_count(&self) -> usize {
        self.result_formats.len() / 2
    }

    pub fn result_format(&self, index: usize) -> i16 {
        format_at(self.result_formats, index)
    }
}

/// One of some format codes of two bytes each: of none all are 0, one is for all.
pub fn format_at(codes: &[u8], index: usize) -> i16 {
    let index = if codes.len() == 2 { 0 } else { index };
    codes.get(index * 2..).and_then(|c| c.first_chunk::<2>()).map_or(0, |c| i16::from_be_bytes(*c))
}

/// What Describe and Close name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object<'a> {
    Statement(&'a [u8]),
    Portal(&'a [u8]),
}

impl<'a> Object<'a> {
    pub fn name(&self) -> &'a [u8] {
        match self {
            Object::Statement(name) | Object::Portal(name) => name,
        }
    }
}

/// The body of Describe or Close; `message` is which, for the error.
///
/// # Errors
/// 08P01
pub fn object<'a>(body: &'a [u8], message: &str) -> Result<Object<'a>> {
    let mut reader = Reader::new(body);
    let kind = reader.u8()?;
    let name = reader.cstr()?;
    reader.end()?;
    match kind {
        b'S' => Ok(Object::Statement(name)),
        b'P' => Ok(Object::Portal(name)),
        _ => Err(Error::protocol_error(format!("invalid {message} message subtype {kind}"))),
    }
}

#[derive(Debug)]
pub struct Execute<'a> {
    pub portal: &'a [u8],
    /// 0: all rows.
    pub max_rows: i32,
}

impl<'a> Execute<'a> {
    pub fn decode(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let portal = reader.cstr()?;
        let max_rows = reader.i32()?;
        reader.end()?;
        Ok(Execute { portal, max_rows })
    }
}

/// Appends a frame whose body `fill` writes; the length is patched in afterwards.
pub fn frame(out: &mut BytesMut, tag: Tag, fill: impl FnOnce(&mut BytesMut)) {
    out.put_u8(tag);
    let at = out.len();
    out.put_u32(0);
    fill(out);
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    if let Some(word) = out.get_mut(at..at + 4) {
        word.copy_from_slice(&length.to_be_bytes());
    }
}

fn put_cstr(out: &mut BytesMut, text: &[u8]) {
    out.put_slice(text);
    out.put_u8(0);
}

pub fn put_query(out: &mut BytesMut, text: &[u8]) {
    frame(out, QUERY, |b| put_cstr(b, text));
}

pub fn put_parse(out: &mut BytesMut, name: &[u8], text: &[u8], types: &[u32]) {
    frame(out, PARSE, |b| {
        put_cstr(b, name);
        put_cstr(b, text);
        b.put_u16(u16::try_from(types.len()).unwrap_or(u16::MAX));
        for &oid in types {
            b.put_u32(oid);
        }
    });
}

/// A Bind whose part behind the names is given (see [`Bind::tail`]).
pub fn put_bind(out: &mut BytesMut, portal: &[u8], statement: &[u8], tail: &[u8]) {
    frame(out, BIND, |b| {
        put_cstr(b, portal);
        put_cstr(b, statement);
        b.put_slice(tail);
    });
}

/// The tail of a Bind without parameters whose results all come as text.
pub const NO_PARAMETERS: &[u8] = &[0, 0, 0, 0, 0, 0];

pub fn put_describe_statement(out: &mut BytesMut, name: &[u8]) {
    frame(out, DESCRIBE, |b| {
        b.put_u8(b'S');
        put_cstr(b, name);
    });
}

pub fn put_describe_portal(out: &mut BytesMut, name: &[u8]) {
    frame(out, DESCRIBE, |b| {
        b.put_u8(b'P');
        put_cstr(b, name);
    });
}

pub fn put_execute(out: &mut BytesMut, portal: &[u8], max_rows: i32) {
    frame(out, EXECUTE, |b| {
        put_cstr(b, portal);
        b.put_i32(max_rows);
    });
}

pub fn put_close_statement(out: &mut BytesMut, name: &[u8]) {
    frame(out, CLOSE, |b| {
        b.put_u8(b'S');
        put_cstr(b, name);
    });
}

pub fn put_close_portal(out: &mut BytesMut, name: &[u8]) {
    frame(out, CLOSE, |b| {
        b.put_u8(b'P');
        put_cstr(b, name);
    });
}

pub fn put_empty(out: &mut BytesMut, tag: Tag) {
    frame(out, tag, |_| {});
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bind_is_read_as_it_was_built() {
        let mut tail = BytesMut::new();
        tail.put_u16(1);
        tail.put_u16(1);
        tail.put_u16(2);
        tail.put_i32(-1);
        tail.put_i32(3);
        tail.put_slice(b"abc");
        tail.put_u16(2);
        tail.put_u16(0);
        tail.put_u16(1);
        let mut out = BytesMut::new();
        put_bind(&mut out, b"p", b"s", &tail);
        let bind = Bind::decode(out.get(5..).unwrap()).unwrap();
        assert_eq!((bind.portal, bind.statement), (&b"p"[..], &b"s"[..]));
        assert_eq!(bind.params(), &[None, Some(&b"abc"[..])]);
        assert_eq!((bind.format(0), bind.format(1)), (1, 1));
        assert_eq!((bind.result_format(0), bind.result_format(1)), (0, 1));
        assert_eq!(bind.tail, &tail[..]);
    }

    #[test]
    fn what_is_left_over_is_refused() {
        assert!(query(b"SELECT 1").is_err());
        assert!(query(b"SELECT 1\0x").is_err());
        assert!(Execute::decode(b"p\0\0\0\0\0\0").is_err());
        assert!(Bind::decode(b"\0\0\0\0\0\x01\0\0\0\x09ab").is_err());
        assert!(object(b"Xa\0", "CLOSE").is_err());
    }

    proptest! {
        #[test]
        fn no_body_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = query(&body);
            let _ = Parse::decode(&body);
            let _ = Bind::decode(&body);
            let _ = object(&body, "CLOSE");
            let _ = Execute::decode(&body);
        }
    }
}
