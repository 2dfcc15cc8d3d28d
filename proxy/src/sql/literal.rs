//! The values of literals: what PostgreSQL's lexer makes of quotes and escapes (scan.l).

use crate::sql::lexer::TokenKind;
use crate::sql::scanner::Form;
use crate::sql::scanner::Lexeme;
use crate::sql::scanner::Scanner;
use std::borrow::Cow;
use std::ops::Range;

/// The value of the string literal that fills a byte range. See `normalize::string_value`.
pub(crate) fn string_value(text: &str, range: Range<usize>, conforming: bool) -> Option<Cow<'_, str>> {
    let literal = text.get(range.clone())?;
    let lexeme = Scanner::new(literal, conforming).token().ok()??;
    if lexeme.kind != TokenKind::String || lexeme.start != 0 || lexeme.end != literal.len() {
        return None;
    }
    match lexeme.form {
        Form::Plain => plain_value(literal, &lexeme),
        Form::Escape => escape_value(literal).map(Cow::Owned),
        Form::Unicode if conforming && !has_uescape(text, range.end) => unicode_value(literal).map(Cow::Owned),
        Form::Dollar => dollar_value(literal).map(Cow::Borrowed),
        Form::Unicode | Form::National | Form::Other | Form::Digits | Form::OddInteger => None,
    }
}

/// The value of an integer literal: digits, or the forms of PostgreSQL 16. `None` beyond 128 bits.
pub fn integer_value(literal: &str) -> Option<i128> {
    let digits: String = literal.chars().filter(|c| *c != '_').collect();
    let radix = match digits.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0o" | "0O") => 8,
        Some("0b" | "0B") => 2,
        _ => 10,
    };
    let body = if radix == 10 { digits.as_str() } else { digits.get(2..)? };
    if !body.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    i128::from_str_radix(body, radix).ok()
}

/// A value as a string literal that means the same under any standard_conforming_strings and any client encoding: only
/// ASCII is written.
pub fn quote(value: &str) -> String {
    let plain = value.bytes().all(|byte| byte.is_ascii() && byte != b'\\');
    if plain {
        return format!("'{}'", value.replace('\'', "''"));
    }
    let mut out = String::with_capacity(value.len() + 16);
    out.push_str("E'");
    for character in value.chars() {
        match character {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            character if character.is_ascii() => out.push(character),
            character if u32::from(character) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            character => out.push_str(&format!("\\U{:08x}", u32::from(character))),
        }
    }
    out.push('\'');
    out
}

fn plain_value<'a>(literal: &'a str, lexeme: &Lexeme) -> Option<Cow<'a, str>> {
    if !lexeme.continued {
        let body = literal.get(1..literal.len() - 1)?;
        return Some(if body.contains('\'') { Cow::Owned(body.replace("''", "'")) } else { Cow::Borrowed(body) });
    }
    let mut value = String::with_capacity(literal.len());
    for piece in Pieces::new(literal, false) {
        value.push_str(&piece.replace("''", "'"));
    }
    Some(Cow::Owned(value))
}

fn dollar_value(literal: &str) -> Option<&str> {
    let delimiter = literal.get(1..)?.find('$')? + 2;
    literal.get(delimiter..literal.len().checked_sub(delimiter)?)
}

/// Whether the word UESCAPE follows, which changes the escape character.
fn has_uescape(text: &str, end: usize) -> bool {
    let mut scanner = Scanner::starting_at(text, end);
    match scanner.token() {
        Ok(Some(lexeme)) => text.get(lexeme.start..lexeme.end).is_some_and(|word| word.eq_ignore_ascii_case("uescape")),
        Ok(None) | Err(_) => false,
    }
}

/// The bodies of the pieces of one literal.
struct Pieces<'a> {
    rest: &'a str,
    escapes: bool,
}

impl<'a> Pieces<'a> {
    fn new(literal: &'a str, escapes: bool) -> Self {
        Pieces { rest: literal, escapes }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        // A `--` comment between pieces may hold quotes, the prefix before the first piece holds none.
        let open = opening_quote(self.rest)?;
        let body = self.rest.get(open + 1..)?;
        let bytes = body.as_bytes();
        let mut at = 0;
        loop {
            match bytes.get(at)? {
                b'\\' if self.escapes => at += 2,
                b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
                b'\'' => break,
                _ => at += 1,
            }
        }
        self.rest = body.get(at + 1..)?;
        body.get(..at)
    }
}

