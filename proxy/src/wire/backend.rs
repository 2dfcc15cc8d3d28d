//! The server's messages: views of those that we look into, and building those that we send ourselves.

use crate::error::Error;
use crate::error::Result;
use crate::error::Severity;
use crate::error::SqlState;
use crate::error::codes;
use crate::value::Oid;
use crate::wire::Status;
use crate::wire::Tag;
use crate::wire::frontend::frame;
use crate::wire::read::Reader;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;

pub const AUTHENTICATION: Tag = b'R';
pub const BACKEND_KEY_DATA: Tag = b'K';
pub const BIND_COMPLETE: Tag = b'2';
pub const CLOSE_COMPLETE: Tag = b'3';
pub const COMMAND_COMPLETE: Tag = b'C';
pub const COPY_BOTH: Tag = b'W';
pub const COPY_DATA: Tag = b'd';
pub const COPY_DONE: Tag = b'c';
pub const COPY_IN: Tag = b'G';
pub const COPY_OUT: Tag = b'H';
pub const DATA_ROW: Tag = b'D';
pub const EMPTY_QUERY: Tag = b'I';
pub const ERROR: Tag = b'E';
pub const NEGOTIATE: Tag = b'v';
pub const NO_DATA: Tag = b'n';
pub const NOTICE: Tag = b'N';
pub const NOTIFICATION: Tag = b'A';
pub const PARAMETER_DESCRIPTION: Tag = b't';
pub const PARAMETER_STATUS: Tag = b'S';
pub const PARSE_COMPLETE: Tag = b'1';
pub const PORTAL_SUSPENDED: Tag = b's';
pub const READY: Tag = b'Z';
pub const ROW_DESCRIPTION: Tag = b'T';

/// Messages that a server may send at any time, beside the answer to anything.
pub fn is_asynchronous(tag: Tag) -> bool {
    matches!(tag, NOTICE | PARAMETER_STATUS | NOTIFICATION)
}

/// One column of a RowDescription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: Bytes,
    pub table: Oid,
    pub attribute: i16,
    pub type_oid: Oid,
    pub type_length: i16,
    pub type_modifier: i32,
    pub format: i16,
}

/// The columns of a RowDescription's body.
pub fn row_description(body: &[u8]) -> Result<Vec<Field>> {
    let mut reader = Reader::new(body);
    let count = reader.count()?;
    let mut fields = Vec::with_capacity(count.min(1_664));
    for _ in 0..count {
        fields.push(Field {
            name: Bytes::copy_from_slice(reader.cstr()?),
            table: reader.u32()?,
            attribute: reader.i16()?,
            type_oid: reader.u32()?,
            type_length: reader.i16()?,
            type_modifier: reader.i32()?,
            format: reader.i16()?,
        });
    }
    reader.end()?;
    Ok(fields)
}

pub fn put_row_description(out: &mut BytesMut, fields: &[Field]) {
    frame(out, ROW_DESCRIPTION, |b| {
        b.put_u16(u16::try_from(fields.len()).unwrap_or(u16::MAX));
        for f in fields {
            b.put_slice(&f.name);
            b.put_u8(0);
            b.put_u32(f.table);
            b.put_i16(f.attribute);
            b.put_u32(f.type_oid);
            b.put_i16(f.type_length);
            b.put_i32(f.type_modifier);
            b.put_i16(f.format);
        }
    });
}

/// A text column that we make ourselves.
pub fn text_field(name: &str) -> Field {
    Field {
        name: Bytes::copy_from_slice(name.as_bytes()),
        table: 0,
        attribute: 0,
        type_oid: crate::value::oid::TEXT,
        type_length: -1,
        type_modifier: -1,
        format: 0,
    }
}

/// A DataRow of text values.
pub fn put_text_row(out: &mut BytesMut, values: &[Option<&str>]) {
    frame(out, DATA_ROW, |b| {
        b.put_u16(u16::try_from(values.len()).unwrap_or(u16::MAX));
        for v in values {
            match v {
                None => b.put_i32(-1),
                Some(v) => {
                    b.put_i32(i32::try_from(v.len()).unwrap_or(i32::MAX));
                    b.put_slice(v.as_bytes());
                }
            }
        }
    });
}

pub fn parameter_description(body: &[u8]) -> Result<Vec<Oid>> {
    let mut reader = Reader::new(body);
    let count = reader.count()?;
    let mut types = Vec::with_capacity(count.min(1_024));
    for _ in 0..count {
        types.push(reader.u32()?);
    }
    reader.end()?;
    Ok(types)
}

pub fn put_parameter_description(out: &mut BytesMut, types: &[Oid]) {
    frame(out, PARAMETER_DESCRIPTION, |b| {
        b.put_u16(u16::try_from(types.len()).unwrap_or(u16::MAX));
        for &t in types {
            b.put_u32(t);
        }
    });
}

