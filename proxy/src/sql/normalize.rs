//! Text → its normalised form: literals taken out, comments and white space folded; the key of the plan cache.
//!
//! This is the fast path: one pass, no allocation once the buffers have grown. Two texts have the same key only if they
//! have the same tokens but for the values of literals of the same kind, the same hint comments before the same tokens,
//! and the same number of semicolons between tokens: the key is a text of the same tokens, in which a literal is one
//! of the bytes that UTF-8 never has.

use crate::error::Result;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use crate::sql::lexer::offset;
use crate::sql::literal;
use crate::sql::scanner::Form;
use crate::sql::scanner::Gap;
use crate::sql::scanner::Lexeme;
use crate::sql::scanner::Scanner;
use std::borrow::Cow;
use std::ops::Range;

/// A scanned text. Reused from statement to statement, so that a scan does not allocate.
#[derive(Debug, Default)]
pub struct Normalized {
    /// The text with each literal replaced by a mark of its kind (string, integer, decimal, …), each gap by one space,
    /// and nothing before the first token (but hints) and behind the last that is no semicolon.
    pub key: Vec<u8>,
    pub literals: Vec<Literal>,
    /// More than one statement: byte offset of the first `;` that another token follows. In the body of a rule or of
    /// an SQL function it separates no statements: `lexer::split` tells.
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
    /// E'', U&'', $$$$, N'', continued: `string_value` is needed to know its value.
    OtherString,
    Integer,
    Decimal,
    BitString,
}

impl Literal {
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl Normalized {
    /// Outside literals there is nothing but ASCII: no mark looks like the second byte of a letter.
    pub fn is_ascii_but_literals(&self) -> bool {
        !self.key.iter().any(|byte| matches!(byte, 0x80..=0xbf))
    }
}

/// The marks: bytes that are in no UTF-8 text. The type that PostgreSQL gives a literal follows from its mark.
mod mark {
    pub const PLAIN: u8 = 0xf5;
    pub const ESCAPE: u8 = 0xf6;
    pub const UNICODE: u8 = 0xf7;
    pub const DOLLAR: u8 = 0xf8;
    pub const NATIONAL: u8 = 0xf9;
    /// Before the mark of a literal in several pieces.
    pub const CONTINUED: u8 = 0xfa;
    pub const INT4: u8 = 0xfb;
    pub const INT8: u8 = 0xfc;
    /// An integer that only numeric can hold.
    pub const HUGE: u8 = 0xfd;
    pub const DECIMAL: u8 = 0xfe;
    pub const BITS: u8 = 0xff;
    /// 0x1F, 1_000
    pub const ODD_INTEGER: u8 = 0xc0;
    /// Before the mark of 2147483648 and 9223372036854775808, which have a smaller type behind a minus sign (make_const
    /// in parse_node.c).
    pub const EDGE: u8 = 0xc1;
}

/// Normalises a text of one or several statements into reused buffers.
///
/// # Errors
/// As `lexer::tokenize`.
pub fn scan(text: &str, standard_conforming_strings: bool, into: &mut Normalized) -> Result<()> {
    scan_with(text, standard_conforming_strings, |scanner| scanner.words(), into)
}

/// `words`: steps over plain words and gives the place behind them; it may leave them all to the loop.
#[inline]
fn scan_with(
    text: &str,
    standard_conforming_strings: bool,
    words: impl Fn(&mut Scanner<'_>) -> usize,
    into: &mut Normalized,
) -> Result<()> {
    into.key.clear();
    into.literals.clear();
    into.more_at = None;
    offset(text.len())?;
    let mut scanner = Scanner::new(text, standard_conforming_strings);
    let mut copy = Copy { text: text.as_bytes(), from: 0, last: 0, semicolon: None };
    loop {
        if copy.semicolon.is_none() {
            copy.last = words(&mut scanner);
        }
        let gap = scanner.gap().map_err(|fault| fault.error(text))?;
        let Some(lexeme) = scanner.lexeme().map_err(|fault| fault.error(text))? else { break };
        copy.take(gap, &lexeme, into);
    }
    copy.flush(into);
    Ok(())
}

/// What is to be copied from the text into the key: runs are copied whole.
struct Copy<'a> {
    text: &'a [u8],
    /// Where the part starts that is not copied yet.
    from: usize,
    /// Where the last token ended.
    last: usize,
    /// The first of the semicolons that came last.
    semicolon: Option<usize>,
}

impl Copy<'_> {
    fn flush(&mut self, into: &mut Normalized) {
        into.key.extend_from_slice(self.text.get(self.from..self.last).unwrap_or_default());
        self.from = self.last;
    }

