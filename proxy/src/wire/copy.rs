//! The data of COPY … FROM STDIN, cut into rows, and the fields of a row: as copyfromparse.c reads them.
//!
//! A row's bytes are never changed. What PostgreSQL would refuse is not judged here: such a row is `foul`, and a server
//! that is given it says what is wrong.

use bytes::BytesMut;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Csv,
    Binary,
}

/// The options that decide where rows and fields end and what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub format: Format,
    pub delimiter: u8,
    /// How NULL is written (text and csv).
    pub null: Vec<u8>,
    pub quote: u8,
    pub escape: u8,
    /// The first line is no row.
    pub header: bool,
}

impl Shape {
    /// PostgreSQL's defaults for a format.
    pub fn of(format: Format) -> Shape {
        let csv = format == Format::Csv;
        Shape {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { Vec::new() } else { b"\\N".to_vec() },
            quote: b'"',
            escape: b'"',
            header: false,
        }
    }
}

/// A piece of the data.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    pub kind: Kind,
    pub bytes: BytesMut,
    /// Lines of text that it spans.
    pub lines: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The line of column names, or the binary header: every reader needs it.
    Header,
    Row,
    /// A row that PostgreSQL will refuse.
    Foul,
    /// The end marker `\.` or the binary trailer; what comes after it does not count.
    End,
}

/// How lines end, as the first one did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    Unknown,
    Newline,
    Return,
    Both,
}

/// The signature, flags and the length of the extension (copyto.c, BinarySignature).
pub const BINARY_HEADER: usize = 19;

/// Cuts a stream of any chunking.
#[derive(Debug)]
pub struct Cutter {
    shape: Shape,
    buffer: BytesMut,
    /// How much of the buffer has been looked at, and in what state that has left the line.
    at: usize,
    quoted: bool,
    escaped: bool,
    foul: bool,
    lines: u64,
    line_end: LineEnd,
    header: bool,
    ended: bool,
}

