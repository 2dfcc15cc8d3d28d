//! Values of variables as text: what SET was given, booleans, and search_path.

use crate::sql::lexer;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use crate::sql::literal;
use crate::sql::names;
use crate::variables::kinds;
use std::borrow::Cow;

/// The string that SET makes of the text behind TO or = (flatten_set_variable_args in guc_funcs.c): `'x'` → x, Foo →
/// foo, the elements of lists joined by commas, those of search_path and the like in quotes where needed. `name` in
/// lower case.
///
/// `None` where only a server can tell (`current_setting` afterwards): intervals, strings whose value is not certain,
/// and DateStyle, which keeps what is not named.
pub fn setting_value(name: &str, written: &str, standard_conforming_strings: bool) -> Option<String> {
    if name == "datestyle" {
        return None;
    }
    let tokens = lexer::tokenize(written, standard_conforming_strings).ok()?;
    let mut out = String::new();
    let mut rest = tokens.as_slice();
    loop {
        let (element, tail) = element(written, rest, standard_conforming_strings)?;
        let quoted = kinds::is_quoted_list(name) && element.is_word;
        out.push_str(if quoted { names::quote_if_needed(&element.value) } else { element.value }.as_ref());
        match tail.split_first() {
            None => return Some(out),
            Some((comma, tail)) if comma.is_symbol(written, ",") => rest = tail,
            Some(_) => return None,
        }
        out.push_str(", ");
    }
}

struct Element<'a> {
    value: Cow<'a, str>,
    /// A word or string, no number.
    is_word: bool,
}

/// One var_value, and the tokens behind it.
fn element<'a, 't>(text: &'a str, tokens: &'t [Token], conforming: bool) -> Option<(Element<'a>, &'t [Token])> {
    let (first, rest) = tokens.split_first()?;
    let (sign, token, rest) = if first.is_symbol(text, "-") || first.is_symbol(text, "+") {
        let (token, rest) = rest.split_first()?;
        (first.text(text), token, rest)
    } else {
        ("", first, rest)
    };
    let written = token.text(text);
    let (value, is_word) = match token.kind {
        TokenKind::Integer if sign.is_empty() => (Cow::Owned(literal::integer_value(written)?.to_string()), false),
        TokenKind::Integer | TokenKind::Decimal => {
            let sign = if sign == "-" { "-" } else { "" };
            (Cow::Owned(format!("{sign}{written}")), false)
        }
        _ if !sign.is_empty() => return None,
        TokenKind::Word => (Cow::Owned(names::fold(written)), true),
        TokenKind::QuotedIdent => (Cow::Owned(names::unquote(written)?), true),
        TokenKind::String => (literal::string_value(text, token.range(), conforming)?, true),
        TokenKind::BitString | TokenKind::Param | TokenKind::Operator | TokenKind::Punctuation => return None,
    };
    Some((Element { value, is_word }, rest))
}

/// A boolean as parse_bool reads it: unambiguous beginnings of true, false, yes, no, on, off; 1 and 0.
pub fn boolean(value: &str) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        Some(true)
    } else if value == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some(false)
    } else {
        None
    }
}

/// The schemas of a search_path, in order; `$user` stays as it is (SplitIdentifierString in varlena.c). `None` for what
/// PostgreSQL would refuse.
pub fn search_path(value: &str) -> Option<Vec<String>> {
    let is_space = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
    let mut rest = value.trim_matches(is_space);
    let mut schemas = Vec::new();
    if rest.is_empty() {
        return Some(schemas);
    }
    loop {
        let (name, tail) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_schema(quoted)?,
            None => {
                let end = rest.find(|c: char| c == ',' || is_space(c)).unwrap_or(rest.len());
                (names::fold(rest.get(..end)?), rest.get(end..)?)
            }
        };
        if name.is_empty() && !rest.starts_with('"') {
            return None;
        }
        schemas.push(name);
        let tail = tail.trim_start_matches(is_space);
        if tail.is_empty() {
            return Some(schemas);
        }
        rest = tail.strip_prefix(',')?.trim_start_matches(is_space);
    }
}

/// Behind an opening quote: the name, and the text behind the closing one.
fn quoted_schema(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (inside, tail) = rest.split_once('"')?;
        name.push_str(inside);
        match tail.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((names::truncate(&name).to_owned(), tail)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::boolean;
    use super::search_path;
    use super::setting_value;
    use proptest::proptest;

    #[test]
    fn what_set_was_given_becomes_one_string() {
        for (name, written, expected) in [
            ("work_mem", "'4MB'", Some("4MB")),
            ("work_mem", "4096", Some("4096")),
            ("geqo", "ON", Some("on")),
            ("geqo", "TRUE", Some("true")),
            ("application_name", "\"My App\"", Some("My App")),
            ("application_name", "E'a\\'b'", Some("a'b")),
            ("seed", "-0.50", Some("-0.50")),
            ("x.y", "+5", Some("5")),
            ("search_path", "Foo, \"Bar\", 'a b', '$user', public", Some("foo, \"Bar\", \"a b\", \"$user\", public")),
            ("search_path", "''", Some("\"\"")),
            ("timezone", "INTERVAL '+00:00' HOUR TO MINUTE", None),
            ("datestyle", "ISO", None),
            ("x.y", "U&'a' UESCAPE '!'", None),
            ("x.y", "", None),
            ("x.y", "a,", None),
            ("x.y", "-'a'", None),
        ] {
            assert_eq!(setting_value(name, written, true).as_deref(), expected, "{name} {written}");
        }
    }

    #[test]
    fn booleans() {
        for (value, expected) in [
            ("on", Some(true)),
            ("T", Some(true)),
            ("1", Some(true)),
            ("off", Some(false)),
            ("of", Some(false)),
            ("o", None),
            ("n", Some(false)),
            ("", None),
            ("2", None),
        ] {
            assert_eq!(boolean(value), expected, "{value}");
        }
    }

    #[test]
    fn search_paths() {
        let schemas = |value: &str| search_path(value).map(|schemas| schemas.join("|"));
        assert_eq!(schemas("\"$user\", public").as_deref(), Some("$user|public"));
        assert_eq!(schemas(" Foo ,\"B\"\"ar\",\tbaz ").as_deref(), Some("foo|B\"ar|baz"));
        assert_eq!(schemas("").as_deref(), Some(""));
        assert_eq!(search_path("\"\"").unwrap(), [""]);
        for wrong in ["a,", ",", "a b", "\"a", "\"a\"b"] {
            assert_eq!(search_path(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = search_path(&text);
            let _ = setting_value("search_path", &text, true);
            let _ = setting_value("x", &text, false);
            let _ = boolean(&text);
        }
    }
}
