//! Text → tokens with byte offsets, and a text of several statements → its statements.

use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::sql::scanner::Scanner;
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
    /// Runs of operator characters by PostgreSQL's rules, and `::`, `:=`, `..`.
    Operator,
    /// ( ) [ ] , ; : . and any single character that is none of the above.
    Punctuation,
}

impl Token {
    /// The token's byte range.
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The token's text; empty if `text` is not the text that it was cut from.
    pub fn text<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.range()).unwrap_or("")
    }

    /// Whether it is this key word, in any case.
    pub fn is_word(&self, text: &str, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text(text).eq_ignore_ascii_case(word)
    }

    /// Whether it is this punctuation character or operator.
    pub fn is_symbol(&self, text: &str, symbol: &str) -> bool {
        matches!(self.kind, TokenKind::Punctuation | TokenKind::Operator) && self.text(text) == symbol
    }

    /// Whether it is counted as a literal (see `normalize`).
    pub fn is_literal(&self) -> bool {
        match self.kind {
            TokenKind::String | TokenKind::BitString | TokenKind::Integer | TokenKind::Decimal => true,
            TokenKind::Word
            | TokenKind::QuotedIdent
            | TokenKind::Param
            | TokenKind::Operator
            | TokenKind::Punctuation => false,
        }
    }
}

/// Cuts a text into tokens as PostgreSQL does (scan.l, with the number forms of PostgreSQL 16).
///
/// # Errors
/// 42601 for an unterminated string, quoted name or comment, with PostgreSQL's message and position; 54000 for a text
/// whose offsets do not fit.
pub fn tokenize(text: &str, standard_conforming_strings: bool) -> Result<Vec<Token>> {
    let mut scanner = Scanner::new(text, standard_conforming_strings);
    let mut tokens = Vec::with_capacity((text.len() / 5).min(4096) + 4);
    while let Some(lexeme) = scanner.token().map_err(|fault| fault.error(text))? {
        tokens.push(Token { kind: lexeme.kind, start: offset(lexeme.start)?, end: offset(lexeme.end)? });
    }
    Ok(tokens)
}

/// A byte offset as tokens keep it.
pub(crate) fn offset(at: usize) -> Result<u32> {
    u32::try_from(at).map_err(|_| Error::new(codes::PROGRAM_LIMIT, "statement is too long"))
}

/// The byte ranges of the statements in a text, without their semicolons and without empty ones. Comments before a
/// statement belong to it (they may be hints), white space and comments behind it do not.
///
/// A semicolon inside parentheses (rules) or inside the BEGIN ATOMIC … END body of a function does not end a statement
/// (as psql tells them apart, src/fe_utils/psqlscan.l).
///
/// # Errors
/// As `tokenize`.
pub fn split(text: &str, standard_conforming_strings: bool) -> Result<Vec<Range<usize>>> {
    let tokens = tokenize(text, standard_conforming_strings)?;
    let mut statements = Vec::new();
    let mut open = Openings::default();
    let mut first = 0;
    let mut from = 0;
    for (index, token) in tokens.iter().enumerate() {
        let statement = tokens.get(first..=index).unwrap_or_default();
        if token.is_symbol(text, ";") && open.none() {
            push_statement(text, from, tokens.get(first..index), &mut statements);
            open = Openings::default();
            first = index + 1;
            from = token.range().end;
        } else {
            open.step(text, statement);
        }
    }
    push_statement(text, from, tokens.get(first..), &mut statements);
    Ok(statements)
}

fn push_statement(text: &str, from: usize, tokens: Option<&[Token]>, statements: &mut Vec<Range<usize>>) {
    let Some(last) = tokens.and_then(<[Token]>::last) else { return };
    let end = last.range().end;
    let body = text.get(from..end).unwrap_or("");
    let blank = body.len() - body.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}').len();
    statements.push(from + blank..end);
}

