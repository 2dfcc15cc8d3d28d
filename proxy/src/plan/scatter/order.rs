//! ORDER BY: what each key is, and whether its order can be told here.

use super::Scattered;
use super::refused;
use super::text;
use crate::catalog::Collation;
use crate::error::Error;
use crate::plan::analyse::grouped_item;
use crate::plan::analyse::is_byte_collation_expr;
use crate::plan::analyse::is_wildcard;
use crate::plan::analyse::item_expr;
use crate::plan::analyse::output_name;
use crate::plan::functions;
use crate::plan::functions::Kind;
use crate::plan::names;
use crate::plan::predicates;
use crate::sql::clauses;
use sqlparser::ast::BinaryOperator;
use sqlparser::ast::Expr;
use sqlparser::ast::FunctionArg;
use sqlparser::ast::FunctionArgExpr;
use sqlparser::ast::FunctionArguments;
use sqlparser::ast::OrderByKind;
use sqlparser::ast::SelectItem;
use sqlparser::ast::UnaryOperator;
use sqlparser::ast::Value;
use sqlparser::ast::ValueWithSpan;
use sqlparser::ast::visit_expressions;
use std::ops::ControlFlow;
use std::ops::Range;

/// What a key of ORDER BY sorts by.
pub struct SortItem<'q> {
    /// The item of the select list that it is, where it is one.
    pub item: Option<usize>,
    /// The expression, and where it stands; of an ordinal behind `*` there is none.
    pub expr: Option<(&'q Expr, Range<usize>)>,
    /// `n` of an ordinal.
    pub ordinal: Option<usize>,
    pub descending: bool,
    pub nulls_first: bool,
}

/// An item of the select list.
pub struct ListItem<'q> {
    pub item: &'q SelectItem,
    /// All of it.
    pub range: Range<usize>,
    /// Without its alias.
    pub expression: Range<usize>,
}

