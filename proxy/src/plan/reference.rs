//! Writes to reference tables: on every shard, with the same effect on each.
//!
//! Where nothing in the statement can differ between shards the same text runs on all of them. Else the lead shard
//! computes: its text also returns the images of the rows that it has written, and these are applied to the others.

use super::Effect;
use super::EveryonePlan;
use super::ImagesPlan;
use super::PinReason;
use super::RowsPlan;
use super::Target;
use super::analyse::Analysis;
use super::analyse::BlockKind;
use super::analyse::Write;
use super::names;
use super::rows;
use super::schema::cursor::Cursor;
use super::schema::varies::varies;
use super::source::SourceText;
use crate::catalog::Catalog;
use crate::catalog::Column;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::error::Error;
use crate::sql::lexer;
use crate::sql::names::quote;
use crate::value::Oid;
use sqlparser::ast::Assignment;
use sqlparser::ast::AssignmentTarget;
use sqlparser::ast::Expr;
use sqlparser::ast::FromTable;
use sqlparser::ast::Insert;
use sqlparser::ast::OnConflictAction;
use sqlparser::ast::OnInsert;
use sqlparser::ast::SetExpr;
use sqlparser::ast::Statement as Tree;
use sqlparser::ast::TableFactor;
use sqlparser::ast::Visit;
use sqlparser::ast::Visitor;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The plan of a statement that writes reference tables; `None` if it writes none.
///
/// # Errors
/// 0A000 where it cannot have the same effect on every shard.
pub fn plan(
    analysis: &Analysis<'_>,
    tree: &Tree,
    source: &SourceText<'_>,
    opaque: Option<&str>,
) -> Result<Option<RowsPlan>, Error> {
    let facts = &analysis.facts;
    let Some(write) = facts.writes.iter().find(|w| is_reference(w, analysis)) else { return Ok(None) };
    let table = &write.relation.name;
    if let Some(other) = facts.writes.iter().find(|w| !is_reference(w, analysis)) {
        return Err(Error::unsupported(format!(
            "one statement that writes reference table {table} and table {}",
            other.relation.name
        ))
        .hint("Write them in one statement each."));
    }
    if analysis.sharded().next().is_some() || !facts.conditions.is_empty() {
        return Err(Error::unsupported(format!("a write to reference table {table} that reads sharded tables"))
            .hint("Read the rows first, then write them with VALUES."));
    }
    if let Some((shard, what)) = facts.needs.iter().find(|(shard, _)| *shard != Catalog::HOME) {
        let shard = analysis.context.catalog.shard_name(*shard);
        return Err(Error::unsupported(format!(
            "a write to reference table {table} that needs {what} of shard {shard}"
        ))
        .hint("Keep what it reads on the first shard, or write the rows with VALUES."));
    }
    if let Some(what) = opaque {
        return Err(rows::opaque_refused(what));
    }
    if let Some(guarded) = &facts.policies {
        return Err(Error::unsupported(format!(
            "a write to reference tables under the row security or rules of {guarded}"
        ))
        .hint("Write with a user that row security does not bind."));
    }
    let statement = bare(tree);
    let varies = differs(analysis, tree);
    let images = images(analysis, statement, source);
    if let (Some(what), Err(error)) = (&varies, &images) {
        return Err(error.clone().detail(format!("{what} may differ between shards.")));
    }
    let mut plan = RowsPlan::at(Target::All, Effect::Write);
    plan.everyone = Some(Arc::new(EveryonePlan { locks: locks(analysis), varies, images: images.map(Arc::new) }));
    Ok(Some(plan))
}

fn is_reference(write: &Write, analysis: &Analysis<'_>) -> bool {
    match &write.relation.placement {
        Placement::Reference => true,
        Placement::Derived => analysis.facts.reference && analysis.sharded().next().is_none(),
        _ => false,
    }
}

/// The statement behind its WITH.
fn bare(tree: &Tree) -> &Tree {
    match tree {
        Tree::Query(query) => match &*query.body {
            SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => inner,
            _ => tree,
        },
        _ => tree,
    }
}