/// Whether no semicolon separates statements in a text (those at its end do not count).
pub(crate) fn is_one_statement(text: &str, tokens: &[Token]) -> bool {
    if !tokens.iter().any(|token| token.is_symbol(text, ";")) {
        return true;
    }
    let mut open = Openings::default();
    let mut ended = false;
    for (index, token) in tokens.iter().enumerate() {
        if token.is_symbol(text, ";") && open.none() {
            ended = true;
        } else if ended {
            return false;
        } else {
            open.step(text, tokens.get(..=index).unwrap_or_default());
        }
    }
    true
}

/// What is open at a place in a statement, so that a semicolon there does not end it.
#[derive(Default)]
struct Openings {
    parentheses: usize,
    /// BEGIN ATOMIC, and CASE inside it; both end with END.
    blocks: usize,
}

impl Openings {
    fn none(&self) -> bool {
        self.parentheses == 0 && self.blocks == 0
    }

    /// Takes the last of the tokens that a statement has so far.
    fn step(&mut self, text: &str, statement: &[Token]) {
        let Some((token, before)) = statement.split_last() else { return };
        match token.kind {
            TokenKind::Punctuation => match token.text(text) {
                "(" => self.parentheses += 1,
                ")" => self.parentheses = self.parentheses.saturating_sub(1),
                _ => {}
            },
            TokenKind::Word if self.parentheses == 0 => self.word(text, token, before),
            _ => {}
        }
    }

    fn word(&mut self, text: &str, token: &Token, before: &[Token]) {
        let Some(previous) = before.last() else { return };
        // A label (`AS end`, `x.end`) is no key word.
        if previous.is_word(text, "as") || previous.is_symbol(text, ".") {
            return;
        }
        if token.is_word(text, "atomic") {
            if previous.is_word(text, "begin") && makes_routine(text, before) {
                self.blocks += 1;
            }
        } else if self.blocks > 0 && token.is_word(text, "case") {
            self.blocks += 1;
        } else if token.is_word(text, "end") {
            self.blocks = self.blocks.saturating_sub(1);
        }
    }
}

