//! Identifiers: folding, truncation, quoting, and which words cannot be names.

use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use std::borrow::Cow;

/// NAMEDATALEN - 1
const NAME_BYTES: usize = 63;

/// Reserved words (RESERVED_KEYWORD in src/include/parser/kwlist.h): no names at all.
#[rustfmt::skip]
const RESERVED: [&str; 77] = [
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "both", "case", "cast", "check",
    "collate", "column", "constraint", "create", "current_catalog", "current_date", "current_role", "current_time",
    "current_timestamp", "current_user", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except",
    "false", "fetch", "for", "foreign", "from", "grant", "group", "having", "in", "initially", "intersect", "into",
    "lateral", "leading", "limit", "localtime", "localtimestamp", "not", "null", "offset", "on", "only", "or",
    "order", "placing", "primary", "references", "returning", "select", "session_user", "some", "symmetric", "table",
    "then", "to", "trailing", "true", "union", "unique", "user", "using", "variadic", "when", "where", "window",
    "with",
];

/// TYPE_FUNC_NAME_KEYWORD: no names of tables, columns, cursors, savepoints, …
#[rustfmt::skip]
const TYPE_OR_FUNCTION: [&str; 23] = [
    "authorization", "binary", "collation", "concurrently", "cross", "current_schema", "freeze", "full", "ilike",
    "inner", "is", "isnull", "join", "left", "like", "natural", "notnull", "outer", "overlaps", "right", "similar",
    "tablesample", "verbose",
];

/// COL_NAME_KEYWORD: names, but no functions.
#[rustfmt::skip]
const COLUMN_NAME: [&str; 51] = [
    "between", "bigint", "bit", "boolean", "char", "character", "coalesce", "dec", "decimal", "exists", "extract",
    "float", "greatest", "grouping", "inout", "int", "integer", "interval", "least", "national", "nchar", "none",
    "normalize", "nullif", "numeric", "out", "overlay", "position", "precision", "real", "row", "setof", "smallint",
    "substring", "time", "timestamp", "treat", "trim", "values", "varchar", "xmlattributes", "xmlconcat",
    "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize",
    "xmltable",
];

/// Whether a word is reserved, in any case.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved))
}

/// Whether an unquoted word can be a name (ColId in gram.y).
pub fn can_be_name(word: &str) -> bool {
    !is_reserved(word) && !TYPE_OR_FUNCTION.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// An unquoted word as a name: lower case (ASCII only, as in a UTF8 database; downcase_identifier in scansup.c), cut
/// to 63 bytes.
pub fn fold(word: &str) -> String {
    truncate(&word.to_ascii_lowercase()).to_owned()
}

/// The name that a token is: `None` for a word that cannot be a name, for U&"…", and for what is no word.
pub fn identifier(text: &str, token: &Token) -> Option<String> {
    let written = token.text(text);
    match token.kind {
        TokenKind::Word => can_be_name(written).then(|| fold(written)),
        TokenKind::QuotedIdent => unquote(written),
        TokenKind::String
        | TokenKind::BitString
        | TokenKind::Integer
        | TokenKind::Decimal
        | TokenKind::Param
        | TokenKind::Operator
        | TokenKind::Punctuation => None,
    }
}

/// "a""b" → a"b; `None` for U&"…" and for an empty name.
pub fn unquote(written: &str) -> Option<String> {
    let name = written.strip_prefix('"')?.strip_suffix('"')?.replace("\"\"", "\"");
    (!name.is_empty()).then(|| truncate(&name).to_owned())
}

/// Cuts a name to 63 bytes at a character's border (truncate_identifier).
pub fn truncate(name: &str) -> &str {
    let end = (0..=NAME_BYTES.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name.get(..end).unwrap_or(name)
}

/// A name as SQL, always in quotes.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name as quote_identifier (ruleutils.c) writes it: quotes only where they are needed. Newer PostgreSQL has a few
/// more key words, so it serves comparison and display rather than SQL.
pub fn quote_if_needed(name: &str) -> Cow<'_, str> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| matches!(byte, b'a'..=b'z' | b'_'));
    let plain = first && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    let safe = plain && can_be_name(name) && !COLUMN_NAME.contains(&name);
    if safe { Cow::Borrowed(name) } else { Cow::Owned(quote(name)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::RESERVED;
    use super::can_be_name;
    use super::fold;
    use super::quote;
    use super::quote_if_needed;
    use super::unquote;

    #[test]
    fn words_fold_and_are_cut() {
        assert_eq!(fold("FooÄ"), "fooÄ");
        assert_eq!(fold(&"x".repeat(70)).len(), 63);
        assert_eq!(fold(&"é".repeat(40)).len(), 62);
    }

    #[test]
    fn quotes_round_trip() {
        for name in ["a", "A b", "a\"b", "é"] {
            assert_eq!(unquote(&quote(name)).as_deref(), Some(name));
        }
        assert_eq!(unquote("\"\""), None);
        assert_eq!(unquote("U&\"a\""), None);
        assert_eq!(quote_if_needed("a_1"), "a_1");
        assert_eq!(quote_if_needed("A"), "\"A\"");
        assert_eq!(quote_if_needed("select"), "\"select\"");
        assert_eq!(quote_if_needed("1a"), "\"1a\"");
    }

    #[test]
    fn reserved_words_are_no_names() {
        assert!(RESERVED.is_sorted());
        assert!(!can_be_name("SELECT") && !can_be_name("left") && can_be_name("savepoint"));
    }
}