    #[inline]
    fn take(&mut self, gap: Gap, lexeme: &Lexeme, into: &mut Normalized) {
        if lexeme.kind == TokenKind::Punctuation && self.text.get(lexeme.start) == Some(&b';') {
            self.take_semicolon(lexeme, into);
            return;
        }
        if let Some(semicolon) = self.semicolon.take() {
            into.more_at.get_or_insert(semicolon);
            into.key.push(b';');
            self.from = if gap == Gap::Hint { self.last } else { lexeme.start };
        } else if gap == Gap::Space {
            self.take_space(lexeme, into);
        }
        if lexeme.kind != TokenKind::Word {
            self.take_literal(lexeme, into);
        }
        self.last = lexeme.end;
    }

    /// Semicolons are not written before another token follows.
    fn take_semicolon(&mut self, lexeme: &Lexeme, into: &mut Normalized) {
        self.flush(into);
        self.semicolon.get_or_insert(lexeme.start);
        self.last = lexeme.end;
        self.from = lexeme.end;
    }

    fn take_space(&mut self, lexeme: &Lexeme, into: &mut Normalized) {
        let first = self.last == 0 && into.key.is_empty();
        let one = lexeme.start == self.last + 1 && self.text.get(self.last) == Some(&b' ');
        if first {
            self.from = lexeme.start;
        } else if !one {
            self.flush(into);
            into.key.push(b' ');
            self.from = lexeme.start;
        }
    }

    fn take_literal(&mut self, lexeme: &Lexeme, into: &mut Normalized) {
        let Some(kind) = literal_kind(lexeme) else { return };
        self.last = lexeme.start;
        self.flush(into);
        self.from = lexeme.end;
        push_mark(self.text.get(lexeme.start..lexeme.end).unwrap_or_default(), lexeme, &mut into.key);
        // `scan` has checked that all offsets fit.
        into.literals.push(Literal { kind, start: lexeme.start as u32, end: lexeme.end as u32 });
    }
}

fn literal_kind(lexeme: &Lexeme) -> Option<LiteralKind> {
    match lexeme.kind {
        TokenKind::String if lexeme.form == Form::Plain && !lexeme.continued => Some(LiteralKind::PlainString),
        TokenKind::String => Some(LiteralKind::OtherString),
        TokenKind::BitString => Some(LiteralKind::BitString),
        TokenKind::Integer => Some(LiteralKind::Integer),
        TokenKind::Decimal => Some(LiteralKind::Decimal),
        TokenKind::Word | TokenKind::QuotedIdent | TokenKind::Param | TokenKind::Operator | TokenKind::Punctuation => {
            None
        }
    }
}

fn push_mark(literal: &[u8], lexeme: &Lexeme, key: &mut Vec<u8>) {
    if lexeme.continued {
        key.push(mark::CONTINUED);
    }
    let mark = match (lexeme.form, lexeme.kind) {
        (Form::Plain, _) => mark::PLAIN,
        (Form::Escape, _) => mark::ESCAPE,
        (Form::Unicode, _) => mark::UNICODE,
        (Form::Dollar, _) => mark::DOLLAR,
        (Form::National, _) => mark::NATIONAL,
        (Form::OddInteger, _) => mark::ODD_INTEGER,
        (Form::Digits, _) => {
            let (edge, mark) = integer_mark(literal);
            if edge {
                key.push(mark::EDGE);
            }
            mark
        }
        (Form::Other, TokenKind::Decimal) => mark::DECIMAL,
        (Form::Other, _) => mark::BITS,
    };
    key.push(mark);
}