/// The reference tables that it reads or writes, in order: their writers wait for each other.
fn locks(analysis: &Analysis<'_>) -> Vec<QualifiedName> {
    let facts = &analysis.facts;
    let all = facts.relations.iter().chain(facts.writes.iter().map(|w| &w.relation));
    let mut names: Vec<QualifiedName> =
        all.filter(|r| r.placement == Placement::Reference).map(|r| r.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// The first thing in a statement whose effect may be another one on each shard.
fn differs(analysis: &Analysis<'_>, tree: &Tree) -> Option<String> {
    let facts = &analysis.facts;
    let functions = facts.time.as_ref().or(facts.volatile.as_ref()).or(facts.server.as_ref());
    if let Some(name) = functions {
        return Some(format!("Function {name}"));
    }
    if let Some((_, what)) = facts.needs.first() {
        return Some(format!("The value of {what}"));
    }
    let construct = [
        (facts.pins == Some(PinReason::SequenceState), "A sequence's value"),
        (facts.system, "What a catalog table holds"),
        (facts.temporary, "What a temporary table holds"),
        (facts.system_column.is_some(), "A system column"),
        (facts.object_name.is_some(), "An object identifier"),
        (facts.tablesample, "A sample"),
        (!facts.set_config.is_empty(), "A setting"),
        (facts.shared_cte, "A common table expression that is read twice"),
    ];
    if let Some((_, what)) = construct.iter().find(|(found, _)| *found) {
        return Some((*what).to_owned());
    }
    analysis.blocks.iter().find_map(|block| block_differs(&block.kind)).or_else(|| statement_differs(analysis, tree))
}

/// What depends on the order in which a shard happens to read rows.
fn block_differs(block: &BlockKind) -> Option<String> {
    match block {
        BlockKind::Select(select) => {
            let construct = [
                (select.limited, "Which rows LIMIT keeps"),
                (select.distinct_on, "Which rows DISTINCT ON keeps"),
                (!select.windows.is_empty(), "A window function"),
                (select.aggregates, "An aggregate over rows in another order"),
                (select.returns_set, "The order of a function's rows"),
            ];
            construct.iter().find(|(found, _)| *found).map(|(_, what)| (*what).to_owned())
        }
        BlockKind::SetOperation { limited: true } => Some("Which rows LIMIT keeps".to_owned()),
        BlockKind::SetOperation { .. } | BlockKind::Values | BlockKind::Modify | BlockKind::Recursion => None,
    }
}

/// What may differ in the statement, or in one that its WITH holds.
fn statement_differs(analysis: &Analysis<'_>, tree: &Tree) -> Option<String> {
    let mut differences = Differences { analysis, found: None };
    let _: ControlFlow<()> = tree.visit(&mut differences);
    differences.found
}

struct Differences<'a> {
    analysis: &'a Analysis<'a>,
    found: Option<String>,
}

impl Visitor for Differences<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &Tree) -> ControlFlow<()> {
        // which of several tables it writes is not asked: each counts
        let mut writes = self.analysis.facts.writes.iter();
        self.found = writes.find_map(|write| write_differs(self.analysis, statement, &write.relation));
        if self.found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn write_differs(analysis: &Analysis<'_>, statement: &Tree, relation: &Relation) -> Option<String> {
    match statement {
        Tree::Insert(insert) => insert_differs(insert, relation, analysis),
        Tree::Update(update) => {
            if update.from.is_some() {
                return Some("Which of several matching rows an UPDATE … FROM takes".to_owned());
            }
            assigned_default(&update.assignments, relation, analysis)
        }
        Tree::Delete(_) | Tree::Query(_) => None,
        // the rows that it inserts have defaults too
        _ => relation.columns.iter().find_map(|column| default_differs(column, analysis)),
    }
}

fn insert_differs(insert: &Insert, relation: &Relation, analysis: &Analysis<'_>) -> Option<String> {
    let rows = match insert.source.as_deref().map(|source| &*source.body) {
        Some(SetExpr::Values(values)) => Some(&values.rows),
        _ => None,
    };
    let conflict = match &insert.on {
        Some(OnInsert::OnConflict(conflict)) => Some(conflict),
        _ => None,
    };
    if conflict.is_some() && rows.is_none() && insert.source.is_some() {
        return Some("Which of several conflicting rows comes first".to_owned());
    }
    let written: Vec<Option<String>> =
        insert.columns.iter().map(|name| names::parts(name)?.into_iter().next()).collect();
    for (position, column) in relation.columns.iter().enumerate() {
        let place = match written.is_empty() {
            true => insert.source.is_some().then_some(position),
            false => written.iter().position(|name| name.as_deref() == Some(column.name.as_str())),
        };
        let given = place.is_some_and(|place| match rows {
            Some(rows) => rows.iter().all(|row| row.content.get(place).is_some_and(|value| !is_default(value))),
            // a query may give fewer columns than the table has, where none are named
            None => !written.is_empty(),
        });
        if !given && let Some(what) = default_differs(column, analysis) {
            return Some(what);
        }
    }
    match conflict.map(|conflict| &conflict.action) {
        Some(OnConflictAction::DoUpdate(update)) => assigned_default(&update.assignments, relation, analysis),
        _ => None,
    }
}

/// SET column = DEFAULT, also in a row of several.
fn assigned_default(assignments: &[Assignment], relation: &Relation, analysis: &Analysis<'_>) -> Option<String> {
    assignments.iter().find_map(|assignment| match &assignment.target {
        // a view's columns have the defaults of tables that are not looked at here
        _ if relation.placement == Placement::Derived && is_default(&assignment.value) => {
            Some("The default of a view's column".to_owned())
        }
        AssignmentTarget::ColumnName(name) if is_default(&assignment.value) => {
            let name = names::parts(name)?.into_iter().next()?;
            default_differs(relation.columns.iter().find(|column| column.name == name)?, analysis)
        }
        AssignmentTarget::Tuple(_) => relation.columns.iter().find_map(|column| default_differs(column, analysis)),
        AssignmentTarget::ColumnName(_) => None,
    })
}

/// A default that gives another value on each shard.
fn default_differs(column: &Column, analysis: &Analysis<'_>) -> Option<String> {
    default_varies(column, analysis.context).then(|| format!("The default of column {}", column.name))
}

/// Whether a column's default may give another value on each shard.
pub fn default_varies(column: &Column, context: &super::Context<'_>) -> bool {
    if column.identity {
        return true;
    }
    let Some(default) = column.default.as_deref().filter(|_| !column.generated) else { return false };
    match lexer::tokenize(default, true) {
        Ok(tokens) => varies(&Cursor::new(default, &tokens), context).is_some(),
        Err(_) => true,
    }
}

/// DEFAULT as a value.
fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(i) if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"))
}

