//! PostgreSQL's lexical rules (src/backend/parser/scan.l) over bytes: one token at a time, without allocation.
//!
//! `lexer::tokenize` and `normalize::scan` both stand on it, so that they cannot disagree. Every byte of a character
//! outside ASCII belongs to identifiers, so that all token borders are character borders.

use crate::error::Error;
use crate::error::codes;
use crate::sql::lexer::TokenKind;

/// What tells literals of one kind apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// No literal, or a decimal number.
    Other,
    /// 'x' in which only quotes are doubled.
    Plain,
    /// E'x', and 'x' with a backslash when standard_conforming_strings is off.
    Escape,
    /// U&'x'
    Unicode,
    /// $$x$$
    Dollar,
    /// N'x'
    National,
    /// Digits alone.
    Digits,
    /// 0x1F, 0o17, 0b11, 1_000 (PostgreSQL 16 and later).
    OddInteger,
}

/// One token with byte offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lexeme {
    pub kind: TokenKind,
    pub form: Form,
    /// Two or more literals, separated by white space with a line break, that are one.
    pub continued: bool,
    pub start: usize,
    pub end: usize,
}

/// What stands before a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    None,
    Space,
    /// White space with a comment that says something to the proxy or to a server's planner.
    Hint,
}

/// An unterminated token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    what: &'static str,
    start: usize,
}

impl Fault {
    /// The error that PostgreSQL gives (scanner_yyerror), with the position in characters.
    pub(crate) fn error(self, text: &str) -> Error {
        let (before, rest) = text.split_at_checked(self.start).unwrap_or((text, ""));
        let position = u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX);
        let message = format!("{} at or near \"{rest}\"", self.what);
        Error::new(codes::SYNTAX_ERROR, message).at(position)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    /// What an identifier may start with.
    Letter,
    /// A letter that may also be the prefix of a literal.
    Prefix,
    Digit,
    Dollar,
    Operator,
    Quote,
    DoubleQuote,
    Point,
    Colon,
    Other,
}

static CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut table = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Space,
            b'b' | b'B' | b'e' | b'E' | b'n' | b'N' | b'u' | b'U' | b'x' | b'X' => Class::Prefix,
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80..=0xff => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'$' => Class::Dollar,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' => Class::Operator,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' => Class::Operator,
            b'\'' => Class::Quote,
            b'"' => Class::DoubleQuote,
            b'.' => Class::Point,
            b':' => Class::Colon,
            _ => Class::Other,
        };
        byte += 1;
    }
    table
}

#[inline]
fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

/// Bytes of identifiers behind the first.
static IDENTIFIER: [bool; 256] = identifier_bytes();

const fn identifier_bytes() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(CLASSES[byte], Class::Letter | Class::Prefix | Class::Digit | Class::Dollar);
        byte += 1;
    }
    table
}

#[inline]
fn is_identifier_byte(byte: u8) -> bool {
    IDENTIFIER[usize::from(byte)]
}

/// A place in a text.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    standard_conforming_strings: bool,
    run: Run,
}

