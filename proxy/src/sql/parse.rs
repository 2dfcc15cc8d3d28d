//! sqlparser behind bounds: text + tokens → tree, and the tree's locations → byte offsets.
//!
//! The parser is given the tokens that PostgreSQL would see (`align`): what sqlparser reads otherwise is not what
//! PostgreSQL would run.

use crate::limits;
use crate::sql::align;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::parser::ParserOptions;
use sqlparser::tokenizer::Location;
use sqlparser::tokenizer::Span;
use sqlparser::tokenizer::Tokenizer;
use std::ops::Range;

/// Why there is no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseFailure {
    /// sqlparser's own words.
    Syntax(String),
    /// Too many bytes, tokens, operators or levels to be parsed here.
    TooComplex,
}

/// The tree of a text that holds exactly one statement, with or without its semicolon; `tokens` are the text's own.
///
/// # Errors
/// `TooComplex` beyond the bounds of `limits`; `Syntax` for what sqlparser cannot read, or reads otherwise than
/// PostgreSQL would. Neither says that the text is wrong.
pub fn parse(text: &str, tokens: &[Token]) -> Result<Statement, ParseFailure> {
    if text.len() > limits::PARSED_STATEMENT_BYTES
        || tokens.len() > limits::PARSED_STATEMENT_TOKENS
        || !is_shallow(text, tokens)
    {
        return Err(ParseFailure::TooComplex);
    }
    let dialect = PostgreSqlDialect {};
    let foreign = Tokenizer::new(&dialect, text)
        .with_unescape(false)
        .tokenize_with_location()
        .map_err(|error| ParseFailure::Syntax(error.to_string()))?;
    let foreign = align::align(text, tokens, foreign)
        .ok_or_else(|| ParseFailure::Syntax("the parser reads the text otherwise than PostgreSQL".to_owned()))?;
    let statements = Parser::new(&dialect)
        .with_options(ParserOptions::new().with_unescape(false))
        .with_recursion_limit(limits::PARSER_DEPTH)
        .with_tokens_with_locations(foreign)
        .parse_statements()
        .map_err(failure)?;
    let mut statements = statements.into_iter();
    match (statements.next(), statements.next()) {
        (Some(statement), None) => Ok(statement),
        _ => Err(ParseFailure::Syntax("not one statement".to_owned())),
    }
}

fn failure(error: sqlparser::parser::ParserError) -> ParseFailure {
    match error {
        sqlparser::parser::ParserError::RecursionLimitExceeded => ParseFailure::TooComplex,
        other => ParseFailure::Syntax(other.to_string()),
    }
}

/// Bounds how deep a tree can get: dropping a tree recurses, and each operator of a chain (`a OR b OR …`) and each
/// further SELECT of a UNION is one level. List items stand beside each other, so a comma starts anew.
fn is_shallow(text: &str, tokens: &[Token]) -> bool {
    let mut open: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut before = "";
    for token in tokens {
        match token.kind {
            TokenKind::Punctuation => match token.text(text) {
                "(" | "[" => open.push(std::mem::take(&mut level)),
                ")" | "]" => {
                    let depth = level.depth() + 1;
                    // A closing bracket without an opening one is a syntax error, which is not ours to tell.
                    level = open.pop().unwrap_or_default();
                    level.inner = level.inner.max(depth);
                }
                "," => level.next_item(),
                _ => {}
            },
            TokenKind::Operator => level.operators += 1,
            TokenKind::Word => level.word(before, token.text(text)),
            TokenKind::QuotedIdent
            | TokenKind::String
            | TokenKind::BitString
            | TokenKind::Integer
            | TokenKind::Decimal
            | TokenKind::Param => {}
        }
        if level.depth() > limits::PARSED_STATEMENT_OPERATORS
            || level.joins > limits::PARSED_STATEMENT_JOINS
            || open.len() > limits::PARSER_DEPTH
        {
            return false;
        }
        before = token.text(text);
    }
    true
}

/// One level of parentheses: how deep the trees under it can be.
#[derive(Default)]
struct Level {
    /// Of the present item.
    operators: usize,
    /// UNION and the like: they chain across commas.
    set_operators: usize,
    /// Joins of the present item whose condition has not come: the parser calls itself for each, and does not count.
    joins: usize,
    /// The deepest bracket of the present item.
    inner: usize,
    /// The deepest item so far.
    items: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.set_operators + self.items.max(self.operators + self.inner)
    }

    fn next_item(&mut self) {
        self.items = self.items.max(self.operators + self.inner);
        self.operators = 0;
        self.joins = 0;
        self.inner = 0;
    }

    /// `before` is what stands before the word.
    fn word(&mut self, before: &str, word: &str) {
        const SET: [&str; 4] = ["union", "intersect", "except", "minus"];
        const OPERATORS: [&str; 24] = [
            "and", "or", "not", "is", "isnull", "notnull", "in", "like", "ilike", "similar", "between", "collate",
            "at", "overlaps", "operator", "escape", "xor", "div", "mod", "rlike", "regexp", "glob", "match", "any",
        ];
        if SET.iter().any(|operator| word.eq_ignore_ascii_case(operator)) {
            self.set_operators += 1;
        } else if OPERATORS.iter().any(|operator| word.eq_ignore_ascii_case(operator)) {
            self.operators += 1;
        } else if word.eq_ignore_ascii_case("join") {
            self.joins += usize::from(!before.eq_ignore_ascii_case("cross"));
        } else if (word.eq_ignore_ascii_case("on") || word.eq_ignore_ascii_case("using")) && !makes_name(before) {
            self.joins = self.joins.saturating_sub(1);
        }
    }
}