/// How the lead shard's rows are applied to the others.
fn images(analysis: &Analysis<'_>, statement: &Tree, source: &SourceText<'_>) -> Result<ImagesPlan, Error> {
    let [write] = analysis.facts.writes.as_slice() else {
        return Err(Error::unsupported(
            "several writes to reference tables in one statement whose effect may differ between shards",
        )
        .hint("Write them in one statement each."));
    };
    let relation = &*write.relation;
    let table = &relation.name;
    if relation.placement != Placement::Reference {
        return Err(Error::unsupported(format!("a write to view {table} whose effect may differ between shards"))
            .hint("Write to the view's table."));
    }
    if let Some(trigger) = relation.triggers.first() {
        return Err(Error::unsupported(format!(
            "a write to reference table {table} whose effect may differ between shards, with trigger {}",
            trigger.name
        ))
        .hint("Write constants, or drop the trigger."));
    }
    let (label, returning, columns, apply) = match statement {
        Tree::Insert(insert) => {
            let label = insert.table_alias.as_ref().map(|alias| names::fold(&alias.alias));
            let columns: Vec<&Column> = relation.columns.iter().filter(|column| !column.generated).collect();
            let apply = inserting(insert, relation, &columns)?;
            (label, insert.returning.is_some(), columns, apply)
        }
        Tree::Update(update) => {
            let (columns, apply) = updating(&update.assignments, relation)?;
            (alias(&update.table.relation), update.returning.is_some(), columns, apply)
        }
        Tree::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let key = primary_key(relation)?;
            let apply = format!("DELETE FROM {} WHERE {}", full_name(relation), by_key(&key, 1));
            (from.first().and_then(|from| alias(&from.relation)), delete.returning.is_some(), key, apply)
        }
        Tree::Query(_) => {
            return Err(Error::unsupported(format!(
                "a write to reference table {table} in a common table expression, whose effect may differ between shards"
            ))
            .hint("Write it in a statement of its own."));
        }
        _ => {
            return Err(Error::unsupported(format!(
                "MERGE into reference table {table} whose effect may differ between shards"
            ))
            .hint("Use INSERT … ON CONFLICT, UPDATE and DELETE."));
        }
    };
    let label = quote(&label.unwrap_or_else(|| table.name.clone()));
    let hidden: Vec<String> = columns.iter().map(|column| format!("{label}.{}", quote(&column.name))).collect();
    let last = source.tokens.iter().rposition(|token| !token.is_symbol(source.text, ";")).unwrap_or(0);
    Ok(ImagesPlan {
        last,
        returning: format!("{}{}", if returning { ", " } else { " RETURNING " }, hidden.join(", ")),
        binary: columns.iter().map(|column| is_binary(column.type_oid, &column.type_name)).collect(),
        apply,
    })
}

