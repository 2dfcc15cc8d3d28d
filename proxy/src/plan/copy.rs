//! COPY: whole on one shard, or over several: rows split by key, the same data to every shard, or out of each in turn.
//!
//! Read by tokens: the parser fails on several forms, and only the table or the query, the direction and the other end
//! matter here.

use super::BinaryCopy;
use super::Context;
use super::CopyDirection;
use super::CopyKey;
use super::CopyPlan;
use super::CopySplit;
use super::Effect;
use super::KeyCondition;
use super::KeyExpr;
use super::Layout;
use super::PinReason;
use super::Plan;
use super::RowsPlan;
use super::Source;
use super::Target;
use super::UnknownNames;
use super::copy_options;
use super::copy_options::Options;
use super::names;
use super::names::Named;
use super::reference;
use super::rows;
use super::rows::CHOOSE;
use super::schema::cursor::Cursor;
use super::schema::triggers;
use super::schema::varies::varies;
use crate::catalog::Catalog;
use crate::catalog::Column;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::lexer::TokenKind;
use crate::sql::normalize;
use crate::sql::normalize::Normalized;
use crate::value::KeyType;
use crate::wire::copy::Format;
use std::sync::Arc;

/// What a COPY statement says.
struct Copy<'a> {
    what: What<'a>,
    direction: CopyDirection,
    /// STDIN or STDOUT; else a file or a program of the server.
    client: bool,
    /// The columns that are named.
    columns: Option<Vec<String>>,
    binary: bool,
    /// What stands behind STDIN or STDOUT.
    options: Cursor<'a>,
}

enum What<'a> {
    Table(Vec<String>),
    Query(Cursor<'a>),
}

/// Plans a COPY statement.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let mut plan = of(statement, context);
    if let Plan::Rows(rows) = &mut plan {
        rows.binary_copy = binary(statement, context).map(Arc::new);
    }
    if let Plan::Rows(rows) = &mut plan
        && rows.copies.is_some()
    {
        // The options are literals, and all of them are read.
        let mut scan = Normalized::default();
        if normalize::scan(&statement.text, context.standard_conforming_strings, &mut scan).is_ok() {
            rows.fixed = (0..scan.literals.len()).collect();
        }
    }
    plan
}

fn binary(statement: &Statement, context: &Context<'_>) -> Option<BinaryCopy> {
    if context.catalog.shards.len() < 2 {
        return None;
    }
    let copy = read(Cursor::new(&statement.text, &statement.tokens))?;
    let options = copy_options::read(copy.options, copy.binary, context.standard_conforming_strings).ok()?;
    if options.shape.format != Format::Binary {
        return None;
    }
    match &copy.what {
        What::Query(query) => Some(BinaryCopy::Query(statement.text.get(query.range()?)?.to_owned())),
        What::Table(parts) => {
            let Named::Relation(relation) = names::relation(context, parts) else { return None };
            let own = |name: &String| relation.columns.iter().find(|c| c.name == *name).map(|c| c.type_oid);
            let all = relation.columns.iter().filter(|c| !c.generated).map(|c| c.type_oid);
            Some(BinaryCopy::Table(match &copy.columns {
                Some(names) => names.iter().map(own).collect::<Option<_>>()?,
                None => all.collect(),
            }))
        }
    }
}

fn of(statement: &Statement, context: &Context<'_>) -> Plan {
    let Some(copy) = read(Cursor::new(&statement.text, &statement.tokens)) else {
        return Plan::AskFirst(Error::unsupported("this form of COPY cannot be read here"));
    };
    let one = (context.catalog.shards.len() <= 1).then_some(Catalog::HOME);
    let chosen = context.forced_shard.or(one);
    if !copy.client && chosen.is_none() {
        return Plan::Refuse(
            Error::unsupported("COPY with a file or program of the server")
                .hint(format!("Use STDIN or STDOUT (\\copy in psql). {CHOOSE}")),
        );
    }
    match &copy.what {
        What::Table(parts) => match chosen {
            Some(shard) => {
                let relation = match names::relation(context, parts) {
                    Named::Relation(relation) => Some(relation),
                    _ => None,
                };
                Plan::Rows(whole(&copy, Target::Shard(shard), relation.as_deref(), context))
            }
            None => table(&copy, parts, context),
        },
        What::Query(query) => self::query(&copy, query, statement, context),
    }
}