/// Behind this the parser takes any word for a name, ON too.
fn makes_name(before: &str) -> bool {
    const WORDS: [&str; 8] = ["join", "lateral", "only", "table", "as", "from", "offset", "."];
    WORDS.iter().any(|word| before.eq_ignore_ascii_case(word))
}

/// The lines of a text, to turn sqlparser's locations (line and column, counted in characters from 1) into byte
/// offsets.
#[derive(Clone, Debug)]
pub struct LineIndex {
    lines: Vec<Line>,
    /// Byte offsets of every `STRIDE`-th character of the lines that are not ASCII.
    checkpoints: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    start: u32,
    /// The first of the line's checkpoints; `None` for a line of ASCII.
    checkpoints: Option<u32>,
}

const STRIDE: usize = 64;

impl LineIndex {
    /// Reads the text once. Offsets beyond 4 GB are not found again.
    pub fn new(text: &str) -> LineIndex {
        let short = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let mut index = LineIndex { lines: Vec::new(), checkpoints: Vec::new() };
        let mut start = 0_usize;
        for line in text.split('\n') {
            let checkpoints = (!line.is_ascii()).then(|| short(index.checkpoints.len()));
            index.lines.push(Line { start: short(start), checkpoints });
            if checkpoints.is_some() {
                let characters = line.char_indices().step_by(STRIDE);
                index.checkpoints.extend(characters.map(|(at, _)| short(start + at)));
            }
            start += line.len() + 1;
        }
        index
    }