fn alias(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias, .. } => alias.as_ref().map(|alias| names::fold(&alias.name)),
        _ => None,
    }
}

fn full_name(relation: &Relation) -> String {
    format!("{}.{}", quote(&relation.name.schema), quote(&relation.name.name))
}

fn inserting(insert: &Insert, relation: &Relation, columns: &[&Column]) -> Result<String, Error> {
    let names: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
    let values: Vec<String> = (1..=columns.len()).map(|n| format!("${n}")).collect();
    let mut sql = format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
        full_name(relation),
        names.join(", "),
        values.join(", ")
    );
    if let Some(OnInsert::OnConflict(conflict)) = &insert.on
        && let OnConflictAction::DoUpdate(update) = &conflict.action
    {
        let key = primary_key(relation)?;
        let assigned = assigned(&update.assignments, relation)?;
        keeps_key(&key, &assigned, relation)?;
        let key: Vec<String> = key.iter().map(|column| quote(&column.name)).collect();
        let set: Vec<String> = assigned.iter().map(|c| format!("{0} = EXCLUDED.{0}", quote(&c.name))).collect();
        sql.push_str(&format!(" ON CONFLICT ({}) DO UPDATE SET {}", key.join(", "), set.join(", ")));
    }
    Ok(sql)
}

fn updating<'r>(assignments: &[Assignment], relation: &'r Relation) -> Result<(Vec<&'r Column>, String), Error> {
    let key = primary_key(relation)?;
    let mut columns = assigned(assignments, relation)?;
    keeps_key(&key, &columns, relation)?;
    let set: Vec<String> = columns.iter().zip(1..).map(|(c, n)| format!("{} = ${n}", quote(&c.name))).collect();
    let apply =
        format!("UPDATE {} SET {} WHERE {}", full_name(relation), set.join(", "), by_key(&key, columns.len() + 1));
    columns.extend(key);
    Ok((columns, apply))
}

/// The columns that are assigned.
fn assigned<'r>(assignments: &[Assignment], relation: &'r Relation) -> Result<Vec<&'r Column>, Error> {
    let mut columns: Vec<&Column> = Vec::new();
    for assignment in assignments {
        let targets = match &assignment.target {
            AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
            AssignmentTarget::Tuple(names) => names.as_slice(),
        };
        for target in targets {
            let name = names::parts(target).and_then(|parts| parts.into_iter().next());
            let column = relation.columns.iter().find(|column| name.as_deref() == Some(column.name.as_str()));
            let column = column.ok_or_else(|| Error::unsupported("an assignment that cannot be read here"))?;
            // a generated column can only be set to DEFAULT
            if !column.generated && !columns.iter().any(|known| known.name == column.name) {
                columns.push(column);
            }
        }
    }
    Ok(columns)
}

fn keeps_key(key: &[&Column], assigned: &[&Column], relation: &Relation) -> Result<(), Error> {
    match assigned.iter().find(|column| key.iter().any(|k| k.name == column.name)) {
        None => Ok(()),
        Some(column) => Err(Error::unsupported(format!(
            "an update of primary key column {} of reference table {} whose effect may differ between shards",
            column.name, relation.name
        ))
        .hint("Write constants.")),
    }
}

/// The columns by which a row is found on every shard: of a unique constraint, and never NULL.
///
/// # Errors
/// 0A000 if there is none.
pub fn primary_key(relation: &Relation) -> Result<Vec<&Column>, Error> {
    let columns = |key: &Vec<usize>| key.iter().map(|n| relation.columns.get(*n)).collect::<Option<Vec<_>>>();
    let mut keys = relation.unique.iter().filter_map(columns);
    keys.find(|key| !key.is_empty() && key.iter().all(|column| column.not_null)).ok_or_else(|| {
        Error::unsupported(format!(
            "a write to reference table {} without a primary key, whose effect may differ between shards",
            relation.name
        ))
        .hint("Give the table a primary key, or write constants.")
    })
}

fn by_key(key: &[&Column], first: usize) -> String {
    let parts: Vec<String> = key.iter().zip(first..).map(|(c, n)| format!("{} = ${n}", quote(&c.name))).collect();
    parts.join(" AND ")
}

/// Types made by users begin here (FirstNormalObjectId in transam.h).
const FIRST_USER_OID: Oid = 16_384;

/// Whether a column's values travel in binary format, which no setting changes: those of built-in types that have one
/// and hold no object identifier of their own server.
fn is_binary(oid: Oid, name: &str) -> bool {
    oid < FIRST_USER_OID && !name.starts_with("reg") && !name.starts_with("aclitem") && !name.starts_with("pg_")
}
