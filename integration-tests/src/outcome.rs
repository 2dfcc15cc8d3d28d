//! What a statement gave: columns, rows, command tag or error, over either protocol; and whether two outcomes agree.

use crate::client::Client;
use crate::message;
use crate::message::Column;
use crate::message::Fields;
use crate::message::Message;
use crate::message::readable;
use std::cmp::Ordering;

/// The protocol and result format by which a statement is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Simple,
    Text,
    Binary,
}

pub const MODES: [Mode; 3] = [Mode::Simple, Mode::Text, Mode::Binary];

/// The values of a row, as bytes in the column's format; NULL is `None`.
pub type Row = Vec<Option<Vec<u8>>>;

/// The end of one statement's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    Tag(String),
    Empty,
    Suspended,
    Error(Fields),
    Closed,
}

/// The answer to one statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub columns: Option<Vec<Column>>,
    pub rows: Vec<Row>,
    pub end: End,
    /// The bytes of COPY … TO STDOUT.
    pub copied: Vec<u8>,
    /// Transaction status after the whole answer.
    pub status: char,
}

impl Outcome {
    /// The SQLSTATE of an error; nothing otherwise.
    pub fn sqlstate(&self) -> Option<&str> {
        match &self.end {
            End::Error(fields) => Some(fields.sqlstate()),
            End::Closed => Some("08006"),
            _ => None,
        }
    }

    pub fn tag(&self) -> &str {
        match &self.end {
            End::Tag(tag) => tag,
            other => panic!("no command tag but {other:?}"),
        }
    }

    /// The rows as text, NULL as `None`; for results in text format.
    pub fn text(&self) -> Vec<Vec<Option<String>>> {
        let one = |v: &Option<Vec<u8>>| v.as_deref().map(readable);
        self.rows.iter().map(|row| row.iter().map(one).collect()).collect()
    }

    /// The single value of a result of one row and one column.
    pub fn value(&self) -> String {
        match (self.text().as_slice(), &self.end) {
            ([row], _) if row.len() == 1 => row[0].clone().unwrap_or_else(|| "NULL".into()),
            (_, end) => panic!("not one value: {} rows, {end:?}", self.rows.len()),
        }
    }

    /// One column of all rows, NULL as `NULL`.
    pub fn column(&self, position: usize) -> Vec<String> {
        self.text().into_iter().map(|mut row| row.swap_remove(position).unwrap_or_else(|| "NULL".into())).collect()
    }

    /// Fails the test unless the statement succeeded.
    pub fn ok(self) -> Outcome {
        match &self.end {
            End::Error(fields) => panic!("{}: {}", fields.sqlstate(), fields.message()),
            End::Closed => panic!("the connection was closed"),
            _ => self,
        }
    }
}

impl Client {
    /// Runs one Query message; one outcome for each statement in it.
    pub fn simple_all(&mut self, sql: &str) -> Vec<Outcome> {
        self.send(&message::query(sql));
        self.outcomes()
    }

    /// Runs one statement by the simple protocol.
    pub fn simple(&mut self, sql: &str) -> Outcome {
        self.simple_all(sql).pop().expect("an answer")
    }

    /// Runs SQL that must succeed.
    pub fn execute(&mut self, sql: &str) {
        for outcome in self.simple_all(sql) {
            if let End::Error(fields) = &outcome.end {
                panic!("{}: {}\n{}", fields.sqlstate(), fields.message(), shorten(sql));
            }
            assert!(outcome.end != End::Closed, "closed by {}", shorten(sql));
        }
    }

    /// Runs one statement by Parse, Bind, Describe, Execute, Sync with parameters in text format.
    pub fn extended(&mut self, sql: &str, values: &[Option<&str>], binary_results: bool) -> Outcome {
        let values: Vec<Option<Vec<u8>>> = values.iter().map(|v| v.map(|v| v.as_bytes().to_vec())).collect();
        let mut bytes = message::parse("", sql, &[]);
        bytes.extend(message::bind("", "", &[], &values, &[i16::from(binary_results)]));
        bytes.extend(message::describe(b'P', ""));
        bytes.extend(message::execute("", 0));
        bytes.extend(message::sync());
        self.send(&bytes);
        self.outcomes().pop().expect("an answer")
    }

