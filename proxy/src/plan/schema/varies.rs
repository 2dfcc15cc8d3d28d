//! Expressions that give different values on different shards, found by their tokens.

use super::cursor::Cursor;
use crate::plan::Context;
use crate::plan::functions;
use crate::plan::functions::Kind;
use crate::sql::lexer::TokenKind;
use crate::sql::names;

/// Words that are functions without parentheses.
const BARE: [&str; 6] =
    ["current_timestamp", "current_date", "current_time", "localtime", "localtimestamp", "current_catalog"];
/// Strings that are another value each time that they are read (datetime.c).
const SPECIAL: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// What in an expression may give another value on another shard, or on the next row.
pub fn varies(expression: &Cursor<'_>, context: &Context<'_>) -> Option<String> {
    let mut rest = *expression;
    while let Some(token) = rest.peek() {
        let text = token.text(rest.text);
        match token.kind {
            TokenKind::Word if BARE.iter().any(|word| text.eq_ignore_ascii_case(word)) => {
                return Some(text.to_ascii_lowercase());
            }
            TokenKind::String => {
                let value = text.trim_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
                if SPECIAL.iter().any(|special| value.contains(special)) {
                    return Some(text.to_owned());
                }
            }
            TokenKind::Operator if context.catalog.functions.operators.contains(text) => {
                return Some(format!("operator {text}"));
            }
            TokenKind::Word | TokenKind::QuotedIdent => {
                let mut call = rest;
                if let Some(parts) = label_chain(&mut call)
                    && call.symbol_at(0, "(")
                    && differs(&parts, context)
                {
                    return Some(format!("{}()", parts.join(".")));
                }
            }
            _ => {}
        }
        rest.skip(1);
    }
    None
}

fn label_chain(call: &mut Cursor<'_>) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    loop {
        let token = call.peek()?;
        parts.push(match token.kind {
            TokenKind::Word => names::fold(token.text(call.text)),
            TokenKind::QuotedIdent => names::unquote(token.text(call.text))?,
            _ => return None,
        });
        call.skip(1);
        if !call.symbol(".") {
            return Some(parts);
        }
    }
}

fn differs(parts: &[String], context: &Context<'_>) -> bool {
    match functions::kind(context, parts) {
        Kind::Plain(traits) => traits.volatile,
        // a type with its length, a key word before a parenthesis, or an error
        Kind::Unknown => false,
        Kind::Opaque
        | Kind::Declared { .. }
        | Kind::Time
        | Kind::Server
        | Kind::Sequence
        | Kind::SetConfig
        | Kind::AdvisoryLock { .. }
        | Kind::Notify => true,
    }
}
