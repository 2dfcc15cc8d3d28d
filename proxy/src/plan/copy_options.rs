//! The options of COPY, in both of its grammars (gram.y, copy_opt_list and copy_generic_opt_list).

use super::schema::cursor::Cursor;
use crate::error::Error;
use crate::sql::lexer::TokenKind;
use crate::sql::names;
use crate::sql::normalize;
use crate::wire::copy::Format;
use crate::wire::copy::Shape;

/// What options say, as far as it matters here.
#[derive(Clone, Debug)]
pub struct Options {
    pub shape: Shape,
    /// FORCE_NULL and FORCE_NOT_NULL: columns, or all.
    pub force_null: Columns,
    pub force_not_null: Columns,
    /// ENCODING
    pub encoding: Option<String>,
    /// The tokens of WHERE, if there is one.
    pub has_where: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    None,
    All,
    Some(Vec<String>),
}

impl Columns {
    pub fn has(&self, name: &str) -> bool {
        match self {
            Columns::None => false,
            Columns::All => true,
            Columns::Some(names) => names.iter().any(|n| n == name),
        }
    }
}

/// One option, whichever way it was written.
#[derive(Default)]
struct Found {
    format: Option<Format>,
    delimiter: Option<String>,
    null: Option<String>,
    quote: Option<String>,
    escape: Option<String>,
    header: bool,
}

/// Reads the options that stand behind STDIN or STDOUT; `binary`: COPY BINARY was written.
///
/// # Errors
/// 0A000 for an option that is not known here; what PostgreSQL says of it comes before that.
pub fn read(mut cursor: Cursor<'_>, binary: bool, conforming: bool) -> Result<Options, Error> {
    let mut found = Found { format: binary.then_some(Format::Binary), ..Found::default() };
    let mut options = Options {
        shape: Shape::of(Format::Text),
        force_null: Columns::None,
        force_not_null: Columns::None,
        encoding: None,
        has_where: false,
    };
    if cursor.word("using") || cursor.word_at(0, "delimiters") {
        cursor.word("delimiters");
        found.delimiter = Some(string(&mut cursor, conforming)?);
    }
    cursor.word("with");
    if let Some(list) = cursor.parens() {
        for item in list.items() {
            generic(item, conforming, &mut found, &mut options)?;
        }
    } else {
        while !cursor.is_done() && !cursor.word_at(0, "where") {
            old(&mut cursor, conforming, &mut found, &mut options)?;
        }
    }
    options.has_where = cursor.word("where");
    if !options.has_where && !cursor.is_done() {
        return Err(unknown(cursor.rest()));
    }
    finish(found, &mut options)?;
    Ok(options)
}

fn finish(found: Found, options: &mut Options) -> Result<(), Error> {
    let mut shape = Shape::of(found.format.unwrap_or(Format::Text));
    shape.header = found.header;
    if let Some(delimiter) = &found.delimiter {
        shape.delimiter = one_byte(delimiter, "DELIMITER")?;
    }
    if let Some(null) = found.null {
        shape.null = null.into_bytes();
    }
    if let Some(quote) = &found.quote {
        shape.quote = one_byte(quote, "QUOTE")?;
        // the escape is the quote, unless it is given
        shape.escape = shape.quote;
    }
    if let Some(escape) = &found.escape {
        shape.escape = one_byte(escape, "ESCAPE")?;
    }
    options.shape = shape;
    Ok(())
}

fn unknown(what: &str) -> Error {
    Error::unsupported(format!("the COPY option {what}")).hint("Leave it out.")
}

fn one_byte(text: &str, option: &str) -> Result<u8, Error> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(Error::unsupported(format!("COPY {option} of more than one byte"))),
    }
}

/// A string constant.
fn string(cursor: &mut Cursor<'_>, conforming: bool) -> Result<String, Error> {
    cursor.word("as");
    let token = cursor.peek().filter(|token| token.kind == TokenKind::String);
    let value = token.and_then(|token| normalize::string_value(cursor.text, token.range(), conforming));
    cursor.skip(1);
    value.map(|v| v.into_owned()).ok_or_else(|| unknown(cursor.rest()))
}