    pub fn run(&mut self, mode: Mode, sql: &str, values: &[Option<&str>]) -> Outcome {
        match mode {
            Mode::Simple => self.simple(sql),
            Mode::Text => self.extended(sql, values, false),
            Mode::Binary => self.extended(sql, values, true),
        }
    }

    /// Reads up to ReadyForQuery. COPY … FROM STDIN is failed, so that nothing waits for ever.
    pub fn outcomes(&mut self) -> Vec<Outcome> {
        let mut out = Vec::new();
        let mut columns = None;
        let mut rows = Vec::new();
        let mut copied = Vec::new();
        loop {
            let end = match self.receive() {
                Message::RowDescription(c) => {
                    columns = Some(c);
                    continue;
                }
                Message::DataRow(row) => {
                    rows.push(row);
                    continue;
                }
                Message::CopyData(bytes) => {
                    copied.extend(bytes);
                    continue;
                }
                Message::CopyInResponse { .. } => {
                    self.send(&message::frame(b'f', b"the test sends no data\0"));
                    self.send(&message::sync());
                    continue;
                }
                Message::CommandComplete { tag } => End::Tag(tag),
                Message::EmptyQueryResponse => End::Empty,
                Message::PortalSuspended => End::Suspended,
                Message::ErrorResponse(fields) => End::Error(fields),
                Message::Closed => End::Closed,
                Message::ReadyForQuery { status } => {
                    out.iter_mut().for_each(|o: &mut Outcome| o.status = status);
                    return out;
                }
                _ => continue,
            };
            let closed = end == End::Closed;
            out.push(Outcome {
                columns: columns.take(),
                rows: std::mem::take(&mut rows),
                end,
                copied: std::mem::take(&mut copied),
                status: '?',
            });
            if closed {
                return out;
            }
        }
    }
}

/// How far the answer of one PostgreSQL determines the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The same rows in the same order.
    Ordered,
    /// The same rows in any order.
    Unordered,
    /// As many rows (LIMIT without a total order).
    Counted,
}

/// The first difference between PostgreSQL's outcome and ours, in words; `None` when they agree.
pub fn difference(expected: &Outcome, actual: &Outcome, rows: Rows) -> Option<String> {
    if let Some(text) = end_difference(&expected.end, &actual.end) {
        return Some(text);
    }
    if expected.status != actual.status {
        return Some(format!("transaction status {} instead of {}", actual.status, expected.status));
    }
    if matches!(expected.end, End::Error(_)) {
        return None;
    }
    if let Some(text) = column_difference(expected.columns.as_deref(), actual.columns.as_deref()) {
        return Some(text);
    }
    if expected.rows.len() != actual.rows.len() {
        return Some(format!("{} rows instead of {}", actual.rows.len(), expected.rows.len()));
    }
    if expected.copied != actual.copied && rows == Rows::Ordered {
        return Some(format!("copied {:?} instead of {:?}", readable(&actual.copied), readable(&expected.copied)));
    }
    row_difference(expected, actual, rows)
}

fn end_difference(expected: &End, actual: &End) -> Option<String> {
    match (expected, actual) {
        (End::Error(e), End::Error(a)) if e.sqlstate() == a.sqlstate() => None,
        (End::Error(e), End::Error(a)) => {
            Some(format!("error {} ({}) instead of {} ({})", a.sqlstate(), a.message(), e.sqlstate(), e.message()))
        }
        (e, a) if e == a => None,
        (e, a) => Some(format!("{a:?} instead of {e:?}")),
    }
}

/// Table OIDs differ between databases: only whether there is one, and the column's number, must agree. A table that the
/// home shard does not have has no number there: its columns name none. `tests/oids.rs` compares the numbers themselves.
fn column_difference(expected: Option<&[Column]>, actual: Option<&[Column]>) -> Option<String> {
    let same = |e: &Column, a: &Column| {
        let unnumbered = a.table == 0 && a.attribute == 0;
        (&e.name, e.type_oid, e.type_size, e.type_modifier, e.format)
            == (&a.name, a.type_oid, a.type_size, a.type_modifier, a.format)
            && (unnumbered || (e.attribute, e.table == 0) == (a.attribute, a.table == 0))
    };
    match (expected, actual) {
        (None, None) => None,
        (Some(e), Some(a)) if e.len() == a.len() => {
            e.iter().zip(a).find(|(e, a)| !same(e, a)).map(|(e, a)| format!("column {a:?} instead of {e:?}"))
        }
        (e, a) => Some(format!("columns {a:?} instead of {e:?}")),
    }
}