impl Cutter {
    pub fn new(shape: Shape) -> Cutter {
        let header = shape.header || shape.format == Format::Binary;
        Cutter {
            shape,
            buffer: BytesMut::new(),
            at: 0,
            quoted: false,
            escaped: false,
            foul: false,
            lines: 0,
            line_end: LineEnd::Unknown,
            header,
            ended: false,
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        if !self.ended {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Bytes of a row whose end has not come.
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// The next whole piece.
    pub fn next_cut(&mut self) -> Option<Cut> {
        match self.shape.format {
            _ if self.ended => None,
            Format::Binary => self.binary(),
            Format::Text | Format::Csv => self.line(false),
        }
    }

    /// What is left when the data have ended: a row without its end.
    pub fn last_cut(&mut self) -> Option<Cut> {
        if self.ended || self.buffer.is_empty() {
            return None;
        }
        if self.shape.format == Format::Binary {
            let bytes = self.buffer.split();
            return Some(Cut { kind: Kind::Foul, bytes, lines: 1 });
        }
        if let Some(cut) = self.line(true) {
            return Some(cut);
        }
        let length = self.buffer.len();
        Some(self.take(length))
    }

    /// A line of text: at a line end that is none of the file's, it goes on, but is foul.
    fn line(&mut self, complete: bool) -> Option<Cut> {
        let csv = self.shape.format == Format::Csv;
        let escape = if self.shape.quote == self.shape.escape { None } else { Some(self.shape.escape) };
        while let Some(&byte) = self.buffer.get(self.at) {
            if csv {
                // CopyReadLineText: an escape counts only inside quotes, and a pair of them is none
                if byte == b'\\' && self.at == 0 && !self.quoted {
                    match self.marker(complete) {
                        Marker::Unknown => return None,
                        Marker::End(length) => return Some(self.end(length)),
                        Marker::No | Marker::Corrupt => {}
                    }
                }
                if self.quoted && Some(byte) == escape {
                    self.escaped = !self.escaped;
                }
                if byte == self.shape.quote && !self.escaped {
                    self.quoted = !self.quoted;
                }
                if Some(byte) != escape {
                    self.escaped = false;
                }
                if self.quoted {
                    let counts = if self.line_end == LineEnd::Newline { b'\n' } else { b'\r' };
                    self.lines += u64::from(byte == counts);
                    self.at += 1;
                    continue;
                }
            } else if byte == b'\\' {
                match self.marker(complete) {
                    Marker::Unknown => return None,
                    Marker::End(length) if self.at == 0 => return Some(self.end(length)),
                    Marker::End(length) => {
                        let before = self.at;
                        let cut = self.take(before + length);
                        self.ended = true;
                        return Some(cut);
                    }
                    Marker::Corrupt => self.foul = true,
                    Marker::No => {}
                }
                if self.at + 1 >= self.buffer.len() {
                    return None;
                }
                // the second character is data, whatever it is
                self.at += 2;
                continue;
            }
            match byte {
                b'\r' if matches!(self.line_end, LineEnd::Unknown | LineEnd::Both) => {
                    match self.buffer.get(self.at + 1) {
                        None if !complete => return None,
                        Some(b'\n') => {
                            self.line_end = LineEnd::Both;
                            return Some(self.take(self.at + 2));
                        }
                        _ if self.line_end == LineEnd::Unknown => {
                            self.line_end = LineEnd::Return;
                            return Some(self.take(self.at + 1));
                        }
                        _ => self.foul = true,
                    }
                }
                b'\r' if self.line_end == LineEnd::Return => return Some(self.take(self.at + 1)),
                b'\n' if matches!(self.line_end, LineEnd::Unknown | LineEnd::Newline) => {
                    self.line_end = LineEnd::Newline;
                    return Some(self.take(self.at + 1));
                }
                b'\r' | b'\n' => {
                    self.foul = true;
                    return Some(self.take(self.at + 1));
                }
                _ => {}
            }
            self.at += 1;
        }
        None
    }

    /// What a backslash at the present place begins.
    fn marker(&self, complete: bool) -> Marker {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        match rest {
            [_, b'.', b'\n', ..] if matches!(self.line_end, LineEnd::Unknown | LineEnd::Newline) => Marker::End(3),
            [_, b'.', b'\r', b'\n', ..] if matches!(self.line_end, LineEnd::Unknown | LineEnd::Both) => Marker::End(4),
            [_, b'.', b'\r', ..] if self.line_end == LineEnd::Return => Marker::End(3),
            [_, b'.'] if complete => Marker::End(2),
            [_] | [_, b'.'] | [_, b'.', b'\r'] if !complete => Marker::Unknown,
            [_, b'.', ..] => Marker::Corrupt,
            _ => Marker::No,
        }
    }

    fn end(&mut self, length: usize) -> Cut {
        self.ended = true;
        Cut { kind: Kind::End, bytes: self.buffer.split_to(length.min(self.buffer.len())), lines: 1 }
    }

    /// Takes a line of `length` bytes, line end and all.
    fn take(&mut self, length: usize) -> Cut {
        let foul = std::mem::take(&mut self.foul) || self.quoted;
        let kind = match (std::mem::take(&mut self.header), foul) {
            (true, _) => Kind::Header,
            (false, true) => Kind::Foul,
            (false, false) => Kind::Row,
        };
        let lines = std::mem::take(&mut self.lines) + 1;
        self.at = 0;
        self.quoted = false;
        self.escaped = false;
        Cut { kind, bytes: self.buffer.split_to(length.min(self.buffer.len())), lines }
    }

    fn binary(&mut self) -> Option<Cut> {
        if self.header {
            let extension = i32_at(&self.buffer, BINARY_HEADER - 4)?;
            let length = BINARY_HEADER + usize::try_from(extension).unwrap_or(0);
            if self.buffer.len() < length {
                return None;
            }
            self.header = false;
            return Some(Cut { kind: Kind::Header, bytes: self.buffer.split_to(length), lines: 0 });
        }
        let count = i16::from_be_bytes(*self.buffer.first_chunk::<2>()?);
        if count < 0 {
            self.ended = true;
            return Some(Cut { kind: Kind::End, bytes: self.buffer.split_to(2), lines: 0 });
        }
        let mut at = 2_usize;
        for _ in 0..count {
            let length = i32_at(&self.buffer, at)?;
            at = at.checked_add(4)?.checked_add(usize::try_from(length).unwrap_or(0))?;
        }
        if self.buffer.len() < at {
            return None;
        }
        Some(Cut { kind: Kind::Row, bytes: self.buffer.split_to(at), lines: 1 })
    }
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

enum Marker {
    No,
    /// It takes this many bytes.
    End(usize),
    Corrupt,
    /// More bytes are needed.
    Unknown,
}

/// One field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// `None`: NULL.
    pub value: Option<Vec<u8>>,
    /// It is, quotes and escapes aside, what NULL is written as (FORCE_NULL).
    pub like_null: bool,
}

/// The first `count` fields of a row; fewer if it has no more.
pub fn fields(shape: &Shape, row: &[u8], count: usize) -> Vec<Field> {
    match shape.format {
        Format::Text => text_fields(shape, without_line_end(row), count),
        Format::Csv => csv_fields(shape, without_line_end(row), count),
        Format::Binary => binary_fields(row, count),
    }
}

fn without_line_end(row: &[u8]) -> &[u8] {
    let row = row.strip_suffix(b"\n").unwrap_or(row);
    row.strip_suffix(b"\r").unwrap_or(row)
}

/// CopyReadAttributesText.
fn text_fields(shape: &Shape, row: &[u8], count: usize) -> Vec<Field> {
    let mut fields = Vec::with_capacity(count);
    let mut at = 0;
    while fields.len() < count {
        let start = at;
        let mut value = Vec::new();
        let mut more = false;
        let mut end = row.len();
        while let Some(&byte) = row.get(at) {
            at += 1;
            if byte == shape.delimiter {
                more = true;
                end = at - 1;
                break;
            }
            if byte != b'\\' {
                value.push(byte);
                continue;
            }
            let Some(&next) = row.get(at) else { break };
            if next == b'.' && row.get(at + 1).is_none_or(|b| matches!(b, b'\r' | b'\n')) {
                // the end marker behind the last field
                end = at - 1;
                at = row.len();
                break;
            }
            at += 1;
            match next {
                b'b' => value.push(0x08),
                b'f' => value.push(0x0c),
                b'n' => value.push(b'\n'),
                b'r' => value.push(b'\r'),
                b't' => value.push(b'\t'),
                b'v' => value.push(0x0b),
                b'0'..=b'7' => {
                    let mut code = u32::from(next - b'0');
                    for _ in 0..2 {
                        let Some(digit @ b'0'..=b'7') = row.get(at) else { break };
                        code = code * 8 + u32::from(digit - b'0');
                        at += 1;
                    }
                    value.push((code & 0xff) as u8);
                }
                b'x' => match hex(row, &mut at) {
                    Some(code) => value.push(code),
                    None => value.push(b'x'),
                },
                other => value.push(other),
            }
        }
        let raw = row.get(start..end).unwrap_or_default();
        let null = raw == shape.null;
        fields.push(Field { value: (!null).then_some(value), like_null: null });
        if !more {
            break;
        }
    }
    fields
}

/// One or two hexadecimal digits.
fn hex(row: &[u8], at: &mut usize) -> Option<u8> {
    let digit = |at: usize| row.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut code = digit(*at)?;
    *at += 1;
    if let Some(low) = digit(*at) {
        code = code * 16 + low;
        *at += 1;
    }
    u8::try_from(code).ok()
}

/// CopyReadAttributesCSV.
fn csv_fields(shape: &Shape, row: &[u8], count: usize) -> Vec<Field> {
    let mut fields = Vec::with_capacity(count);
    let mut at = 0;
    while fields.len() < count {
        let start = at;
        let mut value = Vec::new();
        let (mut more, mut saw_quote, mut quoted) = (false, false, false);
        let mut end = row.len();
        while let Some(&byte) = row.get(at) {
            at += 1;
            if !quoted {
                if byte == shape.delimiter {
                    more = true;
                    end = at - 1;
                    break;
                }
                if byte == shape.quote {
                    saw_quote = true;
                    quoted = true;
                    continue;
                }
            } else if byte == shape.escape
                && let Some(&next) = row.get(at)
                && (next == shape.escape || next == shape.quote)
            {
                value.push(next);
                at += 1;
                continue;
            } else if byte == shape.quote {
                quoted = false;
                continue;
            }
            value.push(byte);
        }
        let raw = row.get(start..end).unwrap_or_default();
        let null = !saw_quote && raw == shape.null;
        let like_null = null || value == shape.null;
        fields.push(Field { value: (!null).then_some(value), like_null });
        if !more {
            break;
        }
    }
    fields
}

fn binary_fields(row: &[u8], count: usize) -> Vec<Field> {
    let all = row.first_chunk::<2>().map_or(0, |n| i16::from_be_bytes(*n));
    let mut fields = Vec::new();
    let mut at = 2;
    for _ in 0..count.min(usize::try_from(all).unwrap_or(0)) {
        let Some(length) = i32_at(row, at) else { break };
        at += 4;
        let value = match usize::try_from(length) {
            Err(_) => None,
            Ok(length) => {
                let Some(value) = row.get(at..at + length) else { break };
                at += length;
                Some(value.to_vec())
            }
        };
        fields.push(Field { value, like_null: false });
    }
    fields
}