pub fn parameter_status(body: &[u8]) -> Result<(&[u8], &[u8])> {
    let mut reader = Reader::new(body);
    let name = reader.cstr()?;
    let value = reader.cstr()?;
    reader.end()?;
    Ok((name, value))
}

pub fn put_parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    frame(out, PARAMETER_STATUS, |b| {
        for text in [name, value] {
            b.put_slice(text.as_bytes());
            b.put_u8(0);
        }
    });
}

pub fn ready_status(body: &[u8]) -> Result<Status> {
    match body {
        [byte] => Status::from_byte(*byte).ok_or_else(|| Error::protocol("invalid transaction status from server")),
        _ => Err(Error::protocol("invalid ReadyForQuery from server")),
    }
}

pub fn put_ready(out: &mut BytesMut, status: Status) {
    out.put_slice(&[READY, 0, 0, 0, 5, status.byte()]);
}

pub fn put_command_complete(out: &mut BytesMut, tag: &str) {
    frame(out, COMMAND_COMPLETE, |b| {
        b.put_slice(tag.as_bytes());
        b.put_u8(0);
    });
}

/// A message with a type and no body: ParseComplete and its like.
pub fn put_bare(out: &mut BytesMut, tag: Tag) {
    out.put_slice(&[tag, 0, 0, 0, 4]);
}

pub fn put_backend_key(out: &mut BytesMut, pid: i32, secret: &[u8]) {
    frame(out, BACKEND_KEY_DATA, |b| {
        b.put_i32(pid);
        b.put_slice(secret);
    });
}

/// NegotiateProtocolVersion: the newest version that we speak, and the options that we do not know.
pub fn put_negotiate(out: &mut BytesMut, version: u32, options: &[String]) {
    frame(out, NEGOTIATE, |b| {
        b.put_u32(version);
        b.put_u32(u32::try_from(options.len()).unwrap_or(u32::MAX));
        for o in options {
            b.put_slice(o.as_bytes());
            b.put_u8(0);
        }
    });
}

pub fn put_authentication(out: &mut BytesMut, code: i32, data: &[u8]) {
    frame(out, AUTHENTICATION, |b| {
        b.put_i32(code);
        b.put_slice(data);
    });
}

/// An ErrorResponse; what a server wrote goes out as the server wrote it.
pub fn put_error(out: &mut BytesMut, error: &Error) {
    if let Some(raw) = &error.raw {
        return frame(out, ERROR, |b| b.put_slice(raw));
    }
    let severity = match error.severity {
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
    };
    put_fields(out, ERROR, severity, error);
}

/// A warning or notice of our own.
pub fn put_notice(out: &mut BytesMut, severity: &str, notice: &Error) {
    put_fields(out, NOTICE, severity, notice);
}

fn put_fields(out: &mut BytesMut, tag: Tag, severity: &str, error: &Error) {
    let position = error.position.map(|p| p.to_string());
    frame(out, tag, |b| {
        let mut field = |code: u8, text: Option<&str>| {
            if let Some(text) = text {
                b.put_u8(code);
                // A NUL would end the field early.
                b.put_slice(text.replace('\0', " ").as_bytes());
                b.put_u8(0);
            }
        };
        field(b'S', Some(severity));
        field(b'V', Some(severity));
        field(b'C', Some(error.code.as_str()));
        field(b'M', Some(&error.message));
        field(b'D', error.detail.as_deref());
        field(b'H', error.hint.as_deref());
        field(b'P', position.as_deref());
        // PostgreSQL never leaves these out; they tell whose error it is.
        field(b'F', Some("shardway"));
        field(b'L', Some("0"));
        field(b'R', Some(error.routine.map_or("shardway", crate::error::Routine::name)));
        b.put_u8(0);
    });
}

/// The error in an ErrorResponse's body, with the bytes kept.
pub fn error(body: &[u8]) -> Error {
    let mut result = Error::new(codes::INTERNAL, "");
    let mut reader = Reader::new(body);
    while let Ok(code) = reader.u8() {
        if code == 0 {
            break;
        }
        let Ok(text) = reader.cstr() else { break };
        let text = || String::from_utf8_lossy(text).into_owned();
        match code {
            b'C' => {
                if let Ok(state) = <[u8; 5]>::try_from(text().as_bytes()) {
                    result.code = SqlState(state);
                }
            }
            b'V' if matches!(text().as_str(), "FATAL" | "PANIC") => result.severity = Severity::Fatal,
            b'M' => result.message = text().into(),
            b'D' => result.detail = Some(text().into()),
            b'H' => result.hint = Some(text().into()),
            b'P' => result.position = text().parse().ok(),
            _ => {}
        }
    }
    result.raw = Some(Bytes::copy_from_slice(body));
    result
}

