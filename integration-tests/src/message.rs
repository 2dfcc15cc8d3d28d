//! Backend messages, decoded for tests, and frontend messages, built from their parts.

use std::fmt::Write;

/// One message from the server. `Closed` stands for the end of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    Authentication { method: i32, rest: Vec<u8> },
    ParameterStatus { name: String, value: String },
    BackendKeyData { process: i32, secret: Vec<u8> },
    ReadyForQuery { status: char },
    RowDescription(Vec<Column>),
    DataRow(Vec<Option<Vec<u8>>>),
    CommandComplete { tag: String },
    EmptyQueryResponse,
    ParseComplete,
    BindComplete,
    CloseComplete,
    NoData,
    PortalSuspended,
    ParameterDescription(Vec<u32>),
    ErrorResponse(Fields),
    NoticeResponse(Fields),
    CopyInResponse { format: u8, columns: Vec<i16> },
    CopyOutResponse { format: u8, columns: Vec<i16> },
    CopyData(Vec<u8>),
    CopyDone,
    NegotiateProtocolVersion { version: i32, options: Vec<String> },
    FunctionCallResponse(Option<Vec<u8>>),
    NotificationResponse { process: i32, channel: String, payload: String },
    Unknown(u8, Vec<u8>),
    Closed,
}

/// One field of a RowDescription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub table: u32,
    pub attribute: i16,
    pub type_oid: u32,
    pub type_size: i16,
    pub type_modifier: i32,
    pub format: i16,
}

/// The fields of an ErrorResponse or NoticeResponse, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(char, String)>);

impl Fields {
    pub fn get(&self, code: char) -> &str {
        self.0.iter().find(|(c, _)| *c == code).map_or("", |(_, v)| v)
    }

    pub fn sqlstate(&self) -> &str {
        self.get('C')
    }

    pub fn message(&self) -> &str {
        self.get('M')
    }
}

impl Message {
    /// The name in PostgreSQL's documentation.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Authentication { method, .. } => match method {
                0 => "AuthenticationOk",
                3 => "AuthenticationCleartextPassword",
                5 => "AuthenticationMD5Password",
                10 => "AuthenticationSASL",
                11 => "AuthenticationSASLContinue",
                12 => "AuthenticationSASLFinal",
                _ => "Authentication",
            },
            Message::ParameterStatus { .. } => "ParameterStatus",
            Message::BackendKeyData { .. } => "BackendKeyData",
            Message::ReadyForQuery { .. } => "ReadyForQuery",
            Message::RowDescription(_) => "RowDescription",
            Message::DataRow(_) => "DataRow",
            Message::CommandComplete { .. } => "CommandComplete",
            Message::EmptyQueryResponse => "EmptyQueryResponse",
            Message::ParseComplete => "ParseComplete",
            Message::BindComplete => "BindComplete",
            Message::CloseComplete => "CloseComplete",
            Message::NoData => "NoData",
            Message::PortalSuspended => "PortalSuspended",
            Message::ParameterDescription(_) => "ParameterDescription",
            Message::ErrorResponse(_) => "ErrorResponse",
            Message::NoticeResponse(_) => "NoticeResponse",
            Message::CopyInResponse { .. } => "CopyInResponse",
            Message::CopyOutResponse { .. } => "CopyOutResponse",
            Message::CopyData(_) => "CopyData",
            Message::CopyDone => "CopyDone",
            Message::NegotiateProtocolVersion { .. } => "NegotiateProtocolVersion",
            Message::FunctionCallResponse(_) => "FunctionCallResponse",
            Message::NotificationResponse { .. } => "NotificationResponse",
            Message::Unknown(..) => "Unknown",
            Message::Closed => "Closed",
        }
    }

    /// Decodes one whole message. Panics when the server broke the protocol: that is what the tests look for.
    pub fn decode(kind: u8, body: &[u8]) -> Message {
        let mut r = Reader { rest: body };
        let message = match kind {
            b'R' => Message::Authentication { method: r.i32(), rest: r.all() },
            b'S' => Message::ParameterStatus { name: r.string(), value: r.string() },
            b'K' => Message::BackendKeyData { process: r.i32(), secret: r.all() },
            b'Z' => Message::ReadyForQuery { status: char::from(r.u8()) },
            b'T' => Message::RowDescription(columns(&mut r)),
            b'D' => Message::DataRow(values(&mut r)),
            b'C' => Message::CommandComplete { tag: r.string() },
            b'I' => Message::EmptyQueryResponse,
            b'1' => Message::ParseComplete,
            b'2' => Message::BindComplete,
            b'3' => Message::CloseComplete,
            b'n' => Message::NoData,
            b's' => Message::PortalSuspended,
            b't' => {
                let count = r.i16();
                Message::ParameterDescription((0..count).map(|_| r.i32() as u32).collect())
            }
            b'E' => Message::ErrorResponse(fields(&mut r)),
            b'N' => Message::NoticeResponse(fields(&mut r)),
            b'G' => copy(&mut r, |format, columns| Message::CopyInResponse { format, columns }),
            b'H' => copy(&mut r, |format, columns| Message::CopyOutResponse { format, columns }),
            b'd' => Message::CopyData(r.all()),
            b'c' => Message::CopyDone,
            b'v' => {
                let version = r.i32();
                let count = r.i32();
                let options = (0..count).map(|_| r.string()).collect();
                Message::NegotiateProtocolVersion { version, options }
            }
            b'V' => Message::FunctionCallResponse(match r.i32() {
                -1 => None,
                length => Some(r.take(usize::try_from(length).expect("a value's length")).to_vec()),
            }),
            b'A' => {
                let process = r.i32();
                Message::NotificationResponse { process, channel: r.string(), payload: r.string() }
            }
            _ => Message::Unknown(kind, r.all()),
        };
        assert!(r.rest.is_empty(), "{} bytes left over after {message:?}", r.rest.len());
        message
    }
}