/// CREATE [OR REPLACE] {FUNCTION|PROCEDURE}
fn makes_routine(text: &str, statement: &[Token]) -> bool {
    let word = |index: usize, word: &str| statement.get(index).is_some_and(|token| token.is_word(text, word));
    let what = if word(1, "or") && word(2, "replace") { 3 } else { 1 };
    word(0, "create") && (word(what, "function") || word(what, "procedure"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::TokenKind;
    use super::split;
    use super::tokenize;
    use proptest::prelude::any;
    use proptest::proptest;

    /// Kinds by letter, with the texts.
    fn cut(text: &str, conforming: bool) -> Vec<String> {
        let letter = |kind: TokenKind| match kind {
            TokenKind::Word => 'w',
            TokenKind::QuotedIdent => 'q',
            TokenKind::String => 's',
            TokenKind::BitString => 'b',
            TokenKind::Integer => 'i',
            TokenKind::Decimal => 'd',
            TokenKind::Param => 'p',
            TokenKind::Operator => 'o',
            TokenKind::Punctuation => '.',
        };
        let tokens = tokenize(text, conforming).unwrap();
        tokens.iter().map(|token| format!("{} {}", letter(token.kind), token.text(text))).collect()
    }

    fn statements(text: &str) -> Vec<&str> {
        split(text, true).unwrap().into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn words_and_names() {
        assert_eq!(
            cut("a_1$ ÄÖ x\u{a0}y \"a\"\"b\" U&\"d\\0061\" e b", true),
            ["w a_1$", "w ÄÖ", "w x\u{a0}y", "q \"a\"\"b\"", "q U&\"d\\0061\"", "w e", "w b"]
        );
        assert_eq!(
            cut("u & 'x' a.b.c u&x", true),
            ["w u", "o &", "s 'x'", "w a", ". .", "w b", ". .", "w c", "w u", "o &", "w x"]
        );
    }

    #[test]
    fn strings() {
        assert_eq!(
            cut("'a''b' E'a\\'b' e'\\\\' N'x' B'01' X'1f' U&'\\0041'", true),
            ["s 'a''b'", "s E'a\\'b'", "s e'\\\\'", "s N'x'", "b B'01'", "b X'1f'", "s U&'\\0041'"]
        );
        assert_eq!(cut("'a\\' 'b'", true), ["s 'a\\'", "s 'b'"]);
        assert_eq!(cut("'a\\' b' c", false), ["s 'a\\' b'", "w c"]);
        assert_eq!(cut("$$a'b$$ $t$ $$ $x$ $t$ $t$$t$", true), ["s $$a'b$$", "s $t$ $$ $x$ $t$", "s $t$$t$"]);
        assert_eq!(cut("a$t$b $ $a", true), ["w a$t$b", ". $", ". $", "w a"]);
    }

    #[test]
    fn literals_continue_over_line_breaks() {
        assert_eq!(cut("'a' \n 'b'", true), ["s 'a' \n 'b'"]);
        assert_eq!(cut("'a' -- x 'y\n\t'b'\r'c'", true), ["s 'a' -- x 'y\n\t'b'\r'c'"]);
        assert_eq!(cut("'a' 'b'", true), ["s 'a'", "s 'b'"]);
        assert_eq!(cut("'a' /* \n */ 'b'", true), ["s 'a'", "s 'b'"]);
        assert_eq!(cut("'a'\n/* */ 'b'", true), ["s 'a'", "s 'b'"]);
        assert_eq!(cut("E'a'\n'\\'b'", true), ["s E'a'\n'\\'b'"]);
        assert_eq!(cut("B'0'\n'1'''", true), ["b B'0'\n'1'", "s ''"]);
        assert_eq!(cut("'a'\nE'b'", true), ["s 'a'", "s E'b'"]);
    }

    #[test]
    fn numbers_and_parameters() {
        assert_eq!(
            cut("1 1.5 .5 1. 1e10 1.5E-3 1.e+2 0x1F 0o17 0b01 1_000 1_0.0_1", true),
            [
                "i 1",
                "d 1.5",
                "d .5",
                "d 1.",
                "d 1e10",
                "d 1.5E-3",
                "d 1.e+2",
                "i 0x1F",
                "i 0o17",
                "i 0b01",
                "i 1_000",
                "d 1_0.0_1"
            ]
        );
        assert_eq!(
            cut("1..2 1e 1_ 0x $1 $12,$a a$1 1.5.2", true),
            [
                "i 1", "o ..", "i 2", "i 1", "w e", "i 1", "w _", "i 0", "w x", "p $1", "p $12", ". ,", ". $", "w a",
                "w a$1", "d 1.5", "d .2"
            ]
        );
    }

    #[test]
    fn operators() {
        assert_eq!(
            cut("a+-b a*-b a@-b a<=-1 a- -b a->>'x' a@>b", true),
            [
                "w a", "o +", "o -", "w b", "w a", "o *", "o -", "w b", "w a", "o @-", "w b", "w a", "o <=", "o -",
                "i 1", "w a", "o -", "o -", "w b", "w a", "o ->>", "s 'x'", "w a", "o @>", "w b"
            ]
        );
        assert_eq!(
            cut("a+--x\nb +/* c */d x::int y:=1 z=>2 a:b [1:2]", true),
            [
                "w a", "o +", "w b", "o +", "w d", "w x", "o ::", "w int", "w y", "o :=", "i 1", "w z", "o =>", "i 2",
                "w a", ". :", "w b", ". [", "i 1", ". :", "i 2", ". ]"
            ]
        );
        assert_eq!(cut("+-+-*-+@ -@+ @+- +-", true), ["o +-+-*-+@", "o -@+", "o @+-", "o +", "o -"]);
        assert_eq!(tokenize(&"+-".repeat(200_000), true).unwrap().len(), 400_000);
        assert_eq!(cut("a ===-+ b", true), ["w a", "o ===", "o -", "o +", "w b"]);
    }

    #[test]
    fn comments_nest() {
        assert_eq!(cut("a /* b /* c */ d */ e -- f\n g --", true), ["w a", "w e", "w g"]);
        assert_eq!(cut("/*/ */ */a", true), ["o */", "w a"]);
        assert_eq!(cut("/***/a/**/b", true), ["w a", "w b"]);
    }

    #[test]
    fn unterminated_text_is_told_as_postgresql_does() {
        for (text, message, position) in [
            ("SELECT 'abc", "unterminated quoted string at or near \"'abc\"", 8),
            ("SELECT 'a'\n'b", "unterminated quoted string at or near \"'a'\n'b\"", 8),
            ("é \"abc", "unterminated quoted identifier at or near \"\"abc\"", 3),
            ("/* /* */", "unterminated /* comment at or near \"/* /* */\"", 1),
            ("$a$ $b$", "unterminated dollar-quoted string at or near \"$a$ $b$\"", 1),
            ("x'1", "unterminated hexadecimal string literal at or near \"x'1\"", 1),
            ("b'1", "unterminated bit string literal at or near \"b'1\"", 1),
            ("e'\\'", "unterminated quoted string at or near \"e'\\'\"", 1),
            ("n'a", "unterminated quoted string at or near \"'a\"", 2),
        ] {
            let error = tokenize(text, true).unwrap_err();
            assert_eq!(error.message, message);
            assert_eq!(error.position, Some(position));
            assert_eq!(error.code.as_str(), "42601");
        }
    }

    #[test]
    fn statements_end_at_semicolons() {
        assert_eq!(statements(" SELECT 1; ;; SELECT ';' -- x;\n ; "), ["SELECT 1", "SELECT ';'"]);
        assert_eq!(statements("/* a; */ SELECT 1 /* b */; /* c */"), ["/* a; */ SELECT 1"]);
        assert_eq!(
            statements("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3"),
            ["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", "SELECT 3"]
        );
        assert_eq!(statements(""), Vec::<&str>::new());
        assert_eq!(statements("SELECT (1; SELECT 2"), ["SELECT (1; SELECT 2"]);
    }

    #[test]
    fn bodies_of_sql_functions_are_one_statement() {
        let function = "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC \
                        SELECT CASE WHEN a THEN 1 END AS end, t.case; INSERT INTO t VALUES (1); END";
        let text = format!("{function}; SELECT 1");
        assert_eq!(statements(&text), [function, "SELECT 1"]);
        assert_eq!(statements("BEGIN; SELECT 1; END; SELECT 2"), ["BEGIN", "SELECT 1", "END", "SELECT 2"]);
        assert_eq!(statements("CREATE FUNCTION begin() RETURNS int AS 'SELECT 1;'; SELECT 2").len(), 2);
        assert_eq!(statements("SELECT begin atomic; SELECT 2").len(), 2);
    }

    proptest! {
        #[test]
        fn never_panics_and_covers_the_text(text in ".*", conforming in any::<bool>()) {
            let _ = split(&text, conforming);
            if let Ok(tokens) = tokenize(&text, conforming) {
                let mut end = 0;
                for token in tokens {
                    assert!(token.start >= end && token.end > token.start);
                    assert!(text.get(token.range()).is_some());
                    end = token.end;
                }
            }
        }

        #[test]
        fn never_panics_on_what_looks_like_sql(
            text in "(['\"$/*\\\\\\-:.eEuUxXbBnN&0-9a_;() \n+<@é]|/\\*|\\*/|--|\\$\\$|''){0,30}",
            conforming in any::<bool>(),
        ) {
            let _ = split(&text, conforming);
            let _ = tokenize(&text, conforming);
        }
    }
}
