//! Expressions → [`Pred`]: only what compares a bare column, in its own type's operator family, with a column, a
//! constant or a parameter.

use super::CompareOp;
use super::Source;
use super::classes::Atom;
use super::classes::Pred;
use super::classes::Test;
use super::source::SourceText;
use crate::catalog::Collation;
use crate::sql::normalize;
use crate::value::Datum;
use crate::value::KeyType;
use crate::value::Oid;
use crate::value::array;
use crate::value::key;
use sqlparser::ast::BinaryOperator;
use sqlparser::ast::CastKind;
use sqlparser::ast::DataType;
use sqlparser::ast::Expr;
use sqlparser::ast::Ident;
use sqlparser::ast::InTarget;
use sqlparser::ast::UnaryOperator;
use sqlparser::ast::Value;
use sqlparser::ast::ValueWithSpan;

/// What predicates need to know of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnFacts {
    pub type_oid: Oid,
    pub collation: Collation,
    pub not_null: bool,
    /// An outer join can extend its row with NULLs.
    pub nullable: bool,
}

/// The side of the planner that knows scopes.
pub trait Resolve {
    /// The column that a (qualified) name means, where that is certain.
    fn column(&self, name: &[Ident]) -> Option<Atom>;
    fn facts(&self, atom: Atom) -> Option<ColumnFacts>;
    fn text(&self) -> &SourceText<'_>;
}

/// Types whose values are equal exactly when their hashes' inputs are: equality between two of one family prunes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Integer,
    Text,
    Other(Oid),
}

/// The family of a column; none where equality is not equality of values.
pub fn family(facts: &ColumnFacts) -> Option<Family> {
    (facts.collation != Collation::Nondeterministic).then(|| family_of(facts.type_oid))
}

fn family_of(oid: Oid) -> Family {
    match KeyType::from_oid(oid) {
        Some(KeyType::SmallInt | KeyType::Integer | KeyType::BigInt) => Family::Integer,
        Some(KeyType::Text | KeyType::Varchar) => Family::Text,
        _ => Family::Other(oid),
    }
}

/// A constant or parameter that is compared with a column.
pub enum Operand {
    Null,
    Source(Source),
}