/// The type of an integer literal (scan.l's process_integer_literal and make_const), and whether it is just beyond the
/// next smaller one.
fn integer_mark(digits: &[u8]) -> (bool, u8) {
    const INT4_EDGE: &[u8] = b"2147483648";
    const INT8_EDGE: &[u8] = b"9223372036854775808";
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    let digits = digits.get(zeros..).unwrap_or_default();
    let below = |edge: &[u8]| (digits.len(), digits) < (edge.len(), edge);
    if below(INT4_EDGE) {
        (false, mark::INT4)
    } else if below(INT8_EDGE) {
        (digits == INT4_EDGE, mark::INT8)
    } else {
        (digits == INT8_EDGE, mark::HUGE)
    }
}

/// From byte offsets to the ordinals of literals: the same numbers as the places in `Normalized::literals`.
#[derive(Clone, Debug, Default)]
pub struct LiteralOrdinals {
    starts: Vec<u32>,
}

/// The ordinals of the literals among the tokens of a text.
pub fn literal_ordinals(tokens: &[Token]) -> LiteralOrdinals {
    LiteralOrdinals { starts: tokens.iter().filter(|token| token.is_literal()).map(|token| token.start).collect() }
}

impl LiteralOrdinals {
    /// The ordinal (from 0) of the literal that starts at a byte offset.
    pub fn at(&self, start: usize) -> Option<usize> {
        self.starts.binary_search(&u32::try_from(start).ok()?).ok()
    }

    pub fn count(&self) -> usize {
        self.starts.len()
    }
}

