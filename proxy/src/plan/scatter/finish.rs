//! What the two forms of the final phase share: the shards' columns, and the client's expressions over them.

use super::Scattered;
use super::order::ListItem;
use super::order::SortItem;
use super::refused;
use super::text;
use crate::catalog::Relation;
use crate::error::Error;
use crate::plan::analyse::is_wildcard;
use crate::plan::classes::Atom;
use crate::plan::finish::FinalCollation;
use crate::plan::finish::FinalColumn;
use crate::plan::finish::FinalPiece;
use crate::plan::finish::ROWS;
use crate::plan::names;
use crate::plan::predicates;
use crate::plan::source::SourceText;
use crate::plan::template::Piece;
use crate::plan::template::Template;
use crate::sql::clauses;
use sqlparser::ast::Expr;
use sqlparser::ast::Function;
use sqlparser::ast::Ident;
use sqlparser::ast::SelectItem;
use sqlparser::ast::SelectItemQualifiedWildcardKind;
use sqlparser::ast::Spanned;
use std::ops::Range;

/// A part of the client's text that something else takes the place of: tokens, first and last.
pub struct Edit {
    pub first: usize,
    pub last: usize,
    pub by: FinalPiece,
}

/// The columns of the shards' rows as they are found to be needed.
#[derive(Default)]
pub struct Needed {
    /// What a column is known by, so that it is sent once.
    names: Vec<String>,
    /// The shards' text for it.
    pub sql: Vec<Template>,
    pub columns: Vec<FinalColumn>,
    /// Columns that the shards group by.
    pub keys: Vec<usize>,
    /// Columns that the final statement groups by too.
    pub groups: Vec<usize>,
}

impl Needed {
    pub fn add(&mut self, name: String, collation: FinalCollation, sql: impl FnOnce() -> Template) -> usize {
        if let Some(n) = self.names.iter().position(|known| *known == name) {
            return n;
        }
        self.names.push(name);
        self.sql.push(sql());
        self.columns.push(FinalColumn { collation });
        self.names.len() - 1
    }

    /// The shards' select list.
    pub fn push_list(&self, template: &mut Template) {
        for (n, sql) in self.sql.iter().enumerate() {
            template.push(if n == 0 { " " } else { ", " });
            template.pieces.extend(sql.pieces.iter().cloned());
            template.push(&format!(" AS shardway_{n}"));
        }
    }
}

pub fn reference(column: usize) -> FinalPiece {
    FinalPiece::Text(format!(" {ROWS}.shardway_{column} "))
}

/// Appends tokens `first..=last`, with the edits among them done.
pub fn push_edited(out: &mut Vec<FinalPiece>, first: usize, last: usize, edits: &[Edit]) {
    let mut at = first;
    for edit in edits.iter().filter(|e| e.first >= first && e.last <= last) {
        if at < edit.first {
            out.push(FinalPiece::Tokens { first: at, last: edit.first - 1 });
        }
        out.push(edit.by.clone());
        at = edit.last + 1;
    }
    if at <= last {
        out.push(FinalPiece::Tokens { first: at, last });
    }
}

pub fn push_text(out: &mut Vec<FinalPiece>, text: &str) {
    out.push(FinalPiece::Text(text.to_owned()));
}