/// Reads a predicate; what is not understood is `True`.
pub fn pred(expr: &Expr, scope: &impl Resolve) -> Pred {
    match expr {
        Expr::Nested(inner) | Expr::IsTrue(inner) => pred(inner, scope),
        Expr::Value(ValueWithSpan { value: Value::Boolean(false) | Value::Null, .. }) => Pred::False,
        Expr::BinaryOp { left, op, right } => binary(left, op, right, scope),
        Expr::Between { expr, negated: false, low, high } => Pred::And(vec![
            compare(expr, CompareOp::GreaterOrEqual, low, scope),
            compare(expr, CompareOp::LessOrEqual, high, scope),
        ]),
        Expr::In { expr, target: InTarget::List(list), negated: false, .. } => {
            Pred::Or(list.iter().map(|item| equal(expr, item, scope)).collect())
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => equal_any(left, right, scope),
        Expr::IsNull(inner) => match bare(inner, scope) {
            Some((atom, facts)) if !facts.nullable => Pred::Is(atom, Test::IsNull),
            _ => Pred::True,
        },
        Expr::IsNotDistinctFrom(left, right) => not_distinct(left, right, scope),
        _ => Pred::True,
    }
}

fn binary(left: &Expr, op: &BinaryOperator, right: &Expr, scope: &impl Resolve) -> Pred {
    match op {
        BinaryOperator::And => Pred::And(vec![pred(left, scope), pred(right, scope)]),
        BinaryOperator::Or => Pred::Or(vec![pred(left, scope), pred(right, scope)]),
        BinaryOperator::Eq => equal(left, right, scope),
        BinaryOperator::Lt => ordered(left, CompareOp::Less, right, scope),
        BinaryOperator::LtEq => ordered(left, CompareOp::LessOrEqual, right, scope),
        BinaryOperator::Gt => ordered(left, CompareOp::Greater, right, scope),
        BinaryOperator::GtEq => ordered(left, CompareOp::GreaterOrEqual, right, scope),
        _ => Pred::True,
    }
}

/// `a = b`, also between rows of the same width.
pub fn equal(left: &Expr, right: &Expr, scope: &impl Resolve) -> Pred {
    let (left, right) = (peel(left), peel(right));
    if let (Expr::Tuple(a), Expr::Tuple(b)) = (left, right) {
        if a.len() != b.len() {
            return Pred::True;
        }
        return Pred::And(a.iter().zip(b).map(|(a, b)| equal(a, b, scope)).collect());
    }
    match (bare(left, scope), bare(right, scope)) {
        (Some((a, a_facts)), Some((b, b_facts))) => columns_equal(a, &a_facts, b, &b_facts),
        (Some((atom, facts)), None) => column_is(atom, &facts, right, scope),
        (None, Some((atom, facts))) => column_is(atom, &facts, left, scope),
        (None, None) => Pred::True,
    }
}

/// Equality of two columns, if it is equality of key values.
pub fn columns_equal(a: Atom, a_facts: &ColumnFacts, b: Atom, b_facts: &ColumnFacts) -> Pred {
    match (family(a_facts), family(b_facts)) {
        (Some(x), Some(y)) if x == y => Pred::Equal(a, b),
        _ => Pred::True,
    }
}

fn column_is(atom: Atom, facts: &ColumnFacts, value: &Expr, scope: &impl Resolve) -> Pred {
    match operand(value, facts, scope) {
        Some(Operand::Null) => Pred::False,
        Some(Operand::Source(source)) => Pred::Is(atom, Test::Equals(source)),
        None => Pred::True,
    }
}

fn not_distinct(left: &Expr, right: &Expr, scope: &impl Resolve) -> Pred {
    let (atom, facts, value) = match (bare(left, scope), bare(right, scope)) {
        (Some((atom, facts)), None) => (atom, facts, right),
        (None, Some((atom, facts))) => (atom, facts, left),
        _ => return Pred::True,
    };
    match operand(value, &facts, scope) {
        Some(Operand::Null) if !facts.nullable => Pred::Is(atom, Test::IsNull),
        // a parameter may be NULL
        Some(Operand::Source(source @ (Source::Literal { .. } | Source::Const(_)))) => {
            Pred::Is(atom, Test::Equals(source))
        }
        _ => Pred::True,
    }
}

/// A comparison whichever way it is written.
fn ordered(left: &Expr, op: CompareOp, right: &Expr, scope: &impl Resolve) -> Pred {
    let flipped = match op {
        CompareOp::Less => CompareOp::Greater,
        CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
    };
    match compare(left, op, right, scope) {
        Pred::True => compare(right, flipped, left, scope),
        pred => pred,
    }
}

fn compare(column: &Expr, op: CompareOp, value: &Expr, scope: &impl Resolve) -> Pred {
    let Some((atom, facts)) = bare(column, scope) else { return Pred::True };
    if !matches!(facts.collation, Collation::None | Collation::Bytes) {
        return Pred::True;
    }
    match operand(value, &facts, scope) {
        Some(Operand::Null) => Pred::False,
        Some(Operand::Source(source)) => Pred::Is(atom, Test::Compare(op, source)),
        None => Pred::True,
    }
}

fn equal_any(left: &Expr, right: &Expr, scope: &impl Resolve) -> Pred {
    let Some((atom, facts)) = bare(left, scope) else { return Pred::True };
    let Some(key) = KeyType::from_oid(facts.type_oid).filter(|_| family(&facts).is_some()) else { return Pred::True };
    let (array, cast) = match peel(right) {
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            (peel(expr), Some(data_type))
        }
        other => (other, None),
    };
    if let Some(cast) = cast
        && !array_cast_fits(cast, &facts)
    {
        return Pred::True;
    }
    match array {
        Expr::Array(array) => Pred::Or(array.elem.iter().map(|e| equal(left, e, scope)).collect()),
        Expr::Value(value) => match source(value, false, scope) {
            Some(Operand::Null) => Pred::False,
            Some(Operand::Source(array)) => Pred::Is(atom, Test::EqualsAny(array)),
            None => view_array(value, atom, key, scope),
        },
        _ => Pred::True,
    }
}