/// Where a quoted piece ends, and what was in it.
struct Quoted {
    end: usize,
    continued: bool,
    backslash: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, standard_conforming_strings: bool) -> Self {
        Scanner { bytes: text.as_bytes(), at: 0, standard_conforming_strings, run: Run::default() }
    }

    /// A scanner that starts at a byte offset, which must be a token's border.
    pub(crate) fn starting_at(text: &'a str, at: usize) -> Self {
        Scanner { at: at.min(text.len()), ..Scanner::new(text, true) }
    }

    #[inline]
    fn peek(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// The next token, white space and comments before it left out; `None` at the end.
    #[inline]
    pub(crate) fn token(&mut self) -> Result<Option<Lexeme>, Fault> {
        self.gap()?;
        self.lexeme()
    }

    /// Steps over white space and comments.
    #[inline]
    pub(crate) fn gap(&mut self) -> Result<Gap, Fault> {
        let mut gap = Gap::None;
        while let Some(byte) = self.peek(self.at) {
            if class(byte) == Class::Space {
                self.at += 1;
                gap = gap.max(Gap::Space);
            } else if byte == b'-' && self.peek(self.at + 1) == Some(b'-') {
                self.at = self.line_end(self.at + 2);
                gap = gap.max(Gap::Space);
            } else if byte == b'/' && self.peek(self.at + 1) == Some(b'*') {
                gap = gap.max(self.comment()?);
            } else {
                break;
            }
        }
        Ok(gap)
    }

    fn line_end(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).map_or(self.bytes.len(), |offset| from + offset)
    }

    /// Steps over a comment, which nests.
    fn comment(&mut self) -> Result<Gap, Fault> {
        let start = self.at;
        let mut depth = 1_usize;
        let mut at = start + 2;
        while depth > 0 {
            match (self.peek(at), self.peek(at + 1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    at += 2;
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    at += 2;
                }
                (Some(_), _) => at += 1,
                (None, _) => return Err(Fault { what: "unterminated /* comment", start }),
            }
        }
        self.at = at;
        Ok(if self.is_hint(start + 2) { Gap::Hint } else { Gap::Space })
    }

    /// Whether a comment whose body starts here is `/* shardway… */` or `/*+ … */` (pg_hint_plan).
    fn is_hint(&self, body: usize) -> bool {
        let rest = self.bytes.get(body..).unwrap_or_default();
        rest.first() == Some(&b'+') || rest.trim_ascii_start().starts_with(b"shardway")
    }

    /// The token that starts here; the gap before it has been stepped over.
    #[inline]
    pub(crate) fn lexeme(&mut self) -> Result<Option<Lexeme>, Fault> {
        let Some(first) = self.peek(self.at) else { return Ok(None) };
        let start = self.at;
        let simple = |kind: TokenKind, end: usize| Lexeme { kind, form: Form::Other, continued: false, start, end };
        let lexeme = match class(first) {
            Class::Letter => simple(TokenKind::Word, self.identifier_end(start + 1)),
            Class::Prefix => match self.prefixed(first)? {
                Some(lexeme) => lexeme,
                None => simple(TokenKind::Word, self.identifier_end(start + 1)),
            },
            Class::Digit => self.number(start),
            Class::Quote => self.string(start, start)?,
            Class::DoubleQuote => simple(TokenKind::QuotedIdent, self.quoted_identifier(start, start)?),
            Class::Operator => {
                let end = self.operator_end(start);
                simple(TokenKind::Operator, end)
            }
            Class::Dollar => self.dollar(start)?,
            Class::Point => match self.peek(start + 1) {
                Some(b'.') => simple(TokenKind::Operator, start + 2),
                Some(b'0'..=b'9') => self.number(start),
                _ => simple(TokenKind::Punctuation, start + 1),
            },
            Class::Colon => match self.peek(start + 1) {
                Some(b':' | b'=') => simple(TokenKind::Operator, start + 2),
                _ => simple(TokenKind::Punctuation, start + 1),
            },
            Class::Space | Class::Other => simple(TokenKind::Punctuation, start + 1),
        };
        self.at = lexeme.end;
        Ok(Some(lexeme))
    }

    /// Where it stands.
    #[cfg(test)]
    pub(crate) fn place(&mut self) -> usize {
        self.at
    }

    /// Steps over words that follow each other with one space between them, or that follow a token without a gap: what
    /// most of a statement is made of. The end of the last; where there is none, the present place, which must be a
    /// token's end or the beginning of a text that does not begin with a gap.
    #[inline]
    pub(crate) fn words(&mut self) -> usize {
        while let Some(byte) = self.peek(self.at) {
            let (start, first) = match byte {
                b' ' if self.at > 0 => match self.peek(self.at + 1) {
                    Some(first) => (self.at + 1, first),
                    None => break,
                },
                first => (self.at, first),
            };
            match class(first) {
                Class::Letter => {}
                // It may begin a literal: 'x', U&'x'.
                Class::Prefix if !matches!(self.peek(start + 1), Some(b'\'' | b'&')) => {}
                _ => break,
            }
            self.at = self.identifier_end(start + 1);
        }
        self.at
    }

    #[inline]
    fn identifier_end(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        rest.iter().position(|byte| !is_identifier_byte(*byte)).map_or(self.bytes.len(), |offset| from + offset)
    }

    /// Literals and names that start with a letter: E'', B'', X'', N'', U&'', U&"".
    fn prefixed(&self, first: u8) -> Result<Option<Lexeme>, Fault> {
        let start = self.at;
        let second = self.peek(start + 1);
        let lexeme = match (first, second) {
            (b'e' | b'E', Some(b'\'')) => {
                let quoted = self.quoted(start, start + 1, Quoting::Escape, "unterminated quoted string")?;
                string_lexeme(Form::Escape, start, &quoted)
            }
            (b'n' | b'N', Some(b'\'')) => Lexeme { form: Form::National, start, ..self.string(start + 1, start + 1)? },
            (b'b' | b'B', Some(b'\'')) => self.bit_string(start, "unterminated bit string literal")?,
            (b'x' | b'X', Some(b'\'')) => self.bit_string(start, "unterminated hexadecimal string literal")?,
            (b'u' | b'U', Some(b'&')) => match self.peek(start + 2) {
                Some(b'\'') => {
                    let quoted = self.quoted(start, start + 2, Quoting::Doubled, "unterminated quoted string")?;
                    string_lexeme(Form::Unicode, start, &quoted)
                }
                Some(b'"') => Lexeme {
                    kind: TokenKind::QuotedIdent,
                    form: Form::Other,
                    continued: false,
                    start,
                    end: self.quoted_identifier(start, start + 2)?,
                },
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(lexeme))
    }

    /// A string without a prefix.
    fn string(&self, start: usize, open: usize) -> Result<Lexeme, Fault> {
        let quoting = if self.standard_conforming_strings { Quoting::Doubled } else { Quoting::Escape };
        let quoted = self.quoted(start, open, quoting, "unterminated quoted string")?;
        let form = if quoted.backslash && quoting == Quoting::Escape { Form::Escape } else { Form::Plain };
        Ok(string_lexeme(form, start, &quoted))
    }

    fn bit_string(&self, start: usize, what: &'static str) -> Result<Lexeme, Fault> {
        let quoted = self.quoted(start, start + 1, Quoting::Single, what)?;
        Ok(Lexeme { kind: TokenKind::BitString, ..string_lexeme(Form::Other, start, &quoted) })
    }

    /// From an opening quote to behind the closing one, with the pieces that continue it.
    fn quoted(&self, start: usize, open: usize, quoting: Quoting, what: &'static str) -> Result<Quoted, Fault> {
        let mut quoted = Quoted { end: open + 1, continued: false, backslash: false };
        loop {
            match self.peek(quoted.end) {
                None => return Err(Fault { what, start }),
                Some(b'\'') if quoting != Quoting::Single && self.peek(quoted.end + 1) == Some(b'\'') => {
                    quoted.end += 2;
                }
                Some(b'\'') => match self.continuation(quoted.end + 1) {
                    Some(next) => {
                        quoted.continued = true;
                        quoted.end = next + 1;
                    }
                    None => {
                        quoted.end += 1;
                        return Ok(quoted);
                    }
                },
                Some(b'\\') => {
                    quoted.backslash = true;
                    quoted.end += if quoting == Quoting::Escape { 2 } else { 1 };
                }
                Some(_) => quoted.end += 1,
            }
        }
    }

    /// The quote that continues a literal which ended before `at`: behind white space that holds a line break
    /// (`quotecontinue`); `--` comments count as white space there, `/* */` do not.
    fn continuation(&self, mut at: usize) -> Option<usize> {
        let mut line_break = false;
        loop {
            let byte = self.peek(at)?;
            match byte {
                b'\n' | b'\r' => {
                    line_break = true;
                    at += 1;
                }
                b'-' if self.peek(at + 1) == Some(b'-') => at = self.line_end(at + 2),
                b'\'' if line_break => return Some(at),
                _ if class(byte) == Class::Space => at += 1,
                _ => return None,
            }
        }
    }

    fn quoted_identifier(&self, start: usize, open: usize) -> Result<usize, Fault> {
        let mut at = open + 1;
        loop {
            match (self.peek(at), self.peek(at + 1)) {
                (None, _) => return Err(Fault { what: "unterminated quoted identifier", start }),
                (Some(b'"'), Some(b'"')) => at += 2,
                (Some(b'"'), _) => return Ok(at + 1),
                (Some(_), _) => at += 1,
            }
        }
    }

    /// `$1`, `$tag$…$tag$`, or a lone dollar sign.
    fn dollar(&self, start: usize) -> Result<Lexeme, Fault> {
        let plain = |kind: TokenKind, end: usize| Lexeme { kind, form: Form::Other, continued: false, start, end };
        let rest = self.bytes.get(start + 1..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            return Ok(plain(TokenKind::Param, start + 1 + digits));
        }
        let tag = rest
            .iter()
            .take_while(|byte| matches!(class(**byte), Class::Letter | Class::Prefix | Class::Digit))
            .count();
        if rest.get(tag) != Some(&b'$') {
            return Ok(plain(TokenKind::Punctuation, start + 1));
        }
        let body = start + tag + 2;
        let delimiter = self.bytes.get(start..body).unwrap_or_default();
        match self.find(body, delimiter) {
            Some(end) => Ok(Lexeme { form: Form::Dollar, ..plain(TokenKind::String, end) }),
            None => Err(Fault { what: "unterminated dollar-quoted string", start }),
        }
    }

    /// Behind the next occurrence of a dollar quote. Linear: a comparison stops at the next dollar sign.
    fn find(&self, from: usize, delimiter: &[u8]) -> Option<usize> {
        let mut at = from;
        loop {
            let rest = self.bytes.get(at..)?;
            let offset = rest.iter().position(|byte| *byte == b'$')?;
            if rest.get(offset..)?.starts_with(delimiter) {
                return Some(at + offset + delimiter.len());
            }
            at += offset + 1;
        }
    }

    /// Digits, with the underscores that PostgreSQL 16 allows between them: the end, and whether there were any.
    fn digits_end(&self, from: usize, digit: fn(&u8) -> bool) -> (usize, bool) {
        let mut at = from;
        let mut underscores = false;
        loop {
            match (self.peek(at), self.peek(at + 1)) {
                (Some(byte), _) if digit(&byte) => at += 1,
                (Some(b'_'), Some(byte)) if digit(&byte) => {
                    underscores = true;
                    at += 2;
                }
                _ => return (at, underscores),
            }
        }
    }

    fn number(&self, start: usize) -> Lexeme {
        let make = |kind: TokenKind, form: Form, end: usize| Lexeme { kind, form, continued: false, start, end };
        if let Some(end) = self.radix_integer(start) {
            return make(TokenKind::Integer, Form::OddInteger, end);
        }
        let (mut end, underscores) = self.digits_end(start, u8::is_ascii_digit);
        let mut decimal = false;
        if self.peek(end) == Some(b'.') && self.peek(end + 1) != Some(b'.') {
            decimal = true;
            end += 1;
            if self.peek(end).is_some_and(|byte| byte.is_ascii_digit()) {
                end = self.digits_end(end, u8::is_ascii_digit).0;
            }
        }
        if matches!(self.peek(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(end + 1), Some(b'+' | b'-')));
            if self.peek(end + 1 + sign).is_some_and(|byte| byte.is_ascii_digit()) {
                decimal = true;
                end = self.digits_end(end + 1 + sign, u8::is_ascii_digit).0;
            }
        }
        match (decimal, underscores) {
            (true, _) => make(TokenKind::Decimal, Form::Other, end),
            (false, false) => make(TokenKind::Integer, Form::Digits, end),
            (false, true) => make(TokenKind::Integer, Form::OddInteger, end),
        }
    }

    fn radix_integer(&self, start: usize) -> Option<usize> {
        if self.peek(start) != Some(b'0') {
            return None;
        }
        let digit: fn(&u8) -> bool = match self.peek(start + 1)? {
            b'x' | b'X' => u8::is_ascii_hexdigit,
            b'o' | b'O' => |byte| matches!(byte, b'0'..=b'7'),
            b'b' | b'B' => |byte| matches!(byte, b'0' | b'1'),
            _ => return None,
        };
        let (end, _) = self.digits_end(start + 2, digit);
        (end > start + 2).then_some(end)
    }

    /// The end of an operator: before a comment, and without trailing `+` and `-` unless the operator holds one of
    /// the characters that SQL's own operators do not have.
    fn operator_end(&mut self, start: usize) -> usize {
        if start >= self.run.end {
            self.run = self.operator_run(start);
        }
        let Run { end, last_own, last_solid } = self.run;
        let trailing = end > start + 1 && last_solid < end;
        if !trailing || last_own > start {
            return end;
        }
        last_solid.max(start + 1)
    }

    fn operator_run(&self, start: usize) -> Run {
        let mut run = Run { end: start, last_own: 0, last_solid: 0 };
        while let Some(byte) = self.peek(run.end) {
            let comment = matches!((byte, self.peek(run.end + 1)), (b'-', Some(b'-')) | (b'/', Some(b'*')));
            if class(byte) != Class::Operator || (comment && run.end > start) {
                break;
            }
            run.end += 1;
            if matches!(byte, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%') {
                run.last_own = run.end;
            }
            if !matches!(byte, b'+' | b'-') {
                run.last_solid = run.end;
            }
        }
        run
    }
}

/// Operator characters that follow each other. Kept, because a run like `+-+-+-` is many operators, and each of them
/// depends on what stands at the end of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    end: usize,
    /// Behind the last character that SQL's own operators do not have; 0 if there is none.
    last_own: usize,
    /// Behind the last character that is neither + nor -; 0 if there is none.
    last_solid: usize,
}

/// How the inside of a quoted piece is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// A quote ends it.
    Single,
    /// Two quotes are one.
    Doubled,
    /// And a backslash hides the next character.
    Escape,
}

fn string_lexeme(form: Form, start: usize, quoted: &Quoted) -> Lexeme {
    Lexeme { kind: TokenKind::String, form, continued: quoted.continued, start, end: quoted.end }
}
