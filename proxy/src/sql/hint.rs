//! Hint comments at the start of a statement: where it shall run, said by the client.

use crate::sql::names;

/// What a hint comment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// `/* shardway.shard = s1 */`: the shard's name, as written.
    Shard(String),
    /// `/* shardway.run_on = home */`
    RunOnHome,
    /// `/* shardway.run_on = all */`
    RunOnAll,
    /// A comment that starts with `shardway.` and says none of the above: to be refused, not to be overlooked.
    Invalid(String),
}

/// The hint in the comments before the first token, if there is one. The first one counts.
pub fn hint(text: &str) -> Option<Hint> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
        if let Some(line) = rest.strip_prefix("--") {
            rest = line.get(line.find(['\n', '\r'])?..)?;
        } else if rest.starts_with("/*") {
            let end = comment_end(rest)?;
            let body = rest.get(2..end - 2)?.trim_ascii();
            if body.starts_with("shardway.") {
                return Some(read(body));
            }
            rest = rest.get(end..)?;
        } else {
            return None;
        }
    }
}

/// Behind a comment, which nests.
fn comment_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

fn read(body: &str) -> Hint {
    let invalid = || Hint::Invalid(body.to_owned());
    let Some((name, value)) = body.split_once('=') else { return invalid() };
    let Some(value) = bare(value.trim_ascii()) else { return invalid() };
    match (name.trim_ascii(), value.as_str()) {
        ("shardway.shard", shard) if !shard.is_empty() => Hint::Shard(value),
        ("shardway.run_on", "home") => Hint::RunOnHome,
        ("shardway.run_on", "all") => Hint::RunOnAll,
        _ => invalid(),
    }
}

/// A word, 'x' or "x".
fn bare(value: &str) -> Option<String> {
    if value.starts_with('"') {
        return names::unquote(value);
    }
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.strip_suffix('\'').map(|inner| inner.replace("''", "'"));
    }
    let word = value.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    word.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::Hint;
    use super::hint;
    use proptest::proptest;

    #[test]
    fn hints_are_read_at_the_start_only() {
        for (text, expected) in [
            ("/* shardway.shard = s1 */ SELECT 1", Some(Hint::Shard("s1".into()))),
            (" -- first\n/* other */\t/*shardway.shard='eu 1'*/SELECT", Some(Hint::Shard("eu 1".into()))),
            ("/* shardway.shard = \"S\" */", Some(Hint::Shard("S".into()))),
            ("/* shardway.run_on = home */ CALL f()", Some(Hint::RunOnHome)),
            ("/* shardway.run_on=all */ CALL f()", Some(Hint::RunOnAll)),
            ("/* shardway.run_on = any */", Some(Hint::Invalid("shardway.run_on = any".into()))),
            ("/* shardway.shrad = s1 */", Some(Hint::Invalid("shardway.shrad = s1".into()))),
            ("/* shardway.shard */", Some(Hint::Invalid("shardway.shard".into()))),
            ("SELECT /* shardway.shard = s1 */ 1", None),
            ("SELECT 1 /* shardway.shard = s1 */", None),
            ("-- shardway.shard = s1\nSELECT 1", None),
            ("/* about shardway.shard = s1 */ SELECT 1", None),
            ("/* /* shardway.shard = s1 */ */ SELECT 1", None),
            ("/* shardway.shard = s1", None),
            ("", None),
        ] {
            assert_eq!(hint(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(/\\*|\\*/|shardway\\.|shard|=|'|\"|é|--|\n| ){0,20}") {
            let _ = hint(&text);
        }
    }
}
