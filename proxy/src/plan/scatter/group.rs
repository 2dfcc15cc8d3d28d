//! Two-phase aggregation: each shard gives partial states for its groups, the merge makes the final values.

use super::Scattered;
use super::limit;
use super::order::ListItem;
use super::order::SortItem;
use super::refused;
use super::text;
use crate::error::Error;
use crate::plan::Aggregate;
use crate::plan::Layout;
use crate::plan::MergeSpec;
use crate::plan::Output;
use crate::plan::ScatterPlan;
use crate::plan::ShardColumn;
use crate::plan::SortBy;
use crate::plan::SortKey;
use crate::plan::analyse::item_expr;
use crate::plan::functions;
use crate::plan::functions::Kind;
use crate::plan::names;
use crate::plan::predicates;
use crate::plan::template::Template;
use crate::sql::clauses;
use crate::value::oid;
use sqlparser::ast::Expr;
use sqlparser::ast::Function;
use sqlparser::ast::FunctionArg;
use sqlparser::ast::FunctionArgExpr;
use sqlparser::ast::FunctionArguments;
use sqlparser::ast::InTarget;
use sqlparser::ast::Value;
use sqlparser::ast::visit_expressions;
use std::ops::ControlFlow;
use std::ops::Range;

/// An aggregate call with the places of its parts.
struct Call<'q> {
    name: String,
    /// Of count(*) there is none.
    argument: Option<(&'q Expr, Range<usize>)>,
    /// `FILTER (WHERE …)`.
    filter: Option<Range<usize>>,
    /// All of it.
    range: Range<usize>,
}

/// The shards' select list as it grows.
#[derive(Default)]
struct Columns {
    kinds: Vec<ShardColumn>,
    sql: Template,
}

impl Columns {
    fn start(&mut self, kind: ShardColumn) -> usize {
        if !self.kinds.is_empty() {
            self.sql.push(", ");
        }
        self.kinds.push(kind);
        self.kinds.len() - 1
    }
}

impl<'q> Scattered<'_, '_, 'q> {
    /// The plan for groups that can be on several shards.
    pub fn grouped_plan(&mut self) -> Result<ScatterPlan, Error> {
        if self.facts.having {
            return Err(refused("HAVING over several shards whose GROUP BY does not contain the shard key"));
        }
        if self.facts.distinct {
            return Err(refused("DISTINCT beside aggregates over several shards"));
        }
        if self.facts.returns_set {
            return Err(refused("a set-returning function beside GROUP BY or aggregates over several shards"));
        }
        if !self.facts.windows.is_empty() {
            return Err(refused("window functions beside aggregates over several shards"));
        }
        let list = self.list()?;
        let groups = self.group_items(&list)?;
        if !groups.is_empty() {
            self.equality_is_bytes("GROUP BY")?;
        }
        if groups.iter().any(|(e, _)| self.is_volatile(e)) {
            return Err(refused("GROUP BY of a volatile function over several shards"));
        }
        let keys = self.sort_items(&list)?;
        let counts = self.counts()?;
        let mut columns = Columns::default();
        let mut output = Vec::new();
        for (n, item) in list.iter().enumerate() {
            output.push(self.item(n, item, &groups, &mut columns)?);
        }
        let group: Vec<usize> = (1..)
            .zip(&groups)
            .map(|(n, (_, range))| {
                let column = columns.start(ShardColumn::Hidden);
                text::push_range(&mut columns.sql, self.source, range);
                columns.sql.push(&format!(" AS shardway_{n}"));
                column
            })
            .collect();
        let order =
            keys.iter().map(|k| self.group_order(k, &list, &groups, &group, &output)).collect::<Result<_, _>>()?;
        let sql = self.group_text(columns.sql, groups.len(), &counts);
        let merge = MergeSpec { output, group: Some(group), distinct: None, order };
        let layout = Layout::Grouped { columns: columns.kinds, merge };
        Ok(ScatterPlan { sql, layout, limit: counts.limit, offset: counts.offset, moment: None })
    }