    /// The byte offset of a location; `None` for the empty location and for what is not in the text.
    pub fn byte_offset(&self, text: &str, location: Location) -> Option<usize> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(location.column).ok()?.checked_sub(1)?;
        let Line { start, checkpoints } = *self.lines.get(line)?;
        let Some(first) = checkpoints else {
            let offset = (start as usize).checked_add(column)?;
            return (offset <= text.len()).then_some(offset);
        };
        // The end of the line may be just behind its last checkpoint's stride.
        let checkpoint = |n: usize| self.checkpoints.get(first as usize + n).map(|at| *at as usize);
        let (from, walk) = match checkpoint(column / STRIDE) {
            Some(from) => (from, column % STRIDE),
            None => (checkpoint((column / STRIDE).checked_sub(1)?)?, column % STRIDE + STRIDE),
        };
        let rest = text.get(from..)?;
        rest.char_indices().map(|(at, _)| from + at).chain([text.len()]).nth(walk)
    }

    /// The byte range of a span; `None` for an empty one.
    pub fn byte_range(&self, text: &str, span: Span) -> Option<Range<usize>> {
        let start = self.byte_offset(text, span.start)?;
        let end = self.byte_offset(text, span.end)?;
        (start <= end).then_some(start..end)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::LineIndex;
    use super::ParseFailure;
    use super::parse;
    use crate::sql::lexer::tokenize;
    use sqlparser::ast::Statement;
    use sqlparser::tokenizer::Location;

    fn tree(text: &str) -> Result<Statement, ParseFailure> {
        parse(text, &tokenize(text, true).unwrap())
    }

    #[test]
    fn parses_what_is_common() {
        for text in [
            "SELECT 1",
            "select a.b, \"C\" from s.t as a where id = $1 and x = 'it''s' order by 1 limit 10;",
            "INSERT INTO t (a, b) VALUES (1, 'x'), (-2, E'\\n') RETURNING id",
            "UPDATE t SET a = a + 1 WHERE b @> '{1}' AND c ->> 'k' = 'v'",
            "DELETE FROM t WHERE ts < '2024-01-01'::date - interval '1 day'",
            "SELECT x'1F', b'01', 1.5, .5, 1e10, N'n', $$dollar$$, $t$a$t$, U&'\\0041'",
            "WITH a AS (SELECT 1) SELECT * FROM a UNION ALL SELECT 2",
            "SELECT 'ä' AS \"ö\", ä.b FROM ä -- ü\n WHERE ß = 'ß'",
            "SELECT a[1], (ARRAY[1,2])[1:2], a <-> b, x::int, x || y, a ~* 'b' FROM t",
            "SELECT /* a /* nested */ */ 1 -- end",
        ] {
            assert!(tree(text).is_ok(), "{text}: {:?}", tree(text));
        }
    }

    #[test]
    fn wants_exactly_one_statement() {
        assert!(tree("SELECT 1; SELECT 2").is_err());
        assert!(tree("").is_err());
        assert!(tree(";").is_err());
    }

    #[test]
    fn does_not_trust_another_reading() {
        // A no-break space is part of a name in PostgreSQL.
        assert!(tree("SELECT 1 FROM t\u{a0}WHERE a = 1").is_err());
        // Without standard_conforming_strings the literal goes on behind the second quote.
        let text = "SELECT 'a\\' , b'";
        assert!(parse(text, &tokenize(text, false).unwrap()).is_err());
    }

    #[test]
    fn operators_are_cut_as_postgresql_does() {
        let comparison = tree("SELECT a FROM t WHERE b>-1").unwrap();
        assert!(format!("{comparison:?}").contains("op: Gt"));
        for (text, operator) in [
            ("a === 1", "==="),
            ("a *= b", "*="),
            ("a == 1", "=="),
            ("a <=> 1", "<=>"),
            ("a // 1", "//"),
            ("a =@ 1", "=@"),
            ("a<+>'x'", "<+>"),
        ] {
            let statement = tree(&format!("SELECT {text}")).unwrap();
            assert!(format!("{statement:?}").contains(&format!("op: Custom(\"{operator}\")")), "{statement:?}");
        }
        for text in [
            "a>=-1",
            "a<>-1 AND b->>-1 = 'x'",
            "a@>-1",
            "a->'b'#>>'{c}'",
            "a ? 'b'",
            "f(a => -1, b := -2)",
            "a::int",
            "x[1:-2]",
        ] {
            assert!(tree(&format!("SELECT {text}")).is_ok(), "{text}: {:?}", tree(&format!("SELECT {text}")));
        }
    }

    #[test]
    fn bounds_depth_and_drops_safely() {
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let run = thread.spawn(|| {
            for operator in [" + ", " OR ", " UNION SELECT "] {
                let chain = format!("SELECT {}", vec!["1"; 1000].join(operator));
                drop(tree(&chain).unwrap());
                let longer = format!("SELECT {}", vec!["1"; 1002].join(operator));
                assert_eq!(tree(&longer), Err(ParseFailure::TooComplex));
            }
            drop(tree(&format!("SELECT a{}", "::int".repeat(1000))).unwrap());
            for join in [" JOIN t", " JOIN on", " LEFT JOIN s.on", " NATURAL JOIN t AS using", " JOIN f() AS on"] {
                let _ = tree(&format!("SELECT 1 FROM t{}", join.repeat(100)));
                let longer = format!("SELECT 1 FROM t{}", join.repeat(101));
                assert_eq!(tree(&longer), Err(ParseFailure::TooComplex), "{join}");
            }
            assert!(tree(&format!("SELECT 1 FROM t{}", " JOIN t USING (a)".repeat(1000))).is_ok());
            assert!(tree(&format!("SELECT 1 FROM t{}", " CROSS JOIN t".repeat(1000))).is_ok());
            let nested = format!("SELECT {}1{}", "(".repeat(60), ")".repeat(60));
            assert!(tree(&nested).is_ok());
            for depth in [100, 200, 300, 20_000] {
                for (open, close) in [("(", ")"), ("(SELECT ", ")"), ("f(", ")"), ("- ", ""), ("NOT ", ""), ("a[", "]")]
                {
                    let _ = tree(&format!("SELECT {}1{}", open.repeat(depth), close.repeat(depth)));
                }
            }
        });
        run.unwrap().join().unwrap();
    }

    #[test]
    fn long_flat_lists_are_not_deep() {
        let rows = vec!["(-1, 'x', a + 1)"; 5000].join(", ");
        assert!(tree(&format!("INSERT INTO t VALUES {rows}")).is_ok());
    }

    #[test]
    fn locations_become_offsets() {
        let text = "ab\nçd 'ü'\n\nx";
        let index = LineIndex::new(text);
        let at = |line, column| index.byte_offset(text, Location { line, column });
        assert_eq!(at(1, 1), Some(0));
        assert_eq!(at(1, 3), Some(2));
        assert_eq!(at(2, 1), Some(3));
        assert_eq!(at(2, 2), Some(5));
        assert_eq!(at(2, 4), Some(7));
        assert_eq!(at(2, 6), Some(10));
        assert_eq!(at(4, 1), Some(13));
        assert_eq!(at(4, 2), Some(14));
        assert_eq!(at(4, 3), None);
        assert_eq!(at(0, 0), None);
        assert_eq!(at(9, 1), None);
        let long = format!("x\n{}\ny", "é".repeat(640));
        let index = LineIndex::new(&long);
        for column in [1, 2, 64, 65, 66, 640, 641] {
            let expected = Some(2 + 2 * (column as usize - 1));
            assert_eq!(index.byte_offset(&long, Location { line: 2, column }), expected, "{column}");
        }
        assert_eq!(index.byte_offset(&long, Location { line: 3, column: 1 }), Some(1283));
        assert_eq!(LineIndex::new("").byte_offset("", Location { line: 1, column: 1 }), Some(0));
    }
}