fn opening_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'\'', _) => return Some(at),
            (b'-', Some(b'-')) => at += text.get(at..)?.find(['\n', '\r'])?,
            _ => at += 1,
        }
    }
}

/// E'…': the escapes may name bytes, which must be UTF-8 together.
fn escape_value(literal: &str) -> Option<String> {
    let mut value = Vec::with_capacity(literal.len());
    for piece in Pieces::new(literal, true) {
        escape_piece(piece.as_bytes(), &mut value)?;
    }
    let value = String::from_utf8(value).ok()?;
    (!value.contains('\0')).then_some(value)
}

fn escape_piece(mut rest: &[u8], value: &mut Vec<u8>) -> Option<()> {
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail.first()) {
            (b'\'', Some(b'\'')) => {
                value.push(b'\'');
                tail.get(1..)?
            }
            (b'\\', Some(escape)) => escaped(*escape, tail.get(1..)?, value)?,
            (b'\\', None) => return None,
            (byte, _) => {
                value.push(*byte);
                tail
            }
        };
    }
    Some(())
}

/// One escape, without its backslash; what is left behind it.
fn escaped<'a>(escape: u8, rest: &'a [u8], value: &mut Vec<u8>) -> Option<&'a [u8]> {
    let plain = match escape {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        // A letter before PostgreSQL 16, a vertical tab since.
        b'v' => return None,
        b'0'..=b'7' => {
            let more = rest.iter().take(2).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            let octal =
                rest.iter().take(more).fold(u32::from(escape - b'0'), |sum, byte| sum * 8 + u32::from(byte - b'0'));
            // PostgreSQL drops the ninth bit.
            value.push((octal & 0xff) as u8);
            return rest.get(more..);
        }
        b'x' => {
            let digits = rest.iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
            if digits > 0 {
                value.push(u8::try_from(hex(rest.get(..digits)?)?).ok()?);
                return rest.get(digits..);
            }
            b'x'
        }
        b'u' => return unicode_escape(rest, 4, value),
        b'U' => return unicode_escape(rest, 8, value),
        other => other,
    };
    value.push(plain);
    Some(rest)
}

/// A code point of so many hexadecimal digits; the first half of a surrogate pair must be followed by the second.
fn unicode_escape<'a>(rest: &'a [u8], digits: usize, value: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (code, rest) = code_point(rest, digits)?;
    let (code, rest) = if (0xd800..0xdc00).contains(&code) {
        let (second, rest) = match rest {
            [b'\\', b'u', tail @ ..] => code_point(tail, 4)?,
            [b'\\', b'U', tail @ ..] => code_point(tail, 8)?,
            _ => return None,
        };
        (surrogate_pair(code, second)?, rest)
    } else {
        (code, rest)
    };
    push_code_point(code, value)?;
    Some(rest)
}

fn code_point(rest: &[u8], digits: usize) -> Option<(u32, &[u8])> {
    Some((hex(rest.get(..digits)?)?, rest.get(digits..)?))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |sum, byte| Some(sum.checked_mul(16)? + char::from(*byte).to_digit(16)?))
}