impl<'q> Scattered<'_, '_, 'q> {
    /// The select list with its places in the text.
    pub fn list(&self) -> Result<Vec<ListItem<'q>>, Error> {
        let source = self.source;
        let ranges = clauses::split_items(source.tokens, source.text, self.clauses.select_list.clone());
        if ranges.len() != self.select.projection.len() {
            return Err(refused("a select list that is not told apart here"));
        }
        let item = |(item, range): (&'q SelectItem, Range<usize>)| {
            let expression = match item {
                SelectItem::ExprWithAlias { .. } => {
                    clauses::split_alias(source.tokens, source.text, range.clone()).map(|(expression, _)| expression)
                }
                _ => Some(range.clone()),
            };
            let expression = expression.ok_or_else(|| refused("a select list that is not told apart here"))?;
            Ok(ListItem { item, range, expression })
        };
        self.select.projection.iter().zip(ranges).map(item).collect()
    }

    /// The keys of ORDER BY.
    pub fn sort_items(&mut self, list: &[ListItem<'q>]) -> Result<Vec<SortItem<'q>>, Error> {
        let (Some(order_by), Some(clause)) = (&self.query.order_by, &self.clauses.order_by) else {
            return Ok(Vec::new());
        };
        let OrderByKind::Expressions(exprs) = &order_by.kind else {
            return Err(refused("ORDER BY ALL"));
        };
        let source = self.source;
        let ranges = clauses::split_items(source.tokens, source.text, clause.body.clone());
        if ranges.len() != exprs.len() {
            return Err(refused("an ORDER BY that is not told apart here"));
        }
        let mut items = Vec::new();
        for (key, range) in exprs.iter().zip(ranges) {
            let place = clauses::order_item(source.tokens, source.text, range)
                .ok_or_else(|| refused("an ORDER BY that is not told apart here"))?;
            if place.using || key.with_fill.is_some() {
                return Err(refused("ORDER BY … USING over several shards"));
            }
            let (item, expr, ordinal) = self.sort_target(&key.expr, place.expression, list)?;
            items.push(SortItem {
                item,
                expr,
                ordinal,
                descending: place.descending,
                nulls_first: place.nulls_first.unwrap_or(place.descending),
            });
        }
        Ok(items)
    }

    /// Which item or expression a key means (findTargetlistEntrySQL92: ordinals and output names first).
    #[allow(clippy::type_complexity)]
    fn sort_target(
        &mut self,
        expr: &'q Expr,
        range: Range<usize>,
        list: &[ListItem<'q>],
    ) -> Result<(Option<usize>, Option<(&'q Expr, Range<usize>)>, Option<usize>), Error> {
        let first_star = list.iter().position(|i| is_wildcard(i.item));
        if let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span }) = expr {
            self.fixed.extend(self.source.literal(*span));
            let n = digits.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            let n = n.ok_or_else(|| refused("ORDER BY of this constant"))?;
            if first_star.is_some_and(|star| star <= n) {
                return Ok((None, None, Some(n)));
            }
            let item = list.get(n).ok_or_else(|| refused("ORDER BY of a position that is not in the select list"))?;
            let inner = item_expr(item.item).ok_or_else(|| refused("ORDER BY of this position"))?;
            return Ok((Some(n), Some((inner, item.expression.clone())), Some(n)));
        }
        if let Expr::Identifier(ident) = expr {
            let name = names::fold(ident);
            let named = |item: &ListItem<'q>| match item.item {
                SelectItem::ExprWithAlias { alias, .. } => names::fold(alias) == name,
                SelectItem::UnnamedExpr(expr) => output_name(expr).as_deref() == Some(&name),
                _ => false,
            };
            let mut found = list.iter().enumerate().filter(|(_, item)| named(item));
            if let Some((n, item)) = found.next() {
                let same = |(_, other): (usize, &ListItem<'q>)| {
                    text::same_tokens(self.source, &item.expression, &other.expression)
                };
                if !found.all(same)
                    || (first_star.is_some() && self.scope.has_column(&name) && !self.is_itself(item, &name))
                {
                    return Err(refused(&format!("ORDER BY \"{name}\", which several output columns are called")));
                }
                let inner = item_expr(item.item).ok_or_else(|| refused("ORDER BY of this item"))?;
                return Ok((Some(n), Some((inner, item.expression.clone())), None));
            }
            if list.iter().any(|item| has_unknown_name(item.item)) {
                return Err(refused(&format!("ORDER BY \"{name}\" beside a column whose name is not known here")));
            }
            if first_star.is_some() && !self.scope.is_one_column(&name) {
                return Err(refused(&format!("ORDER BY \"{name}\", a column that is not told apart here")));
            }
            return Ok((None, Some((expr, range)), None));
        }
        if matches!(expr, Expr::Value(_)) {
            return Err(refused("ORDER BY of a constant"));
        }
        // a whole expression only has the names of input columns
        let item = list.iter().position(|item| {
            item_expr(item.item).is_some() && text::same_tokens(self.source, &item.expression, &range)
        });
        let item = item.filter(|n| first_star.is_none_or(|star| star > *n));
        Ok((item, Some((expr, range)), None))
    }

    /// Whether a name is no input column, and may be that of an output column.
    fn is_unknown_name(&self, expr: &Expr, list: &[ListItem<'q>]) -> bool {
        matches!(expr, Expr::Identifier(ident) if !self.scope.has_column(&names::fold(ident)))
            && list.iter().any(|item| has_unknown_name(item.item))
    }

    /// Whether an item is the column that its name names.
    fn is_itself(&self, item: &ListItem<'q>, name: &str) -> bool {
        match item_expr(item.item).map(predicates::peel) {
            Some(Expr::Identifier(ident)) => names::fold(ident) == name,
            Some(Expr::CompoundIdentifier(idents)) => idents.last().is_some_and(|i| names::fold(i) == name),
            _ => false,
        }
    }

    /// The expression that an item of GROUP BY means, with its place in the text.
    pub fn group_items(&mut self, list: &[ListItem<'q>]) -> Result<Vec<(&'q Expr, Range<usize>)>, Error> {
        let sqlparser::ast::GroupByExpr::Expressions(exprs, _) = &self.select.group_by else {
            return Err(refused("GROUP BY ALL"));
        };
        let Some(clause) = &self.clauses.group_by else { return Ok(Vec::new()) };
        let source = self.source;
        let ranges = clauses::split_items(source.tokens, source.text, clause.body.clone());
        if ranges.len() != exprs.len() {
            return Err(refused("a GROUP BY that is not told apart here"));
        }
        let mut items = Vec::new();
        for (expr, range) in exprs.iter().zip(ranges) {
            if let Expr::Value(value) = expr {
                self.fixed.extend(self.source.literal(value.span));
            }
            let meant = grouped_item(expr, self.select, |name| self.scope.has_column(name));
            match meant {
                Some(meant) => {
                    let item = list
                        .iter()
                        .find(|i| item_expr(i.item).is_some_and(|e| std::ptr::eq(e, meant)))
                        .ok_or_else(|| refused("a GROUP BY that is not told apart here"))?;
                    items.push((meant, item.expression.clone()));
                }
                None if matches!(expr, Expr::Value(_)) => return Err(refused("GROUP BY of this constant")),
                None if self.is_unknown_name(expr, list) => {
                    return Err(refused("GROUP BY of a name beside a column whose name is not known here"));
                }
                None => items.push((expr, range)),
            }
        }
        Ok(items)
    }

    /// Fails if the order of an expression's values cannot be told here.
    pub fn orderable(&self, expr: &Expr, what: &str) -> Result<(), Error> {
        if self.has_order(expr) || self.all_text_is_bytes() {
            return Ok(());
        }
        Err(Error::unsupported(format!("{what} of text in a linguistic collation over several shards"))
            .detail("Its order cannot be told here, or it is not known whether this expression is text.")
            .hint(format!("Write {what} … COLLATE \"C\", or sort by a column that is not text.")))
    }

    /// Whether an expression is no text, or text that compares as bytes.
    fn has_order(&self, expr: &Expr) -> bool {
        match predicates::peel(expr) {
            Expr::Collate { collation, .. } => is_byte_collation_expr(collation),
            expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {
                let facts = self.analysis.bare_atom(expr, self.scope).and_then(|a| self.analysis.column_facts(a));
                facts.is_some_and(|f| matches!(f.collation, Collation::None | Collation::Bytes))
            }
            Expr::Value(ValueWithSpan { value: Value::Number(..) | Value::Boolean(_), .. }) => true,
            Expr::BinaryOp { op, .. } => is_no_text(op),
            Expr::UnaryOp { op, .. } => {
                matches!(op, UnaryOperator::Minus | UnaryOperator::Plus | UnaryOperator::Not)
            }
            Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::Between { .. }
            | Expr::In { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::Exists { .. }
            | Expr::Extract { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Position { .. } => true,
            Expr::Cast { data_type, .. } => is_plain_type(&data_type.to_string()),
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter().all(|c| self.has_order(&c.result) || is_null(&c.result))
                    && else_result.as_deref().is_none_or(|e| self.has_order(e) || is_null(e))
            }
            Expr::Function(function) => self.function_has_order(function),
            _ => false,
        }
    }

    fn function_has_order(&self, function: &sqlparser::ast::Function) -> bool {
        let Some(name) = names::parts(&function.name).and_then(|mut p| p.pop()) else { return false };
        if self.analysis.context.catalog.functions.user.contains_key(&name) {
            return false;
        }
        match name.as_str() {
            "count" | "sum" | "avg" | "bool_and" | "bool_or" | "every" | "length" | "char_length"
            | "character_length" | "octet_length" | "bit_length" | "abs" | "round" | "ceil" | "ceiling" | "floor"
            | "trunc" | "mod" | "power" | "sqrt" | "sign" | "date_part" | "date_trunc" | "make_date" | "row_number"
            | "rank" | "dense_rank" | "ntile" | "percent_rank" | "cume_dist" | "strpos" | "ascii" | "array_length"
            | "cardinality" | "to_date" | "to_timestamp" | "to_number" => true,
            "min" | "max" | "coalesce" | "greatest" | "least" | "nullif" | "lag" | "lead" | "first_value"
            | "last_value" => match &function.args {
                FunctionArguments::List(list) => {
                    let mut arguments = list.args.iter();
                    let mut one = |a: &FunctionArg| match a {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => self.has_order(e) || is_null(e),
                        _ => false,
                    };
                    if matches!(name.as_str(), "lag" | "lead" | "first_value" | "last_value" | "nullif") {
                        arguments.next().is_some_and(one)
                    } else {
                        arguments.all(&mut one)
                    }
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether all text in the statement compares as bytes.
    fn all_text_is_bytes(&self) -> bool {
        let facts = &self.analysis.facts;
        self.analysis.context.catalog.default_collation == Collation::Bytes
            && facts.collation.is_none()
            && facts
                .relations
                .iter()
                .all(|r| r.columns.iter().all(|c| matches!(c.collation, Collation::Bytes | Collation::None)))
    }

    /// Whether an expression may give another value each time.
    pub fn is_volatile(&self, expr: &Expr) -> bool {
        let found = visit_expressions(expr, |e| match e {
            Expr::Function(function) => {
                let volatile = match names::parts(&function.name) {
                    Some(parts) => match functions::kind(self.analysis.context, &parts) {
                        Kind::Plain(traits) => traits.volatile,
                        _ => true,
                    },
                    None => true,
                };
                if volatile { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }
}

/// Whether it is not certain how PostgreSQL calls an item.
fn has_unknown_name(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(expr) if output_name(expr).is_none())
}

fn is_null(expr: &Expr) -> bool {
    matches!(predicates::peel(expr), Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}

/// Operators that never give text.
fn is_no_text(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::Gt
            | BinaryOperator::Lt
            | BinaryOperator::GtEq
            | BinaryOperator::LtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::And
            | BinaryOperator::Or
    )
}

/// Types without a collation, as they are written.
fn is_plain_type(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    let base = name.split('(').next().unwrap_or("").trim();
    matches!(
        base,
        "smallint"
            | "int2"
            | "integer"
            | "int"
            | "int4"
            | "bigint"
            | "int8"
            | "numeric"
            | "decimal"
            | "real"
            | "float4"
            | "float8"
            | "double precision"
            | "float"
            | "boolean"
            | "bool"
            | "date"
            | "timestamp"
            | "timestamptz"
            | "timestamp with time zone"
            | "timestamp without time zone"
            | "time"
            | "uuid"
            | "bytea"
    )
}
