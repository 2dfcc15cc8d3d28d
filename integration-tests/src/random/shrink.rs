//! Makes a failing statement smaller, and other statements of the same form.

use super::generator::Statement;
use super::rng::Rng;

/// Runs of a failing statement while it is made smaller.
const RUNS: usize = 500;

/// Leaves out tokens as long as the statement still fails.
pub fn shrink(statement: &Statement, mut fails: impl FnMut(&Statement) -> bool) -> Statement {
    let mut best = statement.clone();
    let mut runs = 0;
    let mut again = true;
    while again && runs < RUNS {
        again = false;
        let mut size = tokens(&best.sql).len() / 2;
        while size > 0 && runs < RUNS {
            let mut start = 0;
            loop {
                let parts = tokens(&best.sql);
                if start + size > parts.len() || runs >= RUNS {
                    break;
                }
                let kept: String = parts.iter().take(start).chain(parts.iter().skip(start + size)).cloned().collect();
                let removed = parts.get(start..start + size).unwrap_or(&[]);
                let candidate = Statement { sql: kept, sorted: Vec::new(), ..best.clone() };
                let worth = balanced(removed) && removed.iter().any(|t| !t.trim().is_empty());
                runs += usize::from(worth);
                if worth && fails(&candidate) {
                    best = candidate;
                    again = true;
                } else {
                    start += 1;
                }
            }
            size = if size > 16 { size / 2 } else { size - 1 };
        }
    }
    best
}

fn balanced(parts: &[String]) -> bool {
    let mut depth = 0i32;
    for part in parts {
        match part.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// Words, quoted things, white space and single symbols.
fn tokens(sql: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\'' | '"' => rest.get(1..).and_then(|r| r.find(c)).map_or(rest.len(), |n| n + 2),
            c if c.is_whitespace() => rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()),
            c if is_word(c) => rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        out.push(token.to_owned());
        rest = after;
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | ':')
}

/// The same form with other numbers and strings.
pub fn twin(sql: &str, rng: &mut Rng) -> String {
    let change = |token: String| -> String {
        if token.parse::<u32>().is_ok_and(|n| n < 10) && rng.chance(50) {
            return (rng.below(9) + 1).to_string();
        }
        match token.as_str() {
            "'a'" | "'b'" | "'A'" if rng.chance(50) => rng.text(&["'a'", "'b'", "'A'", "'zeta'"]).into(),
            _ => token,
        }
    };
    tokens(sql).into_iter().map(change).collect()
}
