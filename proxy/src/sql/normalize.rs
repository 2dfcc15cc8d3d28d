//! Text → its normalised form: literals taken out, comments and white space folded; the key of the plan cache.

use crate::error::Result;
use std::ops::Range;

/// A scanned text. Reused from statement to statement, so that a scan does not allocate.
#[derive(Debug, Default)]
pub struct Normalized {
    /// The text with each literal replaced by a mark of its kind (string, integer, decimal, …).
    pub key: Vec<u8>,
    pub literals: Vec<Literal>,
    /// More than one statement: byte offset of the first `;` that another token follows.
    pub more_at: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal {
    pub kind: LiteralKind,
    /// Byte range in the text, quotes and all.
    pub start: u32,
    pub end: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    /// 'x' without a backslash, or with standard_conforming_strings on: only quotes are doubled.
    PlainString,
    /// E'', U&'', $$$$, continued: `decode` is needed to know its value.
    OtherString,
    Integer,
    Decimal,
    BitString,
}

/// # Errors
/// As `lexer::tokenize`.
pub fn scan(_text: &str, _standard_conforming_strings: bool, _into: &mut Normalized) -> Result<()> {
    Ok(())
}

/// The value of a string literal (quotes removed, escapes resolved), `None` where it is not certain.
pub fn string_value<'a>(
    _text: &'a str,
    _range: Range<usize>,
    _standard_conforming_strings: bool,
) -> Option<std::borrow::Cow<'a, str>> {
    None
}