    /// One output column: a group expression, a bare aggregate, or a constant.
    fn item(
        &self,
        n: usize,
        item: &ListItem<'q>,
        groups: &[(&'q Expr, Range<usize>)],
        columns: &mut Columns,
    ) -> Result<Output, Error> {
        let expr = item_expr(item.item).ok_or_else(|| refused("* beside aggregates over several shards"))?;
        let of_groups = self.group_of(expr, &item.expression, groups).is_some() || self.is_of_groups(expr, groups);
        if of_groups || is_constant(expr) {
            let column = columns.start(ShardColumn::Client(n));
            text::push_range(&mut columns.sql, self.source, &item.range);
            return Ok(Output::Column(column));
        }
        let call = self.call(expr, &item.expression)?;
        self.aggregate(n, &call, columns).map(Output::Aggregate)
    }

    /// The position in GROUP BY of an expression.
    fn group_of(&self, expr: &Expr, range: &Range<usize>, groups: &[(&'q Expr, Range<usize>)]) -> Option<usize> {
        let atom = self.analysis.bare_atom(expr, self.scope);
        groups.iter().position(|(group, place)| {
            std::ptr::eq(*group, expr)
                || text::same_tokens(self.source, place, range)
                || (atom.is_some() && atom == self.analysis.bare_atom(group, self.scope))
        })
    }

    /// Whether an expression is computed of columns that are grouped by, so that any row of a group gives it.
    fn is_of_groups(&self, expr: &Expr, groups: &[(&'q Expr, Range<usize>)]) -> bool {
        let grouped = |expr: &Expr| {
            let atom = self.analysis.bare_atom(expr, self.scope);
            atom.is_some() && groups.iter().any(|(group, _)| self.analysis.bare_atom(group, self.scope) == atom)
        };
        let aggregates = |function: &Function| {
            let kind = names::parts(&function.name).map(|parts| functions::kind(self.analysis.context, &parts));
            !matches!(kind, Some(Kind::Plain(t)) if !t.aggregate && !t.volatile && !t.returns_set)
        };
        let found = visit_expressions(expr, |e| match e {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if !grouped(e) => ControlFlow::Break(()),
            Expr::Function(function) if aggregates(function) => ControlFlow::Break(()),
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::In { target: InTarget::Subquery(_), .. } => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        found.is_continue()
    }

    /// Takes an aggregate call apart.
    fn call(&self, expr: &'q Expr, range: &Range<usize>) -> Result<Call<'q>, Error> {
        let Expr::Function(function) = expr else {
            return Err(refused("an expression over aggregates, or a column outside GROUP BY, over several shards")
                .hint("Select the aggregates themselves and compute with them in the application, or add the shard key to GROUP BY."));
        };
        let name = self.aggregate_name(function)?;
        let source = self.source;
        let apart = || refused(&format!("this form of {name} over several shards"));
        let within = clauses::tokens_in(source.tokens, range);
        let open = within.iter().position(|t| t.is_symbol(source.text, "(")).ok_or_else(apart)?;
        let close = clauses::closing(within, source.text, open).ok_or_else(apart)?;
        let inside = |a: usize, b: usize| Some(within.get(a)?.start as usize..within.get(b)?.end as usize);
        let argument = match plain_argument(function).ok_or_else(apart)? {
            Argument::Star => None,
            Argument::Expr(expr) => Some((expr, inside(open + 1, close.saturating_sub(1)).ok_or_else(apart)?)),
        };
        let filter = match (&function.filter, within.get(close + 1)) {
            (None, None) => None,
            (Some(_), Some(word)) if word.is_word(source.text, "filter") => {
                Some(inside(close + 1, within.len() - 1).ok_or_else(apart)?)
            }
            _ => return Err(apart()),
        };
        Ok(Call { name, argument, filter, range: range.clone() })
    }

    /// The name of a built-in aggregate that can be made of partial ones.
    fn aggregate_name(&self, function: &Function) -> Result<String, Error> {
        let parts = names::parts(&function.name).ok_or_else(|| refused("this function over several shards"))?;
        let name = parts.last().cloned().unwrap_or_default();
        let is_aggregate = matches!(functions::kind(self.analysis.context, &parts), Kind::Plain(t) if t.aggregate);
        if !is_aggregate {
            return Err(refused("an expression over aggregates, or a column outside GROUP BY, over several shards"));
        }
        let known = matches!(
            name.as_str(),
            "count" | "sum" | "avg" | "min" | "max" | "bool_and" | "bool_or" | "every" | "bit_and" | "bit_or"
        );
        let user = self.analysis.context.catalog.functions.user.contains_key(&name) && parts.len() == 1;
        if !known || user {
            return Err(refused(&format!("aggregate {name} over several shards"))
                .hint("Add the shard key to GROUP BY, or name one value of it in WHERE."));
        }
        if let FunctionArguments::List(list) = &function.args {
            if matches!(list.duplicate_treatment, Some(sqlparser::ast::DuplicateTreatment::Distinct)) {
                return Err(refused(&format!("{name}(DISTINCT …) over several shards")));
            }
            if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
                return Err(refused(&format!("ORDER BY or ALL inside {name} over several shards")));
            }
        }
        if !function.within_group.is_empty() || function.over.is_some() || function.null_treatment.is_some() {
            return Err(refused(&format!("this form of {name} over several shards")));
        }
        Ok(name)
    }

    /// The shards' columns for an aggregate, and how its final value is made.
    fn aggregate(&self, n: usize, call: &Call<'q>, columns: &mut Columns) -> Result<Aggregate, Error> {
        let whole = |columns: &mut Columns, kind: ShardColumn| {
            let column = columns.start(kind);
            text::push_range(&mut columns.sql, self.source, &call.range);
            column
        };
        Ok(match call.name.as_str() {
            "count" => Aggregate::Count { partial: whole(columns, ShardColumn::Hidden) },
            "sum" => Aggregate::Sum { partial: whole(columns, ShardColumn::Hidden) },
            "bool_and" | "every" => Aggregate::BoolAnd { partial: whole(columns, ShardColumn::Hidden) },
            "bool_or" => Aggregate::BoolOr { partial: whole(columns, ShardColumn::Hidden) },
            "bit_and" => Aggregate::BitAnd { partial: whole(columns, ShardColumn::Hidden) },
            "bit_or" => Aggregate::BitOr { partial: whole(columns, ShardColumn::Hidden) },
            "min" | "max" => {
                if let Some((expr, _)) = &call.argument {
                    self.orderable(expr, &call.name)?;
                    if self.is_volatile(expr) {
                        return Err(refused(&format!("{} of a volatile function over several shards", call.name)));
                    }
                }
                let value = whole(columns, ShardColumn::Client(n));
                let sort = whole(columns, ShardColumn::Hidden);
                if call.name == "min" { Aggregate::Min { value, sort } } else { Aggregate::Max { value, sort } }
            }
            "avg" => self.average(call, columns)?,
            name => return Err(refused(&format!("aggregate {name} over several shards"))),
        })
    }

    fn average(&self, call: &Call<'q>, columns: &mut Columns) -> Result<Aggregate, Error> {
        let Some((expr, range)) = &call.argument else { return Err(refused("avg without an argument")) };
        if self.is_volatile(expr) {
            return Err(refused("avg of a volatile function over several shards"));
        }
        let facts = self.analysis.bare_atom(expr, self.scope).and_then(|a| self.analysis.column_facts(a));
        // avg of real adds in double precision, sum of real does not
        let cast = facts.is_some_and(|f| f.type_oid == oid::FLOAT4);
        let mut part = |open: &str, close: &str| {
            let column = columns.start(ShardColumn::Hidden);
            columns.sql.push(open);
            text::push_range(&mut columns.sql, self.source, range);
            columns.sql.push(close);
            if let Some(filter) = &call.filter {
                columns.sql.push(" ");
                text::push_range(&mut columns.sql, self.source, filter);
            }
            column
        };
        let sum = match cast {
            true => part("pg_catalog.sum((", ")::pg_catalog.float8)"),
            false => part("pg_catalog.sum(", ")"),
        };
        let count = part("pg_catalog.count(", ")");
        Ok(Aggregate::Avg { sum, count })
    }

    fn group_order(
        &self,
        key: &SortItem<'q>,
        list: &[ListItem<'q>],
        groups: &[(&'q Expr, Range<usize>)],
        columns: &[usize],
        output: &[Output],
    ) -> Result<SortKey, Error> {
        let (expr, range) =
            key.expr.as_ref().ok_or_else(|| refused("ORDER BY of this position over several shards"))?;
        self.orderable(expr, "ORDER BY")?;
        let group = self.group_of(expr, range, groups).and_then(|n| columns.get(n));
        let item =
            key.item.or_else(|| list.iter().position(|item| text::same_tokens(self.source, &item.expression, range)));
        let by = match (group, item) {
            (Some(column), _) => SortBy::Column(*column),
            (None, Some(n)) if matches!(output.get(n), Some(Output::Aggregate(_))) => SortBy::Output(n),
            _ => {
                return Err(refused(
                    "ORDER BY of what is neither in GROUP BY nor a selected aggregate, over several shards",
                )
                .hint("Add the aggregate to the select list."));
            }
        };
        Ok(SortKey { by, descending: key.descending, nulls_first: key.nulls_first })
    }

    fn group_text(&self, list: Template, groups: usize, counts: &limit::Counts) -> Template {
        let (source, clauses) = (self.source, &self.clauses);
        let mut sql = Template::default();
        text::push_range(&mut sql, source, &(0..clauses.head.end));
        sql.push(" ");
        sql.pieces.extend(list.pieces);
        for clause in [&clauses.from, &clauses.where_].into_iter().flatten() {
            sql.push(" ");
            text::push_range(&mut sql, source, &clause.range);
        }
        if groups > 0 {
            let keys: Vec<String> = (1..=groups).map(|n| format!("shardway_{n}")).collect();
            sql.push(&format!(" GROUP BY {}", keys.join(", ")));
        }
        limit::push_no_limit(&mut sql, counts);
        sql
    }
}

enum Argument<'q> {
    Star,
    Expr(&'q Expr),
}

fn plain_argument(function: &Function) -> Option<Argument<'_>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] => Some(Argument::Star),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => Some(Argument::Expr(expr)),
        _ => None,
    }
}

/// A literal, perhaps cast: the same in every row.
fn is_constant(expr: &Expr) -> bool {
    match predicates::peel(expr) {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::Cast { expr, .. } => is_constant(expr),
        Expr::TypedString(_) => true,
        _ => false,
    }
}