/// An array constant in a view's definition.
fn view_array(value: &ValueWithSpan, atom: Atom, key: KeyType, scope: &impl Resolve) -> Pred {
    let text = scope.text();
    let Some(string) = string_text(value, text).filter(|_| !text.is_client) else { return Pred::True };
    match array::array_elements(key, 0, 0, string.as_bytes()) {
        Ok(Some(values)) => {
            let equals = |v| Pred::Is(atom, Test::Equals(Source::Const(v)));
            Pred::Or(values.into_iter().filter(|v| *v != Datum::Null).map(equals).collect())
        }
        _ => Pred::True,
    }
}

/// A bare column, with its facts.
pub fn bare(expr: &Expr, scope: &impl Resolve) -> Option<(Atom, ColumnFacts)> {
    let atom = match peel(expr) {
        Expr::Identifier(ident) => scope.column(std::slice::from_ref(ident))?,
        Expr::CompoundIdentifier(idents) => scope.column(idents)?,
        _ => return None,
    };
    Some((atom, scope.facts(atom)?))
}

pub fn peel(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// A constant or parameter that takes the column's type, or is cast to one of its family.
pub fn operand(expr: &Expr, facts: &ColumnFacts, scope: &impl Resolve) -> Option<Operand> {
    let family = family(facts)?;
    let (value, negative) = match peel(expr) {
        Expr::Value(value) => (value, false),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match peel(expr) {
            Expr::Value(value @ ValueWithSpan { value: Value::Number(..), .. }) => (value, true),
            _ => return None,
        },
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            if family_of(type_oid(data_type)?) != family {
                return None;
            }
            match peel(expr) {
                Expr::Value(value) => (value, false),
                Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match peel(expr) {
                    Expr::Value(value @ ValueWithSpan { value: Value::Number(..), .. }) => (value, true),
                    _ => return None,
                },
                _ => return None,
            }
        }
        Expr::TypedString(typed) => {
            if family_of(type_oid(&typed.data_type)?) != family {
                return None;
            }
            (&typed.value, false)
        }
        _ => return None,
    };
    if let Some(operand) = source(value, negative, scope) {
        return Some(operand);
    }
    constant(value, negative, KeyType::from_oid(facts.type_oid)?, scope.text())
        .map(|d| Operand::Source(Source::Const(d)))
}

/// A literal or parameter of the client's text.
fn source(value: &ValueWithSpan, negative: bool, scope: &impl Resolve) -> Option<Operand> {
    let text = scope.text();
    match &value.value {
        Value::Null => Some(Operand::Null),
        Value::Placeholder(name) => {
            let number = name.strip_prefix('$')?.parse().ok()?;
            Some(Operand::Source(Source::Param(number)))
        }
        Value::Boolean(_) => None,
        _ if text.is_client => Some(Operand::Source(Source::Literal { ordinal: text.literal(value.span)?, negative })),
        _ => None,
    }
}

/// The value of a literal in a view's definition.
fn constant(value: &ValueWithSpan, negative: bool, key: KeyType, text: &SourceText<'_>) -> Option<Datum> {
    match &value.value {
        Value::Number(digits, _) => key::from_number_literal(key, digits, negative).ok().flatten(),
        _ => key::from_text_literal(key, &string_text(value, text)?).ok().flatten(),
    }
}

/// The value of a string literal.
pub fn string_text(value: &ValueWithSpan, text: &SourceText<'_>) -> Option<String> {
    let ordinal = text.literal(value.span)?;
    let (start, end) = text.literals.get(ordinal).copied()?;
    let decoded = normalize::string_value(text.text, start..end, text.standard_conforming_strings)?;
    Some(decoded.into_owned())
}

/// The OID of a type that can be a key's, written without modifiers.
pub fn type_oid(data_type: &DataType) -> Option<Oid> {
    let name = data_type.to_string().to_ascii_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    // character without a length means character(1)
    if name.contains('(') || matches!(name, "char" | "character") {
        return None;
    }
    KeyType::parse_name(name).map(KeyType::oid)
}

fn array_cast_fits(data_type: &DataType, facts: &ColumnFacts) -> bool {
    let name = data_type.to_string().to_ascii_lowercase();
    let Some(element) = name.strip_suffix("[]") else { return false };
    let element = element.strip_prefix("pg_catalog.").unwrap_or(element);
    if element.contains('(') || matches!(element, "char" | "character") {
        return false;
    }
    KeyType::parse_name(element).is_some_and(|k| Some(family_of(k.oid())) == family(facts))
}
