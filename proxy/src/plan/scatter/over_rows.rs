//! The two plans that end in a statement of the final phase: over partial aggregates, and over plain rows.

use super::Scattered;
use super::finish;
use super::finish::direction;
use super::finish::push_edited;
use super::finish::push_text;
use super::finish::reference;
use super::finish::token_range;
use super::limit;
use super::order::ListItem;
use super::order::SortItem;
use super::reader::Form;
use super::reader::Reader;
use super::refused;
use super::text;
use crate::error::Error;
use crate::plan::Layout;
use crate::plan::ScatterPlan;
use crate::plan::analyse::is_wildcard;
use crate::plan::analyse::item_expr;
use crate::plan::finish::FinalPiece;
use crate::plan::finish::FinalPlan;
use crate::plan::template::Piece;
use crate::plan::template::Template;
use sqlparser::ast::Distinct;
use sqlparser::ast::Expr;
use sqlparser::ast::GroupByExpr;
use std::ops::Range;

impl<'q> Scattered<'_, '_, 'q> {
    /// Shards group and give partial aggregates; the client's expressions are computed over them.
    ///
    /// # Errors
    /// 0A000 where that is not exact, or not known to be.
    pub fn partial_plan(&mut self) -> Result<ScatterPlan, Error> {
        let list = self.list()?;
        let keys = self.sort_items(&list)?;
        let groups = self.group_items(&list)?;
        if groups.iter().any(|(e, _)| self.is_volatile(e)) {
            return Err(refused("GROUP BY of a volatile function over several shards"));
        }
        if self.facts.returns_set || self.select.distinct.as_ref().is_some_and(|d| matches!(d, Distinct::On(_))) {
            return Err(refused("a set-returning function or DISTINCT ON beside aggregates over several shards"));
        }
        if groups.iter().any(|(e, _)| matches!(crate::plan::predicates::peel(e), Expr::Value(_))) {
            return Err(refused("GROUP BY of a constant over several shards"));
        }
        let mut reader = Reader::new(self, Form::Partial, &groups);
        for group in 0..groups.len() {
            reader.group(group);
        }
        let mut pieces = Vec::new();
        reader.push_select(&list, &mut pieces)?;
        pieces.push(FinalPiece::From);
        reader.read_tail()?;
        let sorted = reader.order(&keys, &list, &vec![1; list.len()])?;
        if !reader.needed.groups.is_empty() && (self.facts.grouped.is_some() || !groups.is_empty()) {
            let columns: Vec<String> =
                reader.needed.groups.iter().map(|n| format!("{}.shardway_{n}", crate::plan::finish::ROWS)).collect();
            push_text(&mut pieces, &format!(" GROUP BY {}", columns.join(", ")));
        } else if !reader.needed.groups.is_empty() {
            return Err(refused("a column beside aggregates without GROUP BY over several shards"));
        }
        reader.push_tail(&mut pieces);
        push_order(&mut pieces, sorted);
        self.push_counts(&mut pieces);
        let needed = reader.needed;
        let mut sql = self.shard_head();
        if needed.sql.is_empty() {
            return Err(refused("aggregates of nothing over several shards"));
        }
        needed.push_list(&mut sql);
        self.push_source(&mut sql);
        if !needed.keys.is_empty() {
            let keys: Vec<String> = needed.keys.iter().map(|n| format!("shardway_{n}")).collect();
            sql.push(&format!(" GROUP BY {}", keys.join(", ")));
        }
        let layout = Layout::Final(FinalPlan { pieces, columns: needed.columns, raw: false });
        Ok(ScatterPlan { sql, layout, limit: None, offset: None, moment: None })
    }