/// COPY [BINARY] table [(columns)] … or COPY (query) …
fn read(mut cursor: Cursor<'_>) -> Option<Copy<'_>> {
    if !cursor.word("copy") {
        return None;
    }
    let (mut columns, mut binary) = (None, false);
    let what = match cursor.parens() {
        Some(query) => What::Query(query),
        None => {
            binary = cursor.word("binary");
            let table = cursor.qualified()?;
            if cursor.symbol_at(0, "(") {
                columns = Some(cursor.name_list()?);
            }
            What::Table(table)
        }
    };
    let direction = match cursor.one_of(&["from", "to"])? {
        "from" => CopyDirection::In,
        _ => CopyDirection::Out,
    };
    if matches!((&what, direction), (What::Query(_), CopyDirection::In)) {
        return None;
    }
    // gram.y takes either word for either direction
    let client = cursor.one_of(&["stdin", "stdout"]).is_some();
    let file = cursor.word_at(0, "program") || cursor.peek().is_some_and(|token| token.kind == TokenKind::String);
    (client || file).then_some(Copy { what, direction, client, columns, binary, options: cursor })
}

fn whole(copy: &Copy<'_>, target: Target, relation: Option<&Relation>, context: &Context<'_>) -> RowsPlan {
    let effect = match copy.direction {
        CopyDirection::In => Effect::Write,
        CopyDirection::Out => Effect::Read,
    };
    let mut plan = RowsPlan::at(target, effect);
    plan.copy = copy.client.then_some(copy.direction);
    plan.opaque = !copy.client
        || (copy.direction == CopyDirection::In
            && relation.is_some_and(|r| triggers::opaque(r, "INSERT", context).is_some()));
    plan.pins = plan.opaque.then_some(PinReason::Opaque);
    plan
}

/// A table, on a database of several shards.
fn table(copy: &Copy<'_>, parts: &[String], context: &Context<'_>) -> Plan {
    let into = copy.direction == CopyDirection::In;
    let relation = match names::relation(context, parts) {
        Named::Relation(relation) => relation,
        // it cannot be written, and the home shard says so
        Named::Temporary | Named::System => return Plan::Rows(whole(copy, Target::Home, None, context)),
        Named::Unknown(name) => return Plan::Unknown(UnknownNames { names: vec![name] }),
    };
    let name = &relation.name;
    let target = match &relation.placement {
        Placement::Sharded { .. } if into => return planned(split(copy, &relation, context)),
        Placement::Sharded { .. } => return planned(each(copy, &relation, context)),
        Placement::Reference if into => return planned(everyone(copy, &relation, context)),
        Placement::Reference => Target::Any,
        Placement::Single(shard) => Target::Shard(*shard),
        // PostgreSQL copies no view, and says so; what INSTEAD OF triggers do with rows nobody can see
        Placement::Derived if into => {
            return Plan::Refuse(Error::unsupported(format!("COPY FROM into view {name}")).hint(CHOOSE));
        }
        Placement::Derived | Placement::System => Target::Home,
        Placement::Ambiguous(_) | Placement::Refused(_) => {
            return match super::schema::place::of_relation(&relation, context) {
                Err(stop) => stop.plan(),
                Ok(_) => Plan::Refuse(Error::unsupported(format!("COPY of table {name}"))),
            };
        }
    };
    if into
        && context.catalog.has_distributed_tables()
        && let Some(trigger) = triggers::opaque(&relation, "INSERT", context)
    {
        return Plan::Refuse(triggers::refused(&trigger));
    }
    Plan::Rows(whole(copy, target, Some(&relation), context))
}

fn planned(plan: Result<RowsPlan, Error>) -> Plan {
    match plan {
        Ok(plan) => Plan::Rows(plan),
        Err(error) => Plan::AskFirst(error),
    }
}

/// COPY … FROM STDIN into a sharded table: each row to the shard of its key.
fn split(copy: &Copy<'_>, relation: &Relation, context: &Context<'_>) -> Result<RowsPlan, Error> {
    let name = &relation.name;
    let Placement::Sharded { map, key } = &relation.placement else { return Err(Error::internal("no shard key")) };
    let options = copy_options::read(copy.options, copy.binary, context.standard_conforming_strings)?;
    checked_rows(copy, relation, &options, context)?;
    let all = relation.columns.iter().filter(|c| !c.generated).map(|c| c.name.clone());
    let given: Vec<String> = copy.columns.clone().unwrap_or_else(|| all.collect());
    if let Some(unique) = relation.unique.iter().find(|unique| !key.iter().all(|k| unique.contains(k))) {
        let columns: Vec<&str> =
            unique.iter().filter_map(|c| relation.columns.get(*c)).map(|c| c.name.as_str()).collect();
        return Err(Error::unsupported(format!(
            "COPY FROM into sharded table {name} with the unique constraint ({}), which does not contain the shard key",
            columns.join(", ")
        ))
        .detail("One shard cannot tell whether another has the same values.")
        .hint("Add the shard key's columns to the constraint."));
    }
    for column in relation.columns.iter().filter(|c| !given.contains(&c.name)) {
        let draws = column.identity || column.default.as_deref().is_some_and(|d| d.contains("nextval("));
        if draws || (reference::default_varies(column, context) && !is_fresh(column)) {
            return Err(Error::unsupported(format!(
                "COPY FROM into sharded table {name} that leaves out column {}",
                column.name
            ))
            .detail("Its default would be another one on each shard.")
            .hint(format!("Give column {} in the data.", column.name)));
        }
    }
    let mut types = Vec::new();
    let mut keys = Vec::new();
    for position in key {
        let column = relation.columns.get(*position).ok_or_else(|| Error::internal("no key column"))?;
        let field = given.iter().position(|name| *name == column.name);
        if field.is_none() && column.default.is_some() {
            return Err(Error::unsupported(format!("the default of shard key column {}", column.name))
                .hint("Give the shard key in the data."));
        }
        types.push(KeyType::from_oid(column.type_oid).ok_or_else(|| Error::internal("no key type"))?);
        keys.push(CopyKey {
            name: column.name.clone(),
            field,
            length: length(&column.type_name),
            force_null: options.force_null.has(&column.name),
            force_not_null: options.force_not_null.has(&column.name),
        });
    }
    let condition = KeyCondition {
        map: *map,
        types: types.clone(),
        names: keys.iter().map(|key| format!("{}.{}", name.name, key.name)).collect(),
        widths: Vec::new(),
        not_null: Vec::new(),
        expr: KeyExpr::True,
    };
    let mut plan = whole(copy, Target::Keys { conditions: vec![condition], also: Vec::new() }, Some(relation), context);
    let fields = keys.iter().filter_map(|key| key.field).map(|field| field + 1).max().unwrap_or(0);
    plan.copies = Some(Arc::new(CopyPlan::Split(CopySplit {
        table: name.name.clone(),
        map: *map,
        types,
        keys,
        fields,
        shape: options.shape,
        encoding: options.encoding,
    })));
    Ok(plan)
}

/// A default that is another one for each row, wherever it is computed.
fn is_fresh(column: &Column) -> bool {
    column.default.as_deref().is_some_and(|d| matches!(d, "gen_random_uuid()" | "random()" | "clock_timestamp()"))
}

/// n of character varying(n)
fn length(type_name: &str) -> Option<usize> {
    type_name.strip_prefix("character varying(")?.strip_suffix(')')?.parse().ok()
}

/// COPY … FROM STDIN into a reference table: the same data everywhere.
fn everyone(copy: &Copy<'_>, relation: &Relation, context: &Context<'_>) -> Result<RowsPlan, Error> {
    let name = &relation.name;
    let options = copy_options::read(copy.options, copy.binary, context.standard_conforming_strings)?;
    checked_rows(copy, relation, &options, context)?;
    let left_out = |column: &&Column| copy.columns.as_ref().is_some_and(|given| !given.contains(&column.name));
    if let Some(column) =
        relation.columns.iter().filter(left_out).find(|column| reference::default_varies(column, context))
    {
        return Err(Error::unsupported(format!(
            "COPY FROM into reference table {name} that leaves out column {}",
            column.name
        ))
        .detail("Its default would be another one on each shard.")
        .hint(format!("Give column {} in the data.", column.name)));
    }
    let mut plan = whole(copy, Target::All, Some(relation), context);
    plan.copies = Some(Arc::new(CopyPlan::Everyone { table: name.clone() }));
    Ok(plan)
}

/// What is refused of any COPY … FROM over several shards.
fn checked_rows(copy: &Copy<'_>, relation: &Relation, options: &Options, context: &Context<'_>) -> Result<(), Error> {
    if let Some(trigger) = triggers::opaque(relation, "INSERT", context) {
        return Err(triggers::refused(&trigger));
    }
    if options.has_where
        && let Some(what) = varies(&copy.options, context)
    {
        return Err(Error::unsupported(format!("COPY FROM … WHERE with {what} over several shards"))
            .hint("Use constants and immutable functions in WHERE."));
    }
    Ok(())
}

/// COPY table TO: the rows of each shard in turn.
fn each(copy: &Copy<'_>, relation: &Relation, context: &Context<'_>) -> Result<RowsPlan, Error> {
    let Placement::Sharded { map, key } = &relation.placement else { return Err(Error::internal("no shard key")) };
    let options = copy_options::read(copy.options, copy.binary, context.standard_conforming_strings)?;
    if relation.has_policies {
        return Err(Error::unsupported(format!(
            "COPY TO from table {} with row security over several shards",
            relation.name
        ))
        .hint("Use SELECT."));
    }
    let columns = key.iter().filter_map(|k| relation.columns.get(*k));
    let condition = KeyCondition {
        map: *map,
        types: columns.clone().filter_map(|c| KeyType::from_oid(c.type_oid)).collect(),
        names: columns.map(|c| format!("{}.{}", relation.name.name, c.name)).collect(),
        widths: Vec::new(),
        not_null: Vec::new(),
        expr: KeyExpr::True,
    };
    let mut plan = whole(copy, Target::Keys { conditions: vec![condition], also: Vec::new() }, Some(relation), context);
    plan.copies = Some(Arc::new(CopyPlan::Out { shape: options.shape }));
    Ok(plan)
}

/// A query of which each shard can give its rows as they are.
fn is_plain(plan: &RowsPlan, inner: &Statement) -> bool {
    let Ok(scatter) = &plan.scatter else { return false };
    let Layout::Rows { copies: false, extra: 0, distinct: false, order } = &scatter.layout else { return false };
    order.is_empty()
        && scatter.limit.is_none()
        && scatter.offset.is_none()
        && scatter.sql.render(&inner.text, &inner.tokens).trim() == inner.text.trim()
}

/// COPY (query) TO: where the query runs whole.
fn query(copy: &Copy<'_>, query: &Cursor<'_>, statement: &Statement, context: &Context<'_>) -> Plan {
    let Ok(inner) = Statement::new(Arc::from(query.rest()), context.standard_conforming_strings) else {
        return Plan::AskFirst(Error::unsupported("this form of COPY cannot be read here"));
    };
    let no_query = || Plan::AskFirst(Error::unsupported("COPY of what is no query"));
    if !matches!(inner.command, Command::Select | Command::Insert | Command::Update | Command::Delete | Command::Merge)
    {
        return no_query();
    }
    let plan = match rows::plan(&inner, context) {
        Plan::Rows(plan) => plan,
        other @ (Plan::Refuse(_) | Plan::AskFirst(_) | Plan::Unknown(_)) => return other,
        Plan::Session | Plan::Everywhere(_) | Plan::Explain(_) => return no_query(),
    };
    let start = query.range().map_or(0, |range| range.start);
    let before = statement.tokens.iter().filter(|token| token.is_literal() && token.range().start < start).count();
    let mut plan = shifted(plan, before);
    plan.copy = copy.client.then_some(copy.direction);
    if !copy.client {
        plan.opaque = true;
        plan.pins = Some(PinReason::Opaque);
    }
    if plan.everyone.take().is_some() {
        return Plan::Refuse(
            Error::unsupported("COPY of a write to reference tables").hint("Use the statement with RETURNING instead."),
        );
    }
    if copy.client && is_plain(&plan, &inner) {
        match copy_options::read(copy.options, copy.binary, context.standard_conforming_strings) {
            Ok(options) => plan.copies = Some(Arc::new(CopyPlan::Out { shape: options.shape })),
            Err(error) => return Plan::AskFirst(error),
        }
    }
    plan.scatter =
        Err(Error::unsupported("COPY of a query over several shards whose rows need more than to be put together")
            .hint("Name one value of the shard key in WHERE, or use SELECT."));
    Plan::Rows(plan)
}

/// The plan of the query within a text that has `before` literals before it.
fn shifted(mut plan: RowsPlan, before: usize) -> RowsPlan {
    if let Target::Keys { conditions, .. } = &mut plan.target {
        conditions.iter_mut().for_each(|condition: &mut KeyCondition| shift_expr(&mut condition.expr, before));
    }
    plan.fixed.iter_mut().for_each(|ordinal| *ordinal += before);
    plan
}

fn shift_expr(expr: &mut KeyExpr, before: usize) {
    match expr {
        KeyExpr::True | KeyExpr::False | KeyExpr::IsNull { .. } => {}
        KeyExpr::Equals { value, .. } | KeyExpr::EqualsAny { array: value, .. } | KeyExpr::Compare { value, .. } => {
            shift(value, before);
        }
        KeyExpr::Row(values) => values.iter_mut().for_each(|value| shift(value, before)),
        KeyExpr::And(parts) | KeyExpr::Or(parts) => parts.iter_mut().for_each(|part| shift_expr(part, before)),
    }
}

fn shift(source: &mut Source, before: usize) {
    if let Source::Literal { ordinal, .. } = source {
        *ordinal += before;
    }
}
