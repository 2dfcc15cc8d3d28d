//! The name that PostgreSQL gives to an output column without an alias (parse_target.c, FigureColname).
//!
//! A wrong name here would make ORDER BY or an outer query mean another column than PostgreSQL does, so that what is
//! not certain has no name.

use super::names;
use sqlparser::ast::AccessExpr;
use sqlparser::ast::BinaryOperator;
use sqlparser::ast::DataType;
use sqlparser::ast::Expr;
use sqlparser::ast::Query;
use sqlparser::ast::SelectItem;
use sqlparser::ast::SetExpr;
use sqlparser::ast::Value;

/// How PostgreSQL calls what has no name.
const ANONYMOUS: &str = "?column?";

/// A name, and whether a cast around it leaves it.
struct Found {
    name: String,
    strong: bool,
}

/// The name of a select item without an alias; `None`: not certain.
pub fn output_name(expr: &Expr) -> Option<String> {
    figure(expr).map(|found| found.name)
}

fn figure(expr: &Expr) -> Option<Found> {
    match expr {
        Expr::Identifier(ident) => strong(names::fold(ident)),
        Expr::CompoundIdentifier(idents) => strong(names::fold(idents.last()?)),
        Expr::CompoundFieldAccess { root, access_chain } => element(root, access_chain),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Function(function) => strong(names::parts(&function.name)?.pop()?),
        Expr::Cast { expr, data_type, .. } => match figure(expr)? {
            found if found.strong => Some(found),
            _ => weak(type_name(data_type)?),
        },
        Expr::TypedString(typed) => weak(type_name(&typed.data_type)?),
        Expr::Interval(_) => weak("interval"),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(figure) {
            None => weak("case"),
            Some(found) => match found? {
                found if found.strong => Some(found),
                _ => weak("case"),
            },
        },
        Expr::Exists { .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Subquery(query) => subquery(query),
        Expr::Extract { .. } => strong("extract"),
        Expr::Position { .. } => strong("position"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => strong("overlaps"),
        // TRUE and FALSE are called bool by older servers
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => None,
        Expr::Value(_)
        | Expr::BinaryOp { .. }
        | Expr::UnaryOp { .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::Between { .. }
        | Expr::In { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::SimilarTo { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. } => weak(ANONYMOUS),
        _ => None,
    }
}

fn strong(name: impl Into<String>) -> Option<Found> {
    Some(Found { name: name.into(), strong: true })
}

fn weak(name: impl Into<String>) -> Option<Found> {
    Some(Found { name: name.into(), strong: false })
}

/// The last field's name, else that of what the element is taken from.
fn element(root: &Expr, chain: &[AccessExpr]) -> Option<Found> {
    for access in chain.iter().rev() {
        match access {
            AccessExpr::Dot(Expr::Identifier(ident)) => return strong(names::fold(ident)),
            AccessExpr::Dot(_) => return None,
            AccessExpr::Subscript(_) => {}
        }
    }
    figure(root)
}

/// A scalar subquery is called as its only column.
fn subquery(query: &Query) -> Option<Found> {
    let SetExpr::Select(select) = &*query.body else { return None };
    match select.projection.as_slice() {
        [SelectItem::ExprWithAlias { alias, .. }] => strong(names::fold(alias)),
        [SelectItem::UnnamedExpr(expr)] => figure(expr),
        _ => None,
    }
}

/// A type's name in pg_type.
fn type_name(data_type: &DataType) -> Option<&'static str> {
    let name = data_type.to_string().to_ascii_lowercase();
    let base = name.split(['(', '[']).next()?.trim();
    Some(match base {
        "smallint" | "int2" => "int2",
        "int" | "integer" | "int4" => "int4",
        "bigint" | "int8" => "int8",
        "text" => "text",
        "date" => "date",
        "numeric" | "decimal" => "numeric",
        "boolean" | "bool" => "bool",
        "uuid" => "uuid",
        "bytea" => "bytea",
        "json" => "json",
        "jsonb" => "jsonb",
        "varchar" | "character varying" => "varchar",
        "double precision" | "float8" => "float8",
        "real" | "float4" => "float4",
        "interval" => "interval",
        "timestamptz" => "timestamptz",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::output_name;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    fn name(sql: &str) -> Option<String> {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap();
        output_name(&parser.parse_expr().unwrap())
    }

    /// As PostgreSQL 15 says it.
    #[test]
    fn names_are_postgresql_s() {
        let cases = [
            ("a.\"B\"", "B"),
            ("(n)::text", "n"),
            ("1::bigint", "int8"),
            ("'x'::text", "text"),
            ("DATE '2024-01-01'", "date"),
            ("CASE WHEN a THEN 1 ELSE n END", "n"),
            ("CASE WHEN a THEN n ELSE 1 END", "case"),
            ("CASE WHEN a THEN n END::text", "text"),
            ("(SELECT max(n) FROM t)", "max"),
            ("(SELECT 1 AS x)", "x"),
            ("arr[2]", "arr"),
            ("(t.c).field", "field"),
            ("n + 1", "?column?"),
            ("NOT b", "?column?"),
            ("coalesce(a, b)", "coalesce"),
            ("array_agg(n)", "array_agg"),
            ("EXISTS (SELECT 1)", "exists"),
            ("extract(year FROM d)", "extract"),
            ("t COLLATE \"C\"", "t"),
        ];
        for (sql, expected) in cases {
            assert_eq!(name(sql).as_deref(), Some(expected), "{sql}");
        }
        assert_eq!(name("true"), None);
    }
}