/// The value of a string literal (quotes removed, escapes resolved), `None` where it is not certain: N'' (which has
/// another type), U&'' with UESCAPE, escapes that PostgreSQL refuses or that make no UTF-8.
pub fn string_value(text: &str, range: Range<usize>, standard_conforming_strings: bool) -> Option<Cow<'_, str>> {
    literal::string_value(text, range, standard_conforming_strings)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::LiteralKind;
    use super::Normalized;
    use super::literal_ordinals;
    use super::scan;
    use super::scan_with;
    use crate::sql::lexer::split;
    use crate::sql::lexer::tokenize;
    use proptest::prelude::any;
    use proptest::proptest;

    fn scanned(text: &str) -> Normalized {
        let mut into = Normalized::default();
        scan(text, true, &mut into).unwrap();
        into
    }

    /// The key with marks as letters.
    fn key(text: &str) -> String {
        let letter = |byte: u8| match byte {
            0xf5 => "«s»",
            0xf6 => "«e»",
            0xf7 => "«u»",
            0xf8 => "«$»",
            0xf9 => "«n»",
            0xfa => "«…»",
            0xfb => "«4»",
            0xfc => "«8»",
            0xfd => "«h»",
            0xfe => "«d»",
            0xff => "«b»",
            0xc0 => "«o»",
            0xc1 => "«!»",
            _ => "",
        };
        let mut out = Vec::new();
        for byte in scanned(text).key {
            match letter(byte) {
                "" => out.push(byte),
                mark => out.extend_from_slice(mark.as_bytes()),
            }
        }
        String::from_utf8(out).unwrap()
    }

    /// Stepping over words at once gives what looking at each gives.
    fn words_are_no_different(text: &str, conforming: bool) {
        let (mut fast, mut slow) = (Normalized::default(), Normalized::default());
        let fast_result = scan(text, conforming, &mut fast).map_err(|error| error.message.clone());
        let slow_result =
            scan_with(text, conforming, |scanner| scanner.place(), &mut slow).map_err(|error| error.message.clone());
        assert_eq!(fast_result, slow_result, "{text}");
        assert_eq!((fast.key, fast.literals, fast.more_at), (slow.key, slow.literals, slow.more_at), "{text}");
    }

    fn agree(text: &str, conforming: bool) {
        words_are_no_different(text, conforming);
        let mut into = Normalized::default();
        let tokens = tokenize(text, conforming);
        let scanned = scan(text, conforming, &mut into);
        let (tokens, ()) = match (tokens, scanned) {
            (Ok(tokens), Ok(scanned)) => (tokens, scanned),
            (Err(left), Err(right)) => return assert_eq!(left.message, right.message),
            (left, right) => panic!("{left:?} {right:?}"),
        };
        let literals: Vec<(u32, u32)> = into.literals.iter().map(|literal| (literal.start, literal.end)).collect();
        let expected: Vec<(u32, u32)> =
            tokens.iter().filter(|token| token.is_literal()).map(|token| (token.start, token.end)).collect();
        assert_eq!(literals, expected, "{text}");
        let ordinals = literal_ordinals(&tokens);
        assert_eq!(ordinals.count(), literals.len());
        for (ordinal, literal) in into.literals.iter().enumerate() {
            assert_eq!(ordinals.at(literal.start as usize), Some(ordinal));
        }
        let statements = split(text, conforming).unwrap().len();
        assert!(into.more_at.is_some() || statements <= 1, "{text}");
        let semicolons = into.key.iter().filter(|byte| **byte == b';').count();
        assert!(into.more_at.is_none() || semicolons > 0 || text.contains('"'), "{text}");
    }

    #[test]
    fn letters_beyond_ascii_in_literals_and_in_names() {
        let mut into = Normalized::default();
        for (text, ascii) in [("SELECT 'é', $$é$$, 1, E'é'", true), ("SELECT 1 AS é", false), ("SELECT 1 -- é", true)]
        {
            scan(text, true, &mut into).unwrap();
            assert_eq!(into.is_ascii_but_literals(), ascii, "{text}");
        }
    }

    #[test]
    fn literals_become_marks() {
        assert_eq!(
            key(
                "SELECT 1, 2147483647, 2147483648, 2147483649, 9223372036854775807, 9223372036854775808, 99999999999999999999"
            ),
            "SELECT «4», «4», «!»«8», «8», «8», «!»«h», «h»"
        );
        assert_eq!(key("SELECT 007, 0x1F, 1_0, 1.5, 1e3, .5"), "SELECT «4», «o», «o», «d», «d», «d»");
        assert_eq!(key("'a' E'b' U&'c' $$d$$ N'e' b'1' x'1' 'a'\n'b'"), "«s» «e» «u» «$» «n» «b» «b» «…»«s»");
        assert_eq!(key("a = -5 and \"b\" = $1"), "a = -«4» and \"b\" = $1");
    }

    #[test]
    fn gaps_are_folded() {
        assert_eq!(key("  SELECT  a -- x\n , b/* c */FROM\tt  ; "), "SELECT a , b FROM t");
        assert_eq!(key("SELECT a\nFROM t"), key("SELECT a FROM t"));
        assert_eq!(key("/* x */ SELECT 1 /* y */"), "SELECT «4»");
        assert_eq!(key(""), "");
        assert_eq!(key(" -- only a comment"), "");
    }

    #[test]
    fn hints_stay() {
        assert_eq!(key("/* shardway.shard = s1 */ SELECT 1"), "/* shardway.shard = s1 */ SELECT «4»");
        assert_eq!(key("/*+ SeqScan(t) */ SELECT a"), "/*+ SeqScan(t) */ SELECT a");
        assert_eq!(key("SELECT 1; /*shardway.run_on=all*/ SELECT 2"), "SELECT «4»; /*shardway.run_on=all*/ SELECT «4»");
    }

    #[test]
    fn more_statements_are_told() {
        assert_eq!(scanned("SELECT 1").more_at, None);
        assert_eq!(scanned("SELECT 1 ;; ").more_at, None);
        assert_eq!(scanned("SELECT 1 ;; SELECT 2; SELECT 3").more_at, Some(9));
        assert_eq!(key("SELECT 1 ;; SELECT 2;"), "SELECT «4»;SELECT «4»");
        assert_eq!(scanned("SELECT ';' -- ;\n").more_at, None);
    }

    #[test]
    fn backslashes_hide_quotes_only_where_postgresql_says_so() {
        let mut into = Normalized::default();
        scan("'a\\' 'b'", true, &mut into).unwrap();
        assert_eq!(into.literals.len(), 2);
        scan("'a\\' b', 'c'", false, &mut into).unwrap();
        assert_eq!(
            into.literals.iter().map(|literal| literal.kind).collect::<Vec<_>>(),
            [LiteralKind::OtherString, LiteralKind::PlainString]
        );
    }

    #[test]
    fn different_tokens_have_different_keys() {
        for (left, right) in [
            ("a :: b", "a : : b"),
            ("1abc", "1 abc"),
            ("'a' 'b'", "'a'\n'b'"),
            ("1", "1.0"),
            ("'1'", "1"),
            ("\"a\"", "a"),
            ("- -1", "--1"),
            ("-2147483648", "-2147483649"),
            ("B'1'", "'1'"),
            ("N'x'", "'x'"),
        ] {
            assert_ne!(scanned(left).key, scanned(right).key, "{left} {right}");
        }
    }

    #[test]
    fn scan_and_tokenize_agree_on_a_corpus() {
        for text in [
            "SELECT * FROM t WHERE id = 42 AND name = 'O''Brien' LIMIT 10",
            "INSERT INTO t VALUES (1, 'a', E'\\'', $$x'y$$, NULL, -1.5e-3), (2, U&'\\0041', B'01', X'ff', DEFAULT, .5)",
            "SELECT 'a'\n'b', 'c' 'd'; SELECT 1;",
            "SELECT a[1:2], b::int, c->>'k', d @> '{\"a\": [1]}' FROM \"T\" -- 'x'",
            "SELECT 'unterminated",
            "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)",
            "é'x'é",
            "1..2",
            "$1$2",
            "$a$ $a",
            "/* 'x' */ 'y'",
            "U&\"x\" 'y'",
            ";;;",
            "1;;1",
        ] {
            agree(text, true);
            agree(text, false);
        }
    }

    proptest! {
        #[test]
        fn scan_and_tokenize_agree(
            text in "(['\"$/*\\\\\\-:.eEuUxXbBnN&0-9a_;() \n+<@é]|/\\*|\\*/|--|\\$\\$|'[a-c]'| |\n){0,40}",
            conforming in any::<bool>(),
        ) {
            agree(&text, conforming);
        }

        #[test]
        fn scan_and_tokenize_agree_on_anything(text in ".*", conforming in any::<bool>()) {
            agree(&text, conforming);
        }

        #[test]
        fn the_key_has_the_tokens_of_the_text(
            text in "([a-c0-2]|'[a-c]'|\"a\"|[-+*<>=:.,;()@]| |\n|--|/\\*|\\*/){0,30}",
        ) {
            let mut into = Normalized::default();
            if scan(&text, true, &mut into).is_ok() {
                // A mark stands for its literal: with any literal put back the key is cut as the text was.
                let mut again = String::new();
                let mut literals = into.literals.iter();
                let mut key = into.key.as_slice();
                while let Some((byte, rest)) = key.split_first() {
                    key = rest;
                    match byte {
                        0xfa | 0xc1 => {}
                        0xc0 | 0xf5.. => again.push_str(&text[literals.next().unwrap().range()]),
                        byte => again.push(char::from(*byte)),
                    }
                }
                let strip = |text: &str| -> Vec<String> {
                    let tokens = tokenize(text, true).unwrap();
                    let mut out: Vec<String> = tokens.iter().map(|token| token.text(text).to_owned()).collect();
                    out.dedup_by(|a, b| a == ";" && b == ";");
                    while out.last().is_some_and(|last| last == ";") {
                        out.pop();
                    }
                    out
                };
                assert_eq!(strip(&again), strip(&text));
            }
        }
    }
}
