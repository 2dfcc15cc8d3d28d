//! A statement whose tables are all in one subquery of FROM, or in its one common table expression: the subquery is
//! made exact by the final phase, and the statement around it, which reads no table, runs over it on the same server.

use super::Way;
use super::finish::with_edits;
use crate::plan::Layout;
use crate::plan::ScatterPlan;
use crate::plan::analyse::Analysis;
use crate::plan::analyse::Scope;
use crate::plan::finish::FinalPiece;
use crate::plan::finish::FinalPlan;
use crate::plan::names;
use crate::plan::source::SourceText;
use crate::plan::template::Piece;
use crate::plan::template::Template;
use crate::sql::Statement;
use crate::sql::clauses;
use sqlparser::ast::Query;
use sqlparser::ast::SetExpr;
use sqlparser::ast::Statement as Tree;
use sqlparser::ast::TableFactor;
use sqlparser::ast::visit_relations;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// The anchor, the plan and the literals that it was made for; `None` where the statement is not of this kind, or its
/// subquery cannot be made exact.
pub fn plan(analysis: &Analysis<'_>, query: &Query, source: &SourceText<'_>) -> Option<(u32, ScatterPlan, Vec<usize>)> {
    if analysis.facts.locks {
        return None;
    }
    let (first, last) = in_from(query, source).or_else(|| in_with(query, source))?;
    let (start, end) = (source.tokens.get(first)?.start as usize, source.tokens.get(last)?.end as usize);
    let text = source.text.get(start..end)?;
    let statement = Statement::new(Arc::from(text), source.standard_conforming_strings).ok()?;
    let Ok(Tree::Query(inner_query)) = statement.tree() else { return None };
    if statement.tokens.len() != last - first + 1 || !reads_all(query, inner_query) {
        return None;
    }
    let inner_source = SourceText::new(&statement.text, &statement.tokens, true, source.standard_conforming_strings);
    let scope = Rc::new(Scope::new(&inner_source, false));
    let mut inner = Analysis::new(analysis.context);
    let result = inner.query(inner_query, &scope, 0);
    let facts = &inner.facts;
    if facts.error.is_some()
        || facts.foreign
        || facts.outer_aggregate
        || facts.too_large
        || !facts.unknown.is_empty()
        || facts.unknown_function.is_some()
    {
        return None;
    }
    let found = super::decide(&inner, inner_query, &result, &inner_source, Way::Final);
    let (anchor, plan, fixed) = found.ok().or_else(|| self::plan(&inner, inner_query, &inner_source))?;
    let anchor = same_owner(analysis, &inner, anchor)?;
    let Layout::Final(last_plan) = plan.layout else { return None };
    let before = source.literals.iter().filter(|(from, _)| *from < start).count();
    let pieces = around(source, first, last, shifted(last_plan.pieces, first));
    let layout = Layout::Final(FinalPlan { pieces, columns: last_plan.columns, raw: last_plan.raw });
    let sql = Template { pieces: plan.sql.pieces.into_iter().map(|piece| shift(piece, first)).collect() };
    let plan = ScatterPlan { sql, layout, limit: None, offset: None, moment: None, otherwise: None, in_turn: false };
    Some((anchor, plan, fixed.into_iter().map(|n| n + before).collect()))
}

/// The tokens within the parentheses of the only item of FROM.
fn in_from(query: &Query, source: &SourceText<'_>) -> Option<(usize, usize)> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let [item] = select.from.as_slice() else { return None };
    let TableFactor::Derived { lateral: false, .. } = item.relation else { return None };
    if !item.joins.is_empty() || query.with.is_some() || select.into.is_some() {
        return None;
    }
    let from = super::text::clauses(source)?.from?;
    within(source, clauses::token_at(source.tokens, from.body.start)?)
}