/// First and last token of a byte range.
pub fn token_range(source: &SourceText<'_>, range: &Range<usize>) -> Option<(usize, usize)> {
    let within = clauses::tokens_in(source.tokens, range);
    let index = |start: u32| clauses::token_at(source.tokens, start as usize);
    Some((index(within.first()?.start)?, index(within.last()?.start)?))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl<'q> Scattered<'_, '_, 'q> {
    /// Tokens of a column's name.
    pub fn name_tokens(&self, expr: &Expr) -> Option<(usize, usize)> {
        let idents: &[Ident] = match expr {
            Expr::Identifier(ident) => std::slice::from_ref(ident),
            Expr::CompoundIdentifier(idents) => idents,
            _ => return None,
        };
        let start = self.source.range(idents.first()?.span)?.start;
        let end = self.source.range(idents.last()?.span)?.end;
        token_range(self.source, &(start..end))
    }

    /// Tokens of a call: name, arguments, WITHIN GROUP, FILTER and OVER.
    pub fn call_tokens(&self, function: &Function) -> Option<(usize, usize)> {
        let (tokens, text) = (self.source.tokens, self.source.text);
        let start = self.source.range(function.name.span())?.start;
        let first = clauses::token_at(tokens, start)?;
        let mut at = first;
        let symbol = |at: usize, s: &str| tokens.get(at).is_some_and(|t| t.is_symbol(text, s));
        let word = |at: usize, w: &str| tokens.get(at).is_some_and(|t| t.is_word(text, w));
        while symbol(at + 1, ".") {
            at += 2;
        }
        if !symbol(at + 1, "(") {
            return None;
        }
        let mut last = clauses::closing(tokens, text, at + 1)?;
        if word(last + 1, "within") && symbol(last + 3, "(") {
            last = clauses::closing(tokens, text, last + 3)?;
        }
        if word(last + 1, "filter") && symbol(last + 2, "(") {
            last = clauses::closing(tokens, text, last + 2)?;
        }
        if word(last + 1, "over") {
            last = if symbol(last + 2, "(") { clauses::closing(tokens, text, last + 2)? } else { last + 2 };
        }
        Some((first, last))
    }

    pub fn byte_range(&self, (first, last): (usize, usize)) -> Range<usize> {
        let tokens = self.source.tokens;
        match (tokens.get(first), tokens.get(last)) {
            (Some(first), Some(last)) => first.start as usize..last.end as usize,
            _ => 0..0,
        }
    }

    /// The column of the shards' rows for a column of FROM.
    ///
    /// # Errors
    /// 0A000 where it is not certain what the name means.
    pub fn leaf(&self, expr: &Expr, needed: &mut Needed) -> Result<(usize, (usize, usize)), Error> {
        let unclear = || refused("a name over several shards that is not told apart here");
        let idents: &[Ident] = match expr {
            Expr::Identifier(ident) => std::slice::from_ref(ident),
            Expr::CompoundIdentifier(idents) => idents,
            _ => return Err(unclear()),
        };
        let parts: Vec<String> = idents.iter().map(names::fold).collect();
        let found = self.scope.find(&parts).filter(|f| f.crossed.is_empty()).ok_or_else(unclear)?;
        let (first, last) = self.name_tokens(expr).ok_or_else(unclear)?;
        let column = needed.add(parts.join("\0"), self.collation_of(found.atom), || {
            let mut sql = Template::default();
            sql.push_tokens(first, last);
            sql
        });
        Ok((column, (first, last)))
    }

    /// The collation of a table's column.
    pub fn collation_of(&self, atom: Option<Atom>) -> FinalCollation {
        let relation: Option<&std::sync::Arc<Relation>> =
            atom.and_then(|a| self.analysis.owner(a.owner)).and_then(|o| o.relation.as_ref());
        let column = atom.zip(relation).and_then(|(a, r)| r.columns.get(a.column as usize));
        match column.map(|c| &c.collation_name) {
            Some(Some(name)) if name.schema == "pg_catalog" && name.name == "default" => FinalCollation::Default,
            Some(Some(name)) => FinalCollation::Named(format!("{}.{}", quoted(&name.schema), quoted(&name.name))),
            _ if self.only_default_collations() => FinalCollation::Default,
            _ => FinalCollation::Unknown,
        }
    }

    /// The collation of an expression's value.
    pub fn collation_of_expression(&self, expr: &Expr) -> FinalCollation {
        match predicates::peel(expr) {
            expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {
                self.collation_of(self.analysis.bare_atom(expr, self.scope))
            }
            _ if self.only_default_collations() => FinalCollation::Default,
            _ => FinalCollation::Unknown,
        }
    }

    /// No text in the statement has another collation than the database's.
    fn only_default_collations(&self) -> bool {
        let source = self.source;
        let is_default = |column: &crate::catalog::Column| match &column.collation_name {
            Some(name) => name.schema == "pg_catalog" && name.name == "default",
            None => column.collation == crate::catalog::Collation::None,
        };
        !source.tokens.iter().any(|t| t.is_word(source.text, "collate"))
            && self.analysis.facts.relations.iter().all(|r| {
                let collates = r.definition.as_deref().is_some_and(|d| d.to_ascii_lowercase().contains("collate"));
                !collates && r.columns.iter().all(is_default)
            })
    }

    /// The columns that `*` or `t.*` stands for, as columns of the shards' rows.
    ///
    /// # Errors
    /// 0A000 where they are not all known.
    pub fn star(&self, item: &SelectItem, needed: &mut Needed) -> Result<Vec<usize>, Error> {
        let unknown = || refused("* over several shards whose columns are not told apart here");
        let items: Vec<_> = match item {
            SelectItem::Wildcard(_) => self.scope.items.iter().collect(),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let label = names::parts(name).and_then(|mut p| p.pop()).ok_or_else(unknown)?;
                self.scope.items.iter().filter(|i| i.label.as_ref() == Some(&label)).collect()
            }
            _ => return Err(unknown()),
        };
        let mut columns = Vec::new();
        for item in &items {
            let label = item.label.as_ref().ok_or_else(unknown)?;
            for (name, atom) in item.columns.as_ref().ok_or_else(unknown)? {
                let sql = format!("{}.{}", quoted(label), quoted(name));
                columns.push(needed.add(format!("{label}\0{name}"), self.collation_of(*atom), || Template {
                    pieces: vec![Piece::Text(sql)],
                }));
            }
        }
        let all = self.scope.columns.complete && self.scope.columns.known.len() == columns.len();
        let merged = matches!(item, SelectItem::Wildcard(_)) && !all;
        if merged || (items.len() != 1 && !matches!(item, SelectItem::Wildcard(_))) {
            return Err(unknown());
        }
        Ok(columns)
    }

    /// The key of ORDER BY over the final statement's own list: an output column by its place where it is one.
    /// `widths`: how many columns each item has.
    pub fn final_key(&self, key: &SortItem<'q>, list: &[ListItem<'q>], widths: &[usize]) -> Option<String> {
        if let Some(n) = key.item.filter(|n| list.get(*n).is_some_and(|i| !is_wildcard(i.item))) {
            let before: usize = widths.iter().take(n).sum();
            return Some((before + 1).to_string());
        }
        key.ordinal.map(|n| (n + 1).to_string())
    }

    /// LIMIT, OFFSET and FETCH as the client wrote them.
    pub fn push_counts(&self, out: &mut Vec<FinalPiece>) {
        for clause in [&self.clauses.limit, &self.clauses.offset, &self.clauses.fetch].into_iter().flatten() {
            if let Some((first, last)) = token_range(self.source, &clause.range) {
                push_text(out, " ");
                out.push(FinalPiece::Tokens { first, last });
            }
        }
    }

    /// `WITH …` and the word SELECT.
    pub fn shard_head(&self) -> Template {
        let mut sql = Template::default();
        if self.clauses.head.start > 0 {
            text::push_range(&mut sql, self.source, &(0..self.clauses.head.start));
            sql.push(" ");
        }
        sql.push("SELECT");
        sql
    }

    /// FROM and WHERE.
    pub fn push_source(&self, sql: &mut Template) {
        for clause in [&self.clauses.from, &self.clauses.where_].into_iter().flatten() {
            sql.push(" ");
            text::push_range(sql, self.source, &clause.range);
        }
    }
}

pub fn direction(key: &SortItem<'_>) -> &'static str {
    match (key.descending, key.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

/// The same with other pieces in the place of tokens; see [`Template::with_edits`].
pub fn with_edits(pieces: &[FinalPiece], edits: &[(usize, usize, Vec<Piece>)]) -> Vec<FinalPiece> {
    let mut out = Vec::new();
    for piece in pieces {
        let FinalPiece::Tokens { first, last } = piece else {
            out.push(piece.clone());
            continue;
        };
        let tokens = Template { pieces: vec![Piece::Tokens { first: *first, last: *last }] };
        out.extend(tokens.with_edits(edits).pieces.into_iter().map(|piece| match piece {
            Piece::Text(text) => FinalPiece::Text(text),
            Piece::Tokens { first, last } => FinalPiece::Tokens { first, last },
        }));
    }
    out
}
