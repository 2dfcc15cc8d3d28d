//! `now()` and its kin in a client's text: one value for a transaction, but another on each server.

use super::Draw;
use super::Part;
use super::When;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;

/// A call in a text: its tokens, and the type of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub first: usize,
    pub last: usize,
    pub type_name: &'static str,
}

/// Calls that can be told by their tokens alone, in order.
pub fn moments(text: &str, tokens: &[Token]) -> Vec<Moment> {
    (0..tokens.len()).filter_map(|n| moment(text, tokens, n)).collect()
}

fn moment(text: &str, tokens: &[Token], at: usize) -> Option<Moment> {
    let word = tokens.get(at).filter(|t| t.kind == TokenKind::Word)?.text(text).to_ascii_lowercase();
    let symbol = |n: usize, symbol: &str| tokens.get(n).is_some_and(|t| t.is_symbol(text, symbol));
    let before = at.checked_sub(1).and_then(|n| tokens.get(n));
    if before.is_some_and(|t| t.is_word(text, "as")) {
        return None;
    }
    let mut first = at;
    if before.is_some_and(|t| t.is_symbol(text, ".")) {
        first = at.checked_sub(2)?;
        tokens.get(first).filter(|t| t.is_word(text, "pg_catalog"))?;
    }
    let (last, type_name) = match word.as_str() {
        "now" | "transaction_timestamp" | "statement_timestamp" => {
            (at + 2, (symbol(at + 1, "(") && symbol(at + 2, ")")).then_some("timestamptz")?)
        }
        _ if first != at => return None,
        "current_date" => (at, "date"),
        "current_timestamp" | "localtimestamp" | "current_time" | "localtime" => {
            let type_name = match word.as_str() {
                "current_timestamp" => "timestamptz",
                "localtimestamp" => "timestamp",
                "current_time" => "timetz",
                _ => "time",
            };
            let precision = tokens.get(at + 2).is_some_and(|t| t.kind == TokenKind::Integer);
            let last = if symbol(at + 1, "(") && precision && symbol(at + 3, ")") { at + 3 } else { at };
            (last, type_name)
        }
        _ => return None,
    };
    Some(Moment { first, last, type_name })
}

/// Puts values in the place of the moments in the client's tokens `first..=last`; their numbers begin at `values`.
pub fn cut(first: usize, last: usize, moments: &[Moment], values: usize, out: &mut Vec<Part>) {
    let mut at = first;
    for (n, moment) in moments.iter().enumerate().filter(|(_, m)| m.first >= first && m.last <= last) {
        if moment.first > at {
            out.push(Part::Tokens { first: at, last: moment.first - 1 });
        }
        let otherwise = Some((moment.first, moment.last));
        // What stood around it may have been white space.
        out.push(Part::Text(" ".to_owned()));
        out.push(Part::Drawn { value: values + n, type_name: Some(moment.type_name), otherwise });
        out.push(Part::Text(" ".to_owned()));
        at = moment.last + 1;
    }
    if at <= last {
        out.push(Part::Tokens { first: at, last });
    }
}

/// One draw for each.
pub fn draws(moments: &[Moment]) -> impl Iterator<Item = Draw> + '_ {
    moments.iter().map(|moment| Draw {
        expr: vec![
            Part::Text("(".to_owned()),
            Part::Tokens { first: moment.first, last: moment.last },
            Part::Text(")::pg_catalog.text".to_owned()),
        ],
        count: 1,
        when: When::Several,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::moments;
    use crate::plan::writes::between;
    use crate::sql::lexer::tokenize;

    #[test]
    fn calls_are_found_and_names_are_not() {
        let text = "SELECT now(), now, t.now(), pg_catalog.now ( ), CURRENT_TIMESTAMP(0), current_date AS current_date, \
                    \"now\"(), LocalTime FROM now";
        let tokens = tokenize(text, true).unwrap();
        let found: Vec<_> = moments(text, &tokens).iter().map(|m| between(text, &tokens, m.first, m.last)).collect();
        assert_eq!(found, ["now()", "pg_catalog.now ( )", "CURRENT_TIMESTAMP(0)", "current_date", "LocalTime"]);
    }
}
