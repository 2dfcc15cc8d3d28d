//! A statement for one shard with the transaction's time in it, for a shard that has joined the transaction later than
//! others and would tell a time of its own.

use super::moment;
use super::moment::Call;
use super::template::Piece;
use crate::sql::lexer::Token;

/// Words at which a SELECT list ends.
const AFTER_LIST: [&str; 13] = [
    "from",
    "where",
    "group",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
];

/// The text with each call of `now()` and its kin replaced; `transaction` and `statement` are SQL for the two values. The
/// names of its columns stay the same. The text itself, where there are no calls.
///
/// `None`: a call may give a column its name in a way that is not certain here.
pub fn clocked(text: &str, tokens: &[Token], transaction: &str, statement: &str) -> Option<String> {
    let calls = moment::calls(text, tokens);
    let mut out = String::with_capacity(text.len() + 96);
    let mut at = 0;
    let list = list(text, tokens);
    for call in &calls {
        let start = tokens.get(call.first)?.start as usize;
        let end = tokens.get(call.last)?.end as usize;
        out.push_str(text.get(at..start)?);
        for piece in call.pieces(transaction, statement) {
            match piece {
                Piece::Text(own) => out.push_str(&own),
                Piece::Tokens { first, last } => {
                    out.push_str(text.get(tokens.get(first)?.start as usize..tokens.get(last)?.end as usize)?);
                }
            }
        }
        if let Naming::Alone(name) = naming(text, tokens, call, &list)? {
            out.push_str(&format!("AS {name} "));
        }
        at = end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

enum Naming {
    Nothing,
    /// It is a column of the answer, called so.
    Alone(String),
}

/// The tokens of the outermost SELECT list.
fn list(text: &str, tokens: &[Token]) -> std::ops::Range<usize> {
    let mut depth = 0_usize;
    let mut first = None;
    for (n, token) in tokens.iter().enumerate() {
        match token.text(text) {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ if first.is_none() && token.is_word(text, "select") => first = Some(n + 1),
            _ if first.is_some() && AFTER_LIST.iter().any(|word| token.is_word(text, word)) => {
                return first.unwrap_or(n)..n;
            }
            _ => {}
        }
    }
    first.map_or(0..0, |first| first..tokens.len())
}

/// Whether a call names a column (FigureColname in parse_target.c).
fn naming(text: &str, tokens: &[Token], call: &Call, list: &std::ops::Range<usize>) -> Option<Naming> {
    let word = |n: Option<usize>, words: &[&str]| {
        n.and_then(|n| tokens.get(n)).is_some_and(|t| words.iter().any(|w| t.is_word(text, w)))
    };
    let symbol = |n: Option<usize>, symbols: &[&str]| {
        n.and_then(|n| tokens.get(n)).is_some_and(|t| symbols.contains(&t.text(text)))
    };
    // What stands before it, behind parentheses that hold nothing else before it.
    let mut before = call.first.checked_sub(1);
    let mut opened = 0_usize;
    while symbol(before, &["("]) {
        opened += 1;
        before = before.and_then(|n| n.checked_sub(1));
    }
    let head = word(before, &["select", "all", "distinct", "else", "returning"]);
    let comma = symbol(before, &[","]);
    if !head && !comma && before.is_some() {
        return Some(Naming::Nothing);
    }
    let after = Some(call.last + 1).filter(|n| *n < tokens.len());
    let in_list = list.contains(&call.first) && depth(text, tokens, list.start, call.first) == 0;
    if in_list && opened == 0 && !word(before, &["else"]) {
        if after.is_none() || symbol(after, &[",", ";"]) || after == Some(list.end) {
            let name = tokens.get(call.last).map(|_| name_of(text, tokens, call))?;
            return Some(Naming::Alone(name));
        }
        // An operator makes it nameless, AS names it.
        if word(after, &["as"])
            || after
                .and_then(|n| tokens.get(n))
                .is_some_and(|t| t.kind == crate::sql::lexer::TokenKind::Operator && t.text(text) != "::")
        {
            return Some(Naming::Nothing);
        }
        return None;
    }
    // The arguments of a function, rows of VALUES, lists of IN and of ORDER BY name nothing.
    let inner_list = enclosing(text, tokens, call.first).is_some_and(|open| word(Some(open + 1), &["select", "with"]));
    match comma && opened == 0 && !inner_list && !in_list {
        true => Some(Naming::Nothing),
        false => None,
    }
}

/// The parenthesis that is open at a token.
fn enclosing(text: &str, tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate().take(at).rev() {
        match token.text(text) {
            ")" => depth += 1,
            "(" if depth == 0 => return Some(n),
            "(" => depth -= 1,
            _ => {}
        }
    }
    None
}

fn depth(text: &str, tokens: &[Token], from: usize, to: usize) -> usize {
    let inside = tokens.get(from..to).unwrap_or_default();
    let count = |symbol: &str| inside.iter().filter(|t| t.text(text) == symbol).count();
    (count("(") + count("[")).saturating_sub(count(")") + count("]"))
}

/// The call's function: `pg_catalog.now()` is called now.
fn name_of(text: &str, tokens: &[Token], call: &Call) -> String {
    let tokens = tokens.get(call.first..=call.last).unwrap_or_default();
    let word = tokens.iter().find(|t| t.kind == crate::sql::lexer::TokenKind::Word && !t.is_word(text, "pg_catalog"));
    format!("\"{}\"", word.map(|t| t.text(text).to_ascii_lowercase()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::clocked;
    use crate::sql::lexer::tokenize;

    fn told(text: &str) -> Option<String> {
        let done = clocked(text, &tokenize(text, true).unwrap(), "T", "S")?;
        Some(done.replace("::pg_catalog.timestamptz", "").replace("::pg_catalog.", ":"))
    }

    #[test]
    fn times_are_put_in_and_names_stay() {
        for (text, expected) in [
            ("SELECT 1", "SELECT 1"),
            ("SELECT now()", "SELECT  (T) AS \"now\" "),
            ("SELECT a, pg_catalog.now(), b FROM t", "SELECT a,  (T) AS \"now\" , b FROM t"),
            ("SELECT current_date FROM t", "SELECT  (T:date) AS \"current_date\"  FROM t"),
            ("SELECT now() AS n", "SELECT  (T)  AS n"),
            ("SELECT now() - a FROM t", "SELECT  (T)  - a FROM t"),
            ("SELECT date_trunc('day', now()) FROM t", "SELECT date_trunc('day',  (T) ) FROM t"),
            ("SELECT a FROM t WHERE b > now() - c", "SELECT a FROM t WHERE b >  (T)  - c"),
            ("SELECT a FROM t ORDER BY b, now()", "SELECT a FROM t ORDER BY b,  (T) "),
            ("VALUES (1, now(), 2)", "VALUES (1,  (T) , 2)"),
            ("DELETE FROM t WHERE b < statement_timestamp()", "DELETE FROM t WHERE b <  (S) "),
        ] {
            assert_eq!(told(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "SELECT now()::date",
            "SELECT now() x",
            "SELECT (now())",
            "SELECT CASE WHEN a THEN b ELSE now() END FROM t",
            "SELECT x.now FROM (SELECT now()) x",
            "SELECT * FROM (SELECT a, now() FROM t) x",
            "INSERT INTO t VALUES (1) RETURNING now()",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
