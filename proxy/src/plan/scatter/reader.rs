//! The client's expressions, read for the final phase: which of their parts the shards give.

use super::Scattered;
use super::finish::Edit;
use super::finish::Needed;
use super::finish::reference;
use super::refused;
use super::text;
use crate::error::Error;
use crate::plan::analyse::arguments;
use crate::plan::finish::Combined;
use crate::plan::finish::FinalCollation;
use crate::plan::finish::FinalPiece;
use crate::plan::functions;
use crate::plan::functions::Kind;
use crate::plan::names;
use crate::plan::template::Template;
use crate::sql::clauses;
use crate::value::oid;
use sqlparser::ast::DuplicateTreatment;
use sqlparser::ast::Expr;
use sqlparser::ast::Function;
use sqlparser::ast::FunctionArg;
use sqlparser::ast::FunctionArgExpr;
use sqlparser::ast::FunctionArgumentClause;
use sqlparser::ast::FunctionArguments;
use sqlparser::ast::Query;
use sqlparser::ast::Visit;
use sqlparser::ast::Visitor;
use std::ops::ControlFlow;
use std::ops::Range;

/// What the shards send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The rows of FROM and WHERE.
    Raw,
    /// Groups with partial aggregates.
    Partial,
}

/// Functions that tell of a value what does not travel with it.
const OF_STORAGE: [&str; 4] = ["pg_typeof", "pg_column_size", "pg_column_compression", "pg_collation_for"];

/// Reads expressions; its edits put references to the shards' columns in their places.
pub struct Reader<'r, 'x, 'a, 'q> {
    pub scattered: &'r Scattered<'x, 'a, 'q>,
    pub form: Form,
    /// GROUP BY, with the place of each item.
    pub groups: &'r [(&'q Expr, Range<usize>)],
    pub needed: Needed,
    pub edits: Vec<Edit>,
    /// Nodes whose parts are done: the innermost last.
    done: Vec<*const Expr>,
    error: Option<Error>,
}