/// A name or string constant, as generic options have them.
fn word(cursor: &Cursor<'_>, conforming: bool) -> Result<String, Error> {
    let mut one = *cursor;
    if one.peek().is_some_and(|token| token.kind == TokenKind::String) {
        return string(&mut one, conforming);
    }
    one.peek().map(|token| names::fold(token.text(one.text))).ok_or_else(|| unknown(cursor.rest()))
}

/// `name [value]` in parentheses.
fn generic(mut item: Cursor<'_>, conforming: bool, found: &mut Found, options: &mut Options) -> Result<(), Error> {
    let name = item.peek().map(|token| names::fold(token.text(item.text))).unwrap_or_default();
    let all = item.rest().to_owned();
    item.skip(1);
    match name.as_str() {
        "format" => {
            found.format = Some(match word(&item, conforming)?.as_str() {
                "text" => Format::Text,
                "csv" => Format::Csv,
                "binary" => Format::Binary,
                _ => return Err(unknown(&all)),
            });
        }
        "delimiter" => found.delimiter = Some(string(&mut item, conforming)?),
        "null" => found.null = Some(string(&mut item, conforming)?),
        "quote" => found.quote = Some(string(&mut item, conforming)?),
        "escape" => found.escape = Some(string(&mut item, conforming)?),
        "encoding" => options.encoding = Some(word(&item, conforming)?),
        "header" => {
            let value = if item.is_done() { "true".to_owned() } else { word(&item, conforming)?.to_ascii_lowercase() };
            found.header = match value.as_str() {
                "true" | "on" | "1" | "match" => true,
                "false" | "off" | "0" => false,
                _ => return Err(unknown(&all)),
            };
        }
        "freeze" | "force_quote" => {}
        "force_null" => options.force_null = columns(&mut item).ok_or_else(|| unknown(&all))?,
        "force_not_null" => options.force_not_null = columns(&mut item).ok_or_else(|| unknown(&all))?,
        _ => return Err(unknown(&all)),
    }
    Ok(())
}

/// `*` or `(a, b)`.
fn columns(item: &mut Cursor<'_>) -> Option<Columns> {
    if item.rest() == "*" {
        return Some(Columns::All);
    }
    item.name_list().map(Columns::Some)
}

/// One option of the older grammar.
fn old(cursor: &mut Cursor<'_>, conforming: bool, found: &mut Found, options: &mut Options) -> Result<(), Error> {
    if cursor.word("binary") {
        found.format = Some(Format::Binary);
    } else if cursor.word("csv") {
        found.format = Some(Format::Csv);
    } else if cursor.word("header") {
        found.header = true;
    } else if cursor.word("freeze") {
    } else if cursor.word("delimiter") {
        found.delimiter = Some(string(cursor, conforming)?);
    } else if cursor.word("null") {
        found.null = Some(string(cursor, conforming)?);
    } else if cursor.word("quote") {
        found.quote = Some(string(cursor, conforming)?);
    } else if cursor.word("escape") {
        found.escape = Some(string(cursor, conforming)?);
    } else if cursor.word("encoding") {
        options.encoding = Some(string(cursor, conforming)?);
    } else if cursor.words(&["force", "quote"]) {
        if !cursor.symbol("*") {
            bare_columns(cursor).ok_or_else(|| unknown("FORCE QUOTE"))?;
        }
    } else if cursor.words(&["force", "not", "null"]) {
        options.force_not_null = star_or_columns(cursor, "FORCE NOT NULL")?;
    } else if cursor.words(&["force", "null"]) {
        options.force_null = star_or_columns(cursor, "FORCE NULL")?;
    } else {
        return Err(unknown(cursor.rest()));
    }
    Ok(())
}

fn star_or_columns(cursor: &mut Cursor<'_>, what: &str) -> Result<Columns, Error> {
    if cursor.symbol("*") {
        return Ok(Columns::All);
    }
    bare_columns(cursor).map(Columns::Some).ok_or_else(|| unknown(what))
}

fn bare_columns(cursor: &mut Cursor<'_>) -> Option<Vec<String>> {
    let mut names = vec![cursor.name()?];
    while cursor.symbol(",") {
        names.push(cursor.name()?);
    }
    Some(names)
}