fn surrogate_pair(first: u32, second: u32) -> Option<u32> {
    (0xdc00..0xe000).contains(&second).then(|| 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

fn push_code_point(code: u32, value: &mut Vec<u8>) -> Option<()> {
    let character = char::from_u32(code).filter(|c| *c != '\0')?;
    value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

/// U&'…' with the backslash as escape character: `\0041`, `\+000041`, `\\`.
fn unicode_value(literal: &str) -> Option<String> {
    let mut body = Vec::with_capacity(literal.len());
    for piece in Pieces::new(literal, false) {
        body.extend_from_slice(piece.replace("''", "'").as_bytes());
    }
    let mut value = Vec::with_capacity(body.len());
    let mut rest = body.as_slice();
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail.first()) {
            (b'\\', Some(b'\\')) => {
                value.push(b'\\');
                tail.get(1..)?
            }
            (b'\\', _) => {
                let (mut code, mut after) = unicode_code_point(tail)?;
                if (0xd800..0xdc00).contains(&code) {
                    let (second, behind) = unicode_code_point(after.strip_prefix(b"\\")?)?;
                    code = surrogate_pair(code, second)?;
                    after = behind;
                }
                push_code_point(code, &mut value)?;
                after
            }
            (byte, _) => {
                value.push(*byte);
                tail
            }
        };
    }
    String::from_utf8(value).ok()
}

fn unicode_code_point(rest: &[u8]) -> Option<(u32, &[u8])> {
    match rest.strip_prefix(b"+") {
        Some(digits) => code_point(digits, 6),
        None => code_point(rest, 4),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::integer_value;
    use super::quote;
    use super::string_value;
    use crate::sql::lexer::tokenize;
    use proptest::prelude::any;
    use proptest::proptest;

    fn value(text: &str) -> Option<String> {
        let first = tokenize(text, true).unwrap()[0];
        string_value(text, first.range(), true).map(|value| value.into_owned())
    }

    #[test]
    fn plain_and_dollar_quotes() {
        assert_eq!(value("'a''b\\n'").as_deref(), Some("a'b\\n"));
        assert_eq!(value("''").as_deref(), Some(""));
        assert_eq!(value("''''").as_deref(), Some("'"));
        assert_eq!(value("'a' -- it's\n 'b''c'").as_deref(), Some("ab'c"));
        assert_eq!(value("$$a'b$$").as_deref(), Some("a'b"));
        assert_eq!(value("$t$ $$ $t$").as_deref(), Some(" $$ "));
        assert_eq!(value("$$$$").as_deref(), Some(""));
    }

    #[test]
    fn escapes() {
        assert_eq!(value("E'a\\'b''c\\\\\\n\\t\\q'").as_deref(), Some("a'b'c\\\n\tq"));
        assert_eq!(value("e'\\101\\x42\\u0043\\U00000044\\xc3\\xa9'").as_deref(), Some("ABCDé"));
        assert_eq!(value("E'\\ud83d\\ude00\\1234'").as_deref(), Some("😀S4"));
        assert_eq!(value("E'a'\n'\\x62'").as_deref(), Some("ab"));
        assert_eq!(value("E'\\x'").as_deref(), Some("x"));
        for unsure in ["E'\\0'", "E'\\xff'", "E'\\u12'", "E'\\ud83d'", "E'\\ud83dx'", "E'\\ude00'", "E'\\u0000'"] {
            assert_eq!(value(unsure), None, "{unsure}");
        }
        let text = "'a\\'b'";
        assert_eq!(string_value(text, 0..text.len(), false).as_deref(), Some("a'b"));
    }

    #[test]
    fn unicode_strings() {
        assert_eq!(value("U&'d\\0061t\\+000061\\\\''é'").as_deref(), Some("data\\'é"));
        assert_eq!(value("u&'\\d83d\\de00'").as_deref(), Some("😀"));
        assert_eq!(value("U&'d!0061' /* x */ UESCAPE '!'"), None);
        assert_eq!(value("U&'\\00'"), None);
        assert_eq!(string_value("U&'a'", 0..5, false), None);
        assert_eq!(value("N'a'"), None);
        assert_eq!(value("B'1'"), None);
        assert_eq!(string_value("'abc'", 0..4, true), None);
        assert_eq!(string_value("'abc'", 0..99, true), None);
    }

    #[test]
    fn integers() {
        for (text, value) in [
            ("42", Some(42)),
            ("007", Some(7)),
            ("1_000", Some(1000)),
            ("0x1F", Some(31)),
            ("0o17", Some(15)),
            ("0B_11", Some(3)),
            ("99999999999999999999", Some(99_999_999_999_999_999_999)),
            ("", None),
            ("x", None),
            ("0x+1", None),
            ("-1", None),
        ] {
            assert_eq!(integer_value(text), value, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(E|U&|N|B|)'([\\\\'u0-9a-fx$+\n-]|é|''|\\\\){0,20}'", conforming in any::<bool>()) {
            let _ = string_value(&text, 0..text.len(), conforming);
            let _ = integer_value(&text);
        }

        #[test]
        fn quoted_values_round_trip(inner in "([^\0]|'|\\\\|é|😀){0,20}", conforming in any::<bool>()) {
            let text = quote(&inner);
            assert!(text.is_ascii());
            let value = string_value(&text, 0..text.len(), conforming);
            assert_eq!(value.as_deref(), Some(inner.as_str()));
        }

        #[test]
        fn doubled_quotes_round_trip(inner in "[^\0]*") {
            let text = format!("'{}'", inner.replace('\'', "''"));
            let value = string_value(&text, 0..text.len(), true);
            assert_eq!(value.as_deref(), Some(inner.as_str()));
        }
    }
}