/// The tokens within the parentheses of the only common table expression.
fn in_with(query: &Query, source: &SourceText<'_>) -> Option<(usize, usize)> {
    let with = query.with.as_ref()?;
    if with.recursive || with.cte_tables.len() != 1 {
        return None;
    }
    let word = |at: usize, word: &str| source.tokens.get(at).is_some_and(|t| t.is_word(source.text, word));
    let mut at = 2;
    if source.tokens.get(at)?.is_symbol(source.text, "(") {
        at = clauses::closing(source.tokens, source.text, at)? + 1;
    }
    if !word(0, "with") || !word(at, "as") {
        return None;
    }
    at += 1;
    at += usize::from(word(at, "not"));
    at += usize::from(word(at, "materialized"));
    within(source, at)
}

fn within(source: &SourceText<'_>, open: usize) -> Option<(usize, usize)> {
    if !source.tokens.get(open)?.is_symbol(source.text, "(") {
        return None;
    }
    let close = clauses::closing(source.tokens, source.text, open)?;
    (open + 1 < close).then(|| (open + 1, close - 1))
}

/// Whether all relations of a query are those of its subquery, but for references to its common table expression,
/// which the subquery itself must not have.
fn reads_all(query: &Query, inner: &Query) -> bool {
    let relations = |query: &Query| {
        let mut found = Vec::new();
        let _: ControlFlow<()> = visit_relations(query, |name| {
            found.push(names::parts(name).unwrap_or_default());
            ControlFlow::Continue(())
        });
        found
    };
    let cte = query.with.as_ref().and_then(|w| w.cte_tables.first()).map(|c| vec![names::fold(&c.alias.name)]);
    let (all, own) = (relations(query), relations(inner));
    let references = all.iter().filter(|name| Some(*name) == cte.as_ref()).count();
    !own.iter().any(|name| Some(name) == cte.as_ref() || name.is_empty()) && all.len() == own.len() + references
}

/// The table instance of the whole statement that is this one of its subquery. A common table expression is taken apart
/// for each use: all uses must then concern the same keys.
fn same_owner(whole: &Analysis<'_>, inner: &Analysis<'_>, owner: u32) -> Option<u32> {
    let at = inner.sharded().position(|o| o == owner)?;
    let (all, count): (Vec<u32>, usize) = (whole.sharded().collect(), inner.sharded().count());
    if all.len() % count != 0 {
        return None;
    }
    let name = |analysis: &Analysis<'_>, owner: u32| Some(analysis.owner(owner)?.relation.as_ref()?.name.clone());
    let mut uses = all.iter().copied().skip(at).step_by(count);
    let first = uses.next().filter(|found| name(whole, *found) == name(inner, owner))?;
    let condition = |owner: u32| whole.condition(owner).map(|c| c.expr);
    let same = |other: u32| name(whole, other) == name(whole, first) && condition(other) == condition(first);
    uses.all(same).then_some(first)
}

/// The whole text with pieces in the place of its tokens `first..=last`.
fn around(source: &SourceText<'_>, first: usize, last: usize, inner: Vec<FinalPiece>) -> Vec<FinalPiece> {
    let end = match source.tokens.last() {
        Some(token) if token.is_symbol(source.text, ";") => source.tokens.len().saturating_sub(2),
        _ => source.tokens.len().saturating_sub(1),
    };
    let mut pieces = vec![FinalPiece::Tokens { first: 0, last: first.saturating_sub(1) }];
    pieces.push(FinalPiece::Text(" ".to_owned()));
    pieces.extend(inner);
    pieces.push(FinalPiece::Text(" ".to_owned()));
    pieces.push(FinalPiece::Tokens { first: last + 1, last: end });
    with_edits(&pieces, &[])
}

fn shifted(pieces: Vec<FinalPiece>, by: usize) -> Vec<FinalPiece> {
    let one = |piece| match piece {
        FinalPiece::Tokens { first, last } => FinalPiece::Tokens { first: first + by, last: last + by },
        piece => piece,
    };
    pieces.into_iter().map(one).collect()
}

fn shift(piece: Piece, by: usize) -> Piece {
    match piece {
        Piece::Tokens { first, last } => Piece::Tokens { first: first + by, last: last + by },
        piece => piece,
    }
}