    /// Shards give the rows of FROM and WHERE; all else is computed over them.
    ///
    /// # Errors
    /// 0A000 where that is not exact, or not known to be.
    pub fn raw_plan(&mut self) -> Result<ScatterPlan, Error> {
        let list = self.list()?;
        let keys = self.sort_items(&list)?;
        let counts = self.counts().ok();
        let mut reader = Reader::new(self, Form::Raw, &[]);
        let mut pieces = Vec::new();
        let widths = reader.push_select(&list, &mut pieces)?;
        pieces.push(FinalPiece::From);
        let sorted = reader.order(&keys, &list, &widths)?;
        if let GroupByExpr::Expressions(exprs, _) = &self.select.group_by {
            for expr in exprs {
                // names that are no columns are the output's, and stay
                let is_output = matches!(expr, Expr::Identifier(ident)
                    if !self.scope.has_column(&crate::plan::names::fold(ident)));
                if is_output {
                    // the output column has its name here only if it was given one
                    reader.output_name(expr, &list)?;
                } else {
                    reader.read(expr)?;
                }
            }
        }
        reader.read_tail()?;
        if let Some((first, last)) = self.clauses.group_by.as_ref().and_then(|c| token_range(self.source, &c.range)) {
            push_text(&mut pieces, " ");
            push_edited(&mut pieces, first, last, &reader.sorted_edits());
        }
        reader.push_tail(&mut pieces);
        push_order(&mut pieces, sorted);
        self.push_counts(&mut pieces);
        let mut needed = reader.needed;
        if needed.sql.is_empty() {
            let one = || Template { pieces: vec![Piece::Text("1::pg_catalog.int4".to_owned())] };
            needed.add("1".to_owned(), crate::plan::finish::FinalCollation::Default, one);
        }
        let mut sql = self.shard_head();
        needed.push_list(&mut sql);
        self.push_source(&mut sql);
        if let Some(counts) = counts
            && self.limit_goes_down(&keys)
        {
            self.push_shard_order(&mut sql, &keys);
            limit::push_limit(&mut sql, &counts);
        }
        let layout = Layout::Final(FinalPlan { pieces, columns: needed.columns, raw: true });
        Ok(ScatterPlan { sql, layout, limit: None, offset: None, moment: None })
    }

