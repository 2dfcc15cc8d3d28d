//! Text → tokens with byte offsets.

use crate::error::Result;
use std::ops::Range;

/// A token; the text is `&text[start..end]`. White space and comments are no tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub start: u32,
    pub end: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An unquoted identifier or key word.
    Word,
    /// "quoted" or U&"quoted"
    QuotedIdent,
    /// 'x', E'x', U&'x', $$x$$ (continued string literals are one token), N'x'
    String,
    /// B'', X''
    BitString,
    /// Digits only (0x… too).
    Integer,
    /// With a point or an exponent.
    Decimal,
    /// $1
    Param,
    Operator,
    /// ( ) [ ] , ; : .
    Punctuation,
}

/// # Errors
/// 42601 for an unterminated string, quoted name or comment.
pub fn tokenize(_text: &str, _standard_conforming_strings: bool) -> Result<Vec<Token>> {
    Ok(Vec::new())
}

/// The byte ranges of the statements in a text, without their semicolons and without empty ones.
///
/// # Errors
/// As `tokenize`.
pub fn split(_text: &str, _standard_conforming_strings: bool) -> Result<Vec<Range<usize>>> {
    Ok(Vec::new())
}