/// An error whose place counts from `by` characters before: it is about a part of a text. What a server wrote stays as
/// it is otherwise.
pub fn moved(error: Error, by: u32) -> Error {
    match error.position.filter(|_| by > 0) {
        Some(position) => placed(error, Some(position.saturating_add(by))),
        None => error,
    }
}

/// An error that a server tells of a text of ours: its place means nothing to the client.
pub fn without_position(error: Error) -> Error {
    if error.raw.is_some() { placed(error, None) } else { error }
}

/// An error with another place, or with none at all; also where what a server wrote tells it.
fn placed(mut error: Error, position: Option<u32>) -> Error {
    error.position = position;
    let Some(raw) = error.raw.take() else { return error };
    let mut reader = Reader::new(&raw);
    let mut out = BytesMut::with_capacity(raw.len() + 2);
    while let (Ok(code @ 1..), Ok(field)) = (reader.u8(), reader.cstr()) {
        if matches!(code, b'P' | b'p') && position.is_none() {
            continue;
        }
        out.put_u8(code);
        match position {
            Some(position) if code == b'P' => out.put_slice(position.to_string().as_bytes()),
            _ => out.put_slice(field),
        }
        out.put_u8(0);
    }
    out.put_u8(0);
    error.raw = Some(out.freeze());
    error
}

/// Whether a client can read a message that is passed on as it came: errors and notices with the fields that PostgreSQL
/// always gives, tags that end, descriptions of as many columns as they say. Rows are not looked into.
pub fn is_whole(tag: Tag, body: &[u8]) -> bool {
    match tag {
        ERROR | NOTICE => has_fields(body),
        COMMAND_COMPLETE => body.len() > 1 && body.last() == Some(&0),
        ROW_DESCRIPTION => describes_columns(body).is_ok(),
        READY => body.len() == 1,
        _ => true,
    }
}

fn has_fields(body: &[u8]) -> bool {
    let mut reader = Reader::new(body);
    let (mut code, mut message) = (false, false);
    while let Ok(field) = reader.u8() {
        if field == 0 {
            return code && message && reader.end().is_ok();
        }
        let Ok(text) = reader.cstr() else { return false };
        code |= field == b'C' && text.len() == 5;
        message |= field == b'M';
    }
    false
}

fn describes_columns(body: &[u8]) -> Result<()> {
    /// What follows a column's name: table, attribute, type, length, modifier, format.
    const REST: usize = 4 + 2 + 4 + 2 + 4 + 2;
    let mut reader = Reader::new(body);
    for _ in 0..reader.count()? {
        reader.cstr()?;
        reader.take(REST)?;
    }
    reader.end()
}

/// 08P01, for a message of a server that is not [whole](is_whole).
pub fn malformed(tag: Tag) -> Error {
    Error::protocol_error(format!("a server has sent a malformed message of type '{}'", char::from(tag)))
}

/// The number at the end of a command tag: rows of `SELECT 5`, `INSERT 0 5`, `UPDATE 5`.
pub fn tag_rows(tag: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(tag).ok()?.trim_end_matches('\0');
    text.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_error_is_read_as_it_was_built() {
        let mut out = BytesMut::new();
        put_error(&mut out, &Error::unsupported("window functions").hint("Use a key.").at(7));
        let back = error(out.get(5..).unwrap());
        assert_eq!((back.code, &*back.message, back.position), (codes::NOT_SUPPORTED, "window functions", Some(7)));
        assert_eq!(back.hint.as_deref(), Some("Use a key."));
    }

    #[test]
    fn a_place_moves_and_the_rest_stays() {
        let raw = b"SERROR\0C42703\0Mno such column\0P8\0Fparse.c\0\0";
        let own = moved(error(raw), 10);
        assert_eq!(own.position, Some(18));
        assert_eq!(own.raw.clone().unwrap(), &b"SERROR\0C42703\0Mno such column\0P18\0Fparse.c\0\0"[..]);
        assert_eq!(moved(error(raw), 0).raw.clone().unwrap(), &raw[..]);
        assert_eq!(moved(error(b"SERROR\0C22012\0Mdivision\0\0"), 5).position, None);
    }

    #[test]
    fn tags_count_rows() {
        assert_eq!(tag_rows(b"SELECT 12\0"), Some(12));
        assert_eq!(tag_rows(b"INSERT 0 3"), Some(3));
        assert_eq!(tag_rows(b"BEGIN"), None);
    }

    proptest! {
        #[test]
        fn no_body_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = row_description(&body);
            let _ = parameter_description(&body);
            let _ = parameter_status(&body);
            let _ = error(&body);
            let _ = crate::wire::read::row_values(&body);
        }
    }
}