fn columns(r: &mut Reader<'_>) -> Vec<Column> {
    let count = r.i16();
    (0..count)
        .map(|_| Column {
            name: r.string(),
            table: r.i32() as u32,
            attribute: r.i16(),
            type_oid: r.i32() as u32,
            type_size: r.i16(),
            type_modifier: r.i32(),
            format: r.i16(),
        })
        .collect()
}

fn values(r: &mut Reader<'_>) -> Vec<Option<Vec<u8>>> {
    let count = r.i16();
    (0..count)
        .map(|_| match r.i32() {
            -1 => None,
            length => Some(r.take(usize::try_from(length).expect("a value's length")).to_vec()),
        })
        .collect()
}

fn fields(r: &mut Reader<'_>) -> Fields {
    let mut out = Vec::new();
    loop {
        match r.u8() {
            0 => return Fields(out),
            code => out.push((char::from(code), r.string())),
        }
    }
}

fn copy(r: &mut Reader<'_>, make: fn(u8, Vec<i16>) -> Message) -> Message {
    let format = r.u8();
    let count = r.i16();
    let columns = (0..count).map(|_| r.i16()).collect();
    make(format, columns)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        assert!(count <= self.rest.len(), "a message of the server ends early");
        let (head, tail) = self.rest.split_at(count);
        self.rest = tail;
        head
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn string(&mut self) -> String {
        let end = self.rest.iter().position(|b| *b == 0).expect("a string's end");
        let text = String::from_utf8_lossy(self.take(end)).into_owned();
        self.take(1);
        text
    }

    fn all(&mut self) -> Vec<u8> {
        self.take(self.rest.len()).to_vec()
    }
}

/// A frontend message: type byte, length, body.
pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// Bytes up to and with the closing NUL.
pub fn cstring(text: &str) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    out.push(0);
    out
}

pub fn query(sql: &str) -> Vec<u8> {
    frame(b'Q', &cstring(sql))
}

pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = cstring(name);
    body.extend(cstring(sql));
    body.extend((types.len() as i16).to_be_bytes());
    types.iter().for_each(|t| body.extend(t.to_be_bytes()));
    frame(b'P', &body)
}

/// `parameter_formats` and `result_formats` as the protocol has them: none, one for all, or one each.
pub fn bind(
    portal: &str,
    statement: &str,
    parameter_formats: &[i16],
    values: &[Option<Vec<u8>>],
    result_formats: &[i16],
) -> Vec<u8> {
    let mut body = cstring(portal);
    body.extend(cstring(statement));
    body.extend((parameter_formats.len() as i16).to_be_bytes());
    parameter_formats.iter().for_each(|f| body.extend(f.to_be_bytes()));
    body.extend((values.len() as i16).to_be_bytes());
    for value in values {
        match value {
            None => body.extend((-1i32).to_be_bytes()),
            Some(v) => {
                body.extend((v.len() as i32).to_be_bytes());
                body.extend(v);
            }
        }
    }
    body.extend((result_formats.len() as i16).to_be_bytes());
    result_formats.iter().for_each(|f| body.extend(f.to_be_bytes()));
    frame(b'B', &body)
}

/// `what` is `S` for a statement, `P` for a portal.
pub fn describe(what: u8, name: &str) -> Vec<u8> {
    frame(b'D', &[vec![what], cstring(name)].concat())
}

pub fn execute(portal: &str, rows: i32) -> Vec<u8> {
    frame(b'E', &[cstring(portal), rows.to_be_bytes().to_vec()].concat())
}

pub fn close(what: u8, name: &str) -> Vec<u8> {
    frame(b'C', &[vec![what], cstring(name)].concat())
}

/// Calls a function by its number; arguments and result are binary.
pub fn function_call(function: u32, arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut body = function.to_be_bytes().to_vec();
    body.extend([0, 1, 0, 1]);
    body.extend((arguments.len() as i16).to_be_bytes());
    for argument in arguments {
        body.extend((argument.len() as i32).to_be_bytes());
        body.extend(argument);
    }
    body.extend(1_i16.to_be_bytes());
    frame(b'F', &body)
}

pub fn sync() -> Vec<u8> {
    frame(b'S', b"")
}

pub fn flush() -> Vec<u8> {
    frame(b'H', b"")
}

pub fn terminate() -> Vec<u8> {
    frame(b'X', b"")
}

/// A startup packet; `version` is 0x0003_0000 for protocol 3.0.
pub fn startup(version: i32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend(cstring(name));
        body.extend(cstring(value));
    }
    body.push(0);
    let mut out = (body.len() as i32 + 4).to_be_bytes().to_vec();
    out.extend(body);
    out
}

/// Bytes as a person reads them: text where they are text, else hexadecimal after `\x`.
pub fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') => text.to_string(),
        _ => bytes.iter().fold(String::from("\\x"), |mut out, b| {
            let _ = write!(out, "{b:02x}");
            out
        }),
    }
}
