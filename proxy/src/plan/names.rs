//! Names: folding as PostgreSQL does, and which relation a name means under a search_path.

use super::Context;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use sqlparser::ast::Ident;
use sqlparser::ast::ObjectName;
use sqlparser::ast::ObjectNamePart;
use std::sync::Arc;

/// NAMEDATALEN - 1.
const NAME_BYTES: usize = 63;

/// What a relation name means.
#[derive(Clone, Debug)]
pub enum Named {
    Relation(Arc<Relation>),
    /// A temporary table of the session.
    Temporary,
    /// pg_catalog or information_schema.
    System,
    Unknown(QualifiedName),
}

/// An identifier as stored in pg_catalog: ASCII letters folded unless quoted, cut to 63 bytes.
pub fn fold(ident: &Ident) -> String {
    let mut name = match ident.quote_style {
        None => ident.value.to_ascii_lowercase(),
        // the parser keeps doubled quotes when it does not unescape
        Some(quote) => ident.value.replace(&format!("{quote}{quote}"), &quote.to_string()),
    };
    truncate(&mut name);
    name
}

pub fn truncate(name: &mut String) {
    if name.len() > NAME_BYTES {
        let mut end = NAME_BYTES;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
}

/// The parts of a name, folded; `None` for what is no plain name.
pub fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Some(fold(ident)),
            ObjectNamePart::Function(_) => None,
        })
        .collect()
}

/// The relation that a name of one to three parts means (namespace.c, RelnameGetRelid: temporary tables first, then
/// pg_catalog unless search_path names it, then search_path).
pub fn relation(context: &Context<'_>, parts: &[String]) -> Named {
    let (schema, name) = match parts {
        [name] => (None, name),
        [.., schema, name] => (Some(schema.as_str()), name),
        [] => return Named::Unknown(QualifiedName { schema: String::new(), name: String::new() }),
    };
    match schema {
        Some(schema) => qualified(context, schema, name),
        None => unqualified(context, name),
    }
}

fn qualified(context: &Context<'_>, schema: &str, name: &str) -> Named {
    match schema {
        "pg_catalog" | "information_schema" | "pg_toast" => Named::System,
        "pg_temp" => Named::Temporary,
        _ => match context.catalog.relation(schema, name) {
            Some(relation) => Named::Relation(relation.clone()),
            None => Named::Unknown(QualifiedName { schema: schema.to_owned(), name: name.to_owned() }),
        },
    }
}

fn unqualified(context: &Context<'_>, name: &str) -> Named {
    if context.temporary.iter().any(|t| t == name) {
        return Named::Temporary;
    }
    let is_system = context.catalog.system.contains(name);
    if is_system && !context.search_path.iter().any(|s| s == "pg_catalog") {
        return Named::System;
    }
    for schema in context.search_path {
        match schema.as_str() {
            "pg_catalog" if is_system => return Named::System,
            "pg_catalog" | "pg_temp" => {}
            // its views are not listed in the catalog; nothing else can be meant when nothing else has the name
            "information_schema" => {}
            schema => {
                if let Some(relation) = context.catalog.relation(schema, name) {
                    return Named::Relation(relation.clone());
                }
            }
        }
    }
    if context.search_path.iter().any(|s| s == "information_schema") {
        return Named::System;
    }
    let schema = context.search_path.first().cloned().unwrap_or_default();
    Named::Unknown(QualifiedName { schema, name: name.to_owned() })
}

/// Splits a name as it stands in a regclass constant: `a.b`, `"A".b`.
pub fn parse_qualified(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = next_part(rest)?;
        parts.push(part);
        let after = after.trim_start();
        if after.is_empty() {
            return Some(parts);
        }
        rest = after.strip_prefix('.')?.trim_start();
    }
}

fn next_part(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut rest = quoted;
        loop {
            let end = rest.find('"')?;
            name.push_str(rest.get(..end)?);
            rest = rest.get(end + 1..)?;
            match rest.strip_prefix('"') {
                Some(after) => {
                    name.push('"');
                    rest = after;
                }
                None => break,
            }
        }
        truncate(&mut name);
        return Some((name, rest));
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
    let mut name = text.get(..end)?.to_ascii_lowercase();
    if name.is_empty() {
        return None;
    }
    truncate(&mut name);
    Some((name, text.get(end..)?))
}