fn row_difference(expected: &Outcome, actual: &Outcome, rows: Rows) -> Option<String> {
    let float: Vec<Option<Float>> =
        expected.columns.iter().flatten().map(|c| Float::of(c.type_oid, c.format)).collect();
    let mut left = expected.rows.clone();
    let mut right = actual.rows.clone();
    match rows {
        Rows::Counted => return None,
        Rows::Unordered => {
            left.sort_by(|a, b| sort_order(a, b, &float));
            right.sort_by(|a, b| sort_order(a, b, &float));
        }
        Rows::Ordered => {}
    }
    let differs = |(l, r): &(&Row, &Row)| !same_row(l, r, &float);
    let (position, (l, r)) = left.iter().zip(&right).enumerate().find(|(_, pair)| differs(pair))?;
    Some(format!("row {} is {} instead of {}", position + 1, row_text(r), row_text(l)))
}

/// Sums of floats depend on the order of addition, in PostgreSQL too: equal within a few units of the last place.
#[derive(Clone, Copy)]
enum Float {
    Text,
    Binary4,
    Binary8,
}

impl Float {
    fn of(type_oid: u32, format: i16) -> Option<Float> {
        match (type_oid, format) {
            (700 | 701, 0) => Some(Float::Text),
            (700, _) => Some(Float::Binary4),
            (701, _) => Some(Float::Binary8),
            _ => None,
        }
    }

    fn value(self, bytes: &[u8]) -> Option<f64> {
        match self {
            Float::Text => std::str::from_utf8(bytes).ok()?.parse().ok(),
            Float::Binary4 => Some(f64::from(f32::from_be_bytes(bytes.try_into().ok()?))),
            Float::Binary8 => Some(f64::from_be_bytes(bytes.try_into().ok()?)),
        }
    }
}

fn same_row(a: &[Option<Vec<u8>>], b: &[Option<Vec<u8>>], float: &[Option<Float>]) -> bool {
    let mut values = a.iter().zip(b).enumerate();
    a.len() == b.len() && values.all(|(i, (x, y))| same_value(x, y, float.get(i).copied().flatten()))
}

fn same_value(a: &Option<Vec<u8>>, b: &Option<Vec<u8>>, float: Option<Float>) -> bool {
    let number = |v: &Option<Vec<u8>>| float?.value(v.as_deref()?);
    match (number(a), number(b)) {
        (Some(x), Some(y)) if x.is_finite() && y.is_finite() => (x - y).abs() <= 1e-9 * x.abs().max(y.abs()),
        (Some(x), Some(y)) => x.total_cmp(&y).is_eq(),
        _ => a == b,
    }
}

/// A total order: floats, which may differ a little, come last.
fn sort_order(a: &[Option<Vec<u8>>], b: &[Option<Vec<u8>>], float: &[Option<Float>]) -> Ordering {
    let exact = |row: &[Option<Vec<u8>>]| -> Vec<Option<Vec<u8>>> {
        row.iter().zip(float).filter(|(_, float)| float.is_none()).map(|(value, _)| value.clone()).collect()
    };
    let numbers = |row: &[Option<Vec<u8>>]| -> Vec<Option<f64>> {
        row.iter().zip(float).filter_map(|(value, float)| Some((*float)?.value(value.as_deref()?))).collect()
    };
    let by_number = |x: &Option<f64>, y: &Option<f64>| match (x, y) {
        (Some(x), Some(y)) => x.total_cmp(y),
        _ => x.is_some().cmp(&y.is_some()),
    };
    exact(a).cmp(&exact(b)).then_with(|| {
        let (x, y) = (numbers(a), numbers(b));
        let first = x.iter().zip(&y).map(|(x, y)| by_number(x, y)).find(|order| order.is_ne());
        first.unwrap_or_else(|| x.len().cmp(&y.len()))
    })
}

fn row_text(row: &[Option<Vec<u8>>]) -> String {
    let values: Vec<String> = row.iter().map(|v| v.as_deref().map_or("NULL".into(), readable)).collect();
    format!("({})", values.join(", "))
}

/// The head of a long statement, for messages.
pub fn shorten(sql: &str) -> String {
    let mut text: String = sql.chars().take(300).collect();
    if text.len() < sql.len() {
        text.push('…');
    }
    text
}