impl<'r, 'x, 'a, 'q> Reader<'r, 'x, 'a, 'q> {
    pub fn new(scattered: &'r Scattered<'x, 'a, 'q>, form: Form, groups: &'r [(&'q Expr, Range<usize>)]) -> Self {
        let needed = Needed::default();
        Reader { scattered, form, groups, needed, edits: Vec::new(), done: Vec::new(), error: None }
    }

    /// Reads what stands in one place.
    ///
    /// # Errors
    /// 0A000 with what the final phase cannot do.
    pub fn read(&mut self, part: &impl Visit) -> Result<(), Error> {
        let _: ControlFlow<()> = part.visit(self);
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// An expression that stands by itself: a key of GROUP BY is taken as a whole.
    ///
    /// # Errors
    /// 0A000
    pub fn read_item(&mut self, expr: &'q Expr, range: &Range<usize>) -> Result<(), Error> {
        let source = self.scattered.source;
        if self.form == Form::Partial
            && let Some(group) = self.groups.iter().position(|(_, place)| text::same_tokens(source, place, range))
            && let Some((first, last)) = super::finish::token_range(source, range)
        {
            let column = self.group(group);
            self.edits.push(Edit { first, last, by: reference(column) });
            return Ok(());
        }
        self.read(expr)
    }

    /// The column of a key of GROUP BY.
    pub fn group(&mut self, group: usize) -> usize {
        let groups = self.groups;
        let Some((expr, range)) = groups.get(group) else { return 0 };
        let column = self.expression(expr, range);
        self.key(column, true);
        column
    }

    /// A column that shards compute.
    fn expression(&mut self, expr: &Expr, range: &Range<usize>) -> usize {
        let source = self.scattered.source;
        let collation = self.scattered.collation_of_expression(expr);
        let name = format!("({}", source.text.get(range.clone()).unwrap_or_default());
        self.needed.add(name, collation, || {
            let mut sql = Template::default();
            text::push_range(&mut sql, source, range);
            sql
        })
    }

    fn key(&mut self, column: usize, group: bool) {
        if !self.needed.keys.contains(&column) {
            self.needed.keys.push(column);
        }
        if group && !self.needed.groups.contains(&column) {
            self.needed.groups.push(column);
        }
    }

    fn fail(&mut self, error: Error) -> ControlFlow<()> {
        self.error.get_or_insert(error);
        ControlFlow::Break(())
    }

    fn column(&mut self, expr: &Expr) -> Result<(), Error> {
        let atom = self.scattered.analysis.bare_atom(expr, self.scattered.scope);
        let is_it = |(group, _): &(&'q Expr, Range<usize>)| {
            atom.is_some() && self.scattered.analysis.bare_atom(group, self.scattered.scope) == atom
        };
        if self.form == Form::Partial
            && let Some(group) = self.groups.iter().position(is_it)
        {
            let column = self.group(group);
            if let Some((first, last)) = self.scattered.name_tokens(expr) {
                self.edits.push(Edit { first, last, by: reference(column) });
            }
            return Ok(());
        }
        let (column, (first, last)) = self.scattered.leaf(expr, &mut self.needed)?;
        if self.form == Form::Partial {
            // PostgreSQL takes such a column only where it depends on those of GROUP BY
            self.key(column, true);
        }
        self.edits.push(Edit { first, last, by: reference(column) });
        Ok(())
    }

    /// True when the call is done, arguments and all.
    fn function(&mut self, function: &Function) -> Result<bool, Error> {
        let unread = || refused("a call over several shards that is not told apart here");
        let parts = names::parts(&function.name).ok_or_else(unread)?;
        let name = parts.last().cloned().unwrap_or_default();
        if OF_STORAGE.contains(&name.as_str()) {
            return Err(refused(&format!("function {name} over several shards")));
        }
        let kind = functions::kind(self.scattered.analysis.context, &parts);
        let aggregate = matches!(kind, Kind::Plain(t) if t.aggregate);
        if aggregate && functions::ORDERED_AGGREGATES.contains(&name.as_str()) && !has_order(function) {
            return Err(refused(&format!("{name} over several shards without an ORDER BY of its own"))
                .hint(format!("Write {name}(… ORDER BY …).")));
        }
        if self.form == Form::Raw {
            return Ok(false);
        }
        if !aggregate || function.over.is_some() {
            return self.grouped_call(function);
        }
        let (first, last) = self.scattered.call_tokens(function).ok_or_else(unread)?;
        let call = Call { name, function, first, last };
        let distinct = matches!(&function.args, FunctionArguments::List(l)
            if l.duplicate_treatment == Some(DuplicateTreatment::Distinct));
        if distinct { self.distinct(&call) } else { self.partial(&call) }?;
        Ok(true)
    }

    /// A call that is a key of GROUP BY.
    fn grouped_call(&mut self, function: &Function) -> Result<bool, Error> {
        let scattered = self.scattered;
        let Some((first, last)) = scattered.call_tokens(function) else { return Ok(false) };
        let range = scattered.byte_range((first, last));
        let same = |(_, place): &(&'q Expr, Range<usize>)| text::same_tokens(scattered.source, place, &range);
        let Some(group) = self.groups.iter().position(same) else { return Ok(false) };
        let column = self.group(group);
        self.edits.push(Edit { first, last, by: reference(column) });
        Ok(true)
    }

    /// An aggregate of distinct values: the shards group by its argument too.
    fn distinct(&mut self, call: &Call<'_>) -> Result<(), Error> {
        let (argument, range) = self.argument(call)?.ok_or_else(|| call.refused())?;
        let (first, last) = super::finish::token_range(self.scattered.source, &range).ok_or_else(|| call.refused())?;
        self.constant_free(argument, call)?;
        let column = self.expression(argument, &range);
        self.key(column, false);
        self.edits.push(Edit { first, last, by: reference(column) });
        if let Some((condition, range)) = self.filter(call)? {
            let (first, last) =
                super::finish::token_range(self.scattered.source, &range).ok_or_else(|| call.refused())?;
            self.constant_free(condition, call)?;
            let column = self.expression(condition, &range);
            self.key(column, false);
            self.edits.push(Edit { first, last, by: reference(column) });
        }
        Ok(())
    }

    /// GROUP BY of a constant is another thing, and one of a volatile function gives other groups on each shard.
    fn constant_free(&self, expr: &Expr, call: &Call<'_>) -> Result<(), Error> {
        let plain = !matches!(crate::plan::predicates::peel(expr), Expr::Value(_));
        if plain && !self.scattered.is_volatile(expr) { Ok(()) } else { Err(call.refused()) }
    }

    fn partial(&mut self, call: &Call<'_>) -> Result<(), Error> {
        let combined = match call.name.as_str() {
            "count" => Combined::Count(self.whole(call, FinalCollation::Default)?),
            "sum" => Combined::Sum(self.whole(call, FinalCollation::Default)?),
            "avg" => self.average(call)?,
            "min" | "max" => {
                let (argument, _) = self.argument(call)?.ok_or_else(|| call.refused())?;
                let collation = self.scattered.collation_of_expression(argument);
                let column = self.whole(call, collation)?;
                Combined::Same(if call.name == "min" { "min" } else { "max" }, column)
            }
            "bool_and" | "every" => Combined::Same("bool_and", self.whole(call, FinalCollation::Default)?),
            "bool_or" => Combined::Same("bool_or", self.whole(call, FinalCollation::Default)?),
            "bit_and" => Combined::Same("bit_and", self.whole(call, FinalCollation::Default)?),
            "bit_or" => Combined::Same("bit_or", self.whole(call, FinalCollation::Default)?),
            "bit_xor" => Combined::Same("bit_xor", self.whole(call, FinalCollation::Default)?),
            _ => return Err(call.refused()),
        };
        self.edits.push(Edit { first: call.first, last: call.last, by: FinalPiece::Combined(combined) });
        Ok(())
    }

    /// The whole call, as the shards compute it.
    fn whole(&mut self, call: &Call<'_>, collation: FinalCollation) -> Result<usize, Error> {
        self.plain(call)?;
        let source = self.scattered.source;
        let range = self.scattered.byte_range((call.first, call.last));
        let name = format!("{}\0call", source.text.get(range.clone()).unwrap_or_default());
        Ok(self.needed.add(name, collation, || {
            let mut sql = Template::default();
            text::push_range(&mut sql, source, &range);
            sql
        }))
    }

    fn average(&mut self, call: &Call<'_>) -> Result<Combined, Error> {
        self.plain(call)?;
        let scattered = self.scattered;
        let (argument, range) = self.argument(call)?.ok_or_else(|| call.refused())?;
        let filter = self.filter(call)?.map(|(_, range)| range);
        let facts = scattered
            .analysis
            .bare_atom(argument, scattered.scope)
            .and_then(|atom| scattered.analysis.column_facts(atom));
        // avg of real adds in double precision, sum of real does not
        let real = facts.is_some_and(|f| f.type_oid == oid::FLOAT4);
        let text = scattered.source.text.get(range.clone()).unwrap_or_default();
        let condition = filter.clone().and_then(|f| scattered.source.text.get(f)).unwrap_or_default();
        let mut part = |open: &str, close: &str| {
            self.needed.add(format!("{open}{text}{close}{condition}\0avg"), FinalCollation::Default, || {
                let mut sql = Template::default();
                sql.push(open);
                text::push_range(&mut sql, scattered.source, &range);
                sql.push(close);
                if let Some(filter) = &filter {
                    sql.push(" FILTER (WHERE ");
                    text::push_range(&mut sql, scattered.source, filter);
                    sql.push(")");
                }
                sql
            })
        };
        let sum = if real { part("pg_catalog.sum((", ")::pg_catalog.float8)") } else { part("pg_catalog.sum(", ")") };
        let count = part("pg_catalog.count(", ")");
        Ok(Combined::Avg { sum, count })
    }

    /// A call of a built-in aggregate without anything beside its arguments and FILTER.
    fn plain(&self, call: &Call<'_>) -> Result<(), Error> {
        let user = self.scattered.analysis.context.catalog.functions.user.contains_key(&call.name);
        let plain = match &call.function.args {
            FunctionArguments::List(list) => list.duplicate_treatment.is_none() && list.clauses.is_empty(),
            _ => false,
        };
        let function = call.function;
        if user || !plain || !function.within_group.is_empty() || function.null_treatment.is_some() {
            return Err(call.refused());
        }
        let volatile = arguments(function).iter().any(|a| match a {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => self.scattered.is_volatile(e),
            _ => false,
        });
        if volatile { Err(call.refused()) } else { Ok(()) }
    }

    /// The one argument, and where it stands; `None` for `*`.
    fn argument<'c>(&self, call: &Call<'c>) -> Result<Option<(&'c Expr, Range<usize>)>, Error> {
        let FunctionArguments::List(list) = &call.function.args else { return Err(call.refused()) };
        if !list.clauses.is_empty() {
            return Err(call.refused());
        }
        let expr = match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] => return Ok(None),
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => expr,
            _ => return Err(call.refused()),
        };
        let (tokens, text) = (self.scattered.source.tokens, self.scattered.source.text);
        let mut open = call.first;
        while tokens.get(open).is_some_and(|t| !t.is_symbol(text, "(")) {
            open += 1;
        }
        let close = clauses::closing(tokens, text, open).ok_or_else(|| call.refused())?;
        let mut first = open + 1;
        if tokens.get(first).is_some_and(|t| t.is_word(text, "distinct") || t.is_word(text, "all")) {
            first += 1;
        }
        if first >= close {
            return Err(call.refused());
        }
        Ok(Some((expr, self.scattered.byte_range((first, close - 1)))))
    }

    /// The condition of FILTER.
    fn filter<'c>(&self, call: &Call<'c>) -> Result<Option<(&'c Expr, Range<usize>)>, Error> {
        let Some(condition) = &call.function.filter else { return Ok(None) };
        let (tokens, text) = (self.scattered.source.tokens, self.scattered.source.text);
        // it stands last: ( WHERE … )
        let within = tokens.get(call.first..=call.last).unwrap_or_default();
        let filter = (0..within.len()).rfind(|n| {
            within.get(*n).is_some_and(|t| t.is_word(text, "filter"))
                && clauses::closing(tokens, text, call.first + n + 1) == Some(call.last)
        });
        let start = call.first + filter.ok_or_else(|| call.refused())? + 3;
        if start >= call.last {
            return Err(call.refused());
        }
        Ok(Some((condition, self.scattered.byte_range((start, call.last - 1)))))
    }
}

/// An aggregate call and its tokens.
struct Call<'c> {
    name: String,
    function: &'c Function,
    first: usize,
    last: usize,
}

impl Call<'_> {
    fn refused(&self) -> Error {
        refused(&format!("this form of {} over several shards", self.name))
    }
}

fn has_order(function: &Function) -> bool {
    match &function.args {
        FunctionArguments::List(list) => list.clauses.iter().any(|c| matches!(c, FunctionArgumentClause::OrderBy(_))),
        _ => false,
    }
}

impl Visitor for Reader<'_, '_, '_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        if self.done.is_empty() {
            return self
                .fail(refused("a subquery in an expression that is computed after the shards' rows are together,"));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if !self.done.is_empty() {
            return ControlFlow::Continue(());
        }
        let read = match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.column(expr).map(|()| false),
            Expr::Function(function) => self.function(function),
            _ => Ok(false),
        };
        match read {
            Ok(true) => {
                self.done.push(expr);
                ControlFlow::Continue(())
            }
            Ok(false) => ControlFlow::Continue(()),
            Err(error) => self.fail(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.done.last().is_some_and(|done| std::ptr::eq(*done, expr)) {
            self.done.pop();
        }
        ControlFlow::Continue(())
    }
}