    /// Whether each shard's first rows are all that LIMIT can give.
    fn limit_goes_down(&self, keys: &[SortItem<'q>]) -> bool {
        let facts = self.facts;
        let one_row_each = facts.grouped.is_none()
            && !facts.aggregates
            && !facts.having
            && facts.windows.is_empty()
            && !facts.distinct
            && !facts.distinct_on
            && !facts.returns_set;
        let ties = self.query.fetch.as_ref().is_some_and(|f| f.with_ties || f.percent);
        one_row_each && !ties && keys.iter().all(|k| k.expr.as_ref().is_some_and(|(e, _)| !self.is_volatile(e)))
    }

    fn push_shard_order(&self, sql: &mut Template, keys: &[SortItem<'q>]) {
        for (n, key) in keys.iter().enumerate() {
            let Some((_, range)) = &key.expr else { continue };
            // in parentheses a constant is no ordinal, and a name no output column's
            sql.push(if n == 0 { " ORDER BY (" } else { ", (" });
            text::push_range(sql, self.source, range);
            sql.push(")");
            sql.push(direction(key));
        }
    }
}

impl<'q> Reader<'_, '_, '_, 'q> {
    /// `SELECT [DISTINCT …] list`; how many columns each item has.
    fn push_select(&mut self, list: &[ListItem<'q>], pieces: &mut Vec<FinalPiece>) -> Result<Vec<usize>, Error> {
        let source = self.scattered.source;
        if let Some(Distinct::On(on)) = &self.scattered.select.distinct {
            for expr in on {
                let name = matches!(expr, Expr::Identifier(_) | Expr::Value(_));
                if name && self.scattered.analysis.bare_atom(expr, self.scattered.scope).is_none() {
                    return Err(refused("DISTINCT ON of an output column over several shards"));
                }
                if let Expr::Identifier(ident) = expr {
                    let name = crate::plan::names::fold(ident);
                    let alias = |i: &ListItem<'q>| {
                        matches!(i.item, sqlparser::ast::SelectItem::ExprWithAlias { alias, .. }
                            if crate::plan::names::fold(alias) == name)
                    };
                    if list.iter().any(alias) {
                        return Err(refused("DISTINCT ON of an output column over several shards"));
                    }
                }
                self.read(expr)?;
            }
        }
        push_text(pieces, "SELECT ");
        if let Some((first, last)) =
            self.scattered.clauses.distinct.as_ref().and_then(|range| token_range(source, range))
        {
            push_edited(pieces, first, last, &self.sorted_edits());
            push_text(pieces, " ");
        }
        let mut widths = Vec::with_capacity(list.len());
        for (n, item) in list.iter().enumerate() {
            if n > 0 {
                push_text(pieces, ", ");
            }
            if is_wildcard(item.item) {
                if self.form == Form::Partial {
                    return Err(refused("* beside aggregates over several shards"));
                }
                let columns = self.scattered.star(item.item, &mut self.needed)?;
                for (m, column) in columns.iter().enumerate() {
                    if m > 0 {
                        push_text(pieces, ", ");
                    }
                    pieces.push(reference(*column));
                }
                if columns.is_empty() {
                    return Err(refused("* of no columns over several shards"));
                }
                widths.push(columns.len());
                continue;
            }
            let expr = item_expr(item.item).ok_or_else(|| refused("this select list over several shards"))?;
            self.read_item(expr, &item.expression)?;
            self.push_range(pieces, &item.range);
            widths.push(1);
        }
        Ok(widths)
    }

    fn push_range(&self, pieces: &mut Vec<FinalPiece>, range: &Range<usize>) {
        if let Some((first, last)) = token_range(self.scattered.source, range) {
            push_edited(pieces, first, last, &self.sorted_edits());
        }
    }

    fn sorted_edits(&self) -> Vec<finish::Edit> {
        let mut edits: Vec<finish::Edit> =
            self.edits.iter().map(|e| finish::Edit { first: e.first, last: e.last, by: e.by.clone() }).collect();
        edits.sort_by_key(|e| (e.first, e.last));
        edits.dedup_by_key(|e| e.first);
        edits
    }

    /// HAVING and WINDOW are read here, so that all columns are known before FROM is written.
    fn read_tail(&mut self) -> Result<(), Error> {
        let select = self.scattered.select;
        if let Some(having) = &select.having {
            self.read(having)?;
        }
        for window in &select.named_window {
            self.read(&window.1)?;
        }
        Ok(())
    }

    fn push_tail(&self, pieces: &mut Vec<FinalPiece>) {
        let clauses = &self.scattered.clauses;
        for clause in [&clauses.having, &clauses.window].into_iter().flatten() {
            push_text(pieces, " ");
            self.push_range(pieces, &clause.range);
        }
    }

    /// The keys of ORDER BY.
    fn order(
        &mut self,
        keys: &[SortItem<'q>],
        list: &[ListItem<'q>],
        widths: &[usize],
    ) -> Result<Vec<FinalPiece>, Error> {
        let mut out = Vec::new();
        for (n, key) in keys.iter().enumerate() {
            push_text(&mut out, if n == 0 { " ORDER BY " } else { ", " });
            match (self.scattered.final_key(key, list, widths), &key.expr) {
                (Some(ordinal), _) => push_text(&mut out, &ordinal),
                (None, Some((expr, range))) => {
                    self.read_item(expr, range)?;
                    push_text(&mut out, "(");
                    self.push_range(&mut out, range);
                    push_text(&mut out, ")");
                }
                (None, None) => return Err(refused("ORDER BY of this position over several shards")),
            }
            push_text(&mut out, direction(key));
        }
        Ok(out)
    }

    /// GROUP BY of an output column's name: by its place.
    fn output_name(&mut self, expr: &Expr, list: &[ListItem<'q>]) -> Result<(), Error> {
        let unclear = || refused("GROUP BY of a name over several shards that is not told apart here");
        let meant = crate::plan::analyse::grouped_item(expr, self.scattered.select, |_| false).ok_or_else(unclear)?;
        let at = list.iter().position(|i| item_expr(i.item).is_some_and(|e| std::ptr::eq(e, meant)));
        let at = at.filter(|at| !list.iter().take(*at).any(|i| is_wildcard(i.item))).ok_or_else(unclear)?;
        let (first, last) = self.scattered.name_tokens(expr).ok_or_else(unclear)?;
        self.edits.push(finish::Edit { first, last, by: FinalPiece::Text(format!(" {} ", at + 1)) });
        Ok(())
    }
}

fn push_order(pieces: &mut Vec<FinalPiece>, order: Vec<FinalPiece>) {
    pieces.extend(order);
}
