//! CREATE: where new objects go.

use super::Subject;
use super::checks;
use super::cursor::Cursor;
use super::everywhere;
use super::planned;
use super::refuse;
use super::shards_of;
use super::temporary;
use crate::catalog::Catalog;
use crate::catalog::ListedTable;
use crate::catalog::QualifiedName;
use crate::catalog::ShardId;
use crate::catalog::Unlisted;
use crate::error::Error;
use crate::plan::Context;
use crate::plan::Effect;
use crate::plan::Plan;
use crate::plan::UnknownNames;
use crate::plan::analyse::Analysis;
use crate::plan::analyse::Scope;
use crate::plan::names;
use crate::plan::names::Named;
use crate::plan::rows::CHOOSE;
use crate::plan::source::SourceText;
use crate::sql::Statement;
use sqlparser::ast::CreateTable;
use sqlparser::ast::Query;
use sqlparser::ast::Statement as Tree;
use std::rc::Rc;

/// What CREATE makes, and where.
pub fn create(statement: &Statement, context: &Context<'_>, cursor: &mut Cursor<'_>) -> Subject {
    if cursor.take("or") {
        cursor.take("replace");
    }
    let mut is_temporary = false;
    while let Some(word) = ["global", "local", "temp", "temporary", "unlogged", "unique", "constraint", "recursive"]
        .iter()
        .find(|w| cursor.take(w))
    {
        is_temporary |= matches!(*word, "temp" | "temporary");
    }
    let kind = cursor.word();
    match kind.as_deref() {
        Some("table") => table(statement, context, cursor, is_temporary),
        Some("foreign") if cursor.take("table") => table(statement, context, cursor, false),
        Some("index") => index(statement, context, cursor),
        Some("view") => view(statement, context, cursor, is_temporary),
        Some("materialized") => {
            cursor.take("view");
            materialized(statement, context, cursor)
        }
        Some("sequence") => {
            let _ = cursor.if_exists();
            let name = cursor.name().unwrap_or_default();
            if is_temporary {
                return planned(temporary(name));
            }
            match place(context, &qualified(context, &name), &[]) {
                Ok(shards) => planned(everywhere(shards, false, Effect::Write, true)),
                Err(error) => planned(Plan::Refuse(error)),
            }
        }
        // CREATE TRIGGER t BEFORE UPDATE OF c ON …
        Some("trigger" | "policy") => {
            if !cursor.skip_to("on") {
                return Subject::Everywhere;
            }
            super::one_relation(cursor)
        }
        Some("rule") => {
            if !cursor.skip_to("to") {
                return Subject::Everywhere;
            }
            super::one_relation(cursor)
        }
        Some("statistics") => {
            if !cursor.skip_to("from") {
                return Subject::Everywhere;
            }
            super::one_relation(cursor)
        }
        Some("database" | "tablespace") => {
            planned(refuse("CREATE DATABASE or CREATE TABLESPACE", "Run it on the server."))
        }
        Some("subscription") => planned(refuse("subscriptions", CHOOSE)),
        _ => Subject::Everywhere,
    }
}

/// The name that a new relation gets.
fn qualified(context: &Context<'_>, parts: &[String]) -> QualifiedName {
    match parts {
        [.., schema, name] => QualifiedName { schema: schema.clone(), name: name.clone() },
        [name] => {
            let schema = context.search_path.iter().find(|s| *s != "pg_catalog").cloned();
            QualifiedName { schema: schema.unwrap_or_else(|| "public".to_owned()), name: name.clone() }
        }
        [] => QualifiedName { schema: String::new(), name: String::new() },
    }
}

/// Where a new relation of this name goes.
fn place(context: &Context<'_>, name: &QualifiedName, columns: &[String]) -> Result<Vec<ShardId>, Error> {
    let catalog = context.catalog;
    match catalog.listed_place(name, columns.iter().map(String::as_str)) {
        Some(ListedTable::Single(shard)) => Ok(vec![shard]),
        Some(ListedTable::Sharded { .. } | ListedTable::Reference) => Ok(catalog.all_shards()),
        None if catalog.shards.len() <= 1 => Ok(vec![Catalog::HOME]),
        None => match catalog.unlisted {
            Unlisted::Single => Ok(vec![Catalog::HOME]),
            Unlisted::Reference => Ok(catalog.all_shards()),
            Unlisted::Refuse => Err(Error::unsupported(format!("table {name} is not listed in the configuration"))
                .hint("List it as sharded, reference or single first.")),
        },
    }
}

fn table(statement: &Statement, context: &Context<'_>, cursor: &mut Cursor<'_>, is_temporary: bool) -> Subject {
    let _ = cursor.if_exists();
    let Some(parts) = cursor.name() else { return Subject::Everywhere };
    if is_temporary || parts.first().is_some_and(|s| s == "pg_temp") {
        return planned(temporary_table(statement, context, parts));
    }
    let name = qualified(context, &parts);
    let tree = match statement.tree() {
        Ok(Tree::CreateTable(tree)) => Some(tree),
        _ => None,
    };
    if let Some(query) = tree.and_then(|t| t.query.as_deref()) {
        return planned(filled(statement, context, &name, query));
    }
    if tree.is_none() && cursor.contains("as") && cursor.contains("select") {
        return planned(Plan::AskFirst(Error::unsupported("a CREATE TABLE AS that cannot be read here").hint(CHOOSE)));
    }
    let above = parent(statement, context, tree);
    let shards = match above {
        Some(Named::Relation(parent)) => Ok(shards_of(context.catalog, &parent)),
        Some(Named::Unknown(name)) => return planned(Plan::Unknown(UnknownNames { names: vec![name] })),
        Some(Named::Temporary | Named::System) => Ok(vec![Catalog::HOME]),
        None => checks::created(context, &name, tree).and_then(|columns| place(context, &name, &columns)),
    };
    planned(match shards {
        Ok(shards) => everywhere(shards, false, Effect::Write, true),
        Err(error) => Plan::Refuse(error),
    })
}

/// The table that a new one is a partition or a child of.
fn parent(statement: &Statement, context: &Context<'_>, tree: Option<&CreateTable>) -> Option<Named> {
    let named = tree.and_then(|t| t.partition_of.as_ref().or(t.inherits.as_ref().and_then(|i| i.first())));
    if let Some(name) = named {
        return Some(names::relation(context, &names::parts(name)?));
    }
    if tree.is_some() {
        return None;
    }
    let mut cursor = Cursor::new(statement);
    if cursor.skip_to("partition") && cursor.take("of") {
        return Some(names::relation(context, &cursor.name()?));
    }
    None
}

fn temporary_table(statement: &Statement, context: &Context<'_>, parts: Vec<String>) -> Plan {
    let query = match statement.tree() {
        Ok(Tree::CreateTable(tree)) => tree.query.as_deref(),
        _ => None,
    };
    if let Some(query) = query
        && context.catalog.shards.len() > 1
    {
        match query_shards(statement, context, query) {
            Ok(shards) if shards.iter().all(|s| *s == Catalog::HOME) => {}
            Ok(_) => {
                return refuse(
                    "CREATE TEMPORARY TABLE AS over tables that are not on the home shard",
                    "Create the table first, then fill it with INSERT.",
                );
            }
            Err(plan) => return *plan,
        }
    }
    temporary(parts)
}

/// CREATE TABLE AS, CREATE MATERIALIZED VIEW: made where all that it reads is.
fn filled(statement: &Statement, context: &Context<'_>, name: &QualifiedName, query: &Query) -> Plan {
    if context.catalog.shards.len() <= 1 {
        return everywhere(vec![Catalog::HOME], false, Effect::Write, true);
    }
    if let Some(ListedTable::Sharded { .. } | ListedTable::Reference) = context.catalog.listed.get(name) {
        return refuse(
            format!("CREATE TABLE AS of {name}, which is not on one shard"),
            "Create the table first, then fill it with INSERT.",
        );
    }
    match query_shards(statement, context, query) {
        Err(plan) => *plan,
        Ok(shards) => {
            let shard = shards.first().copied().unwrap_or(Catalog::HOME);
            everywhere(vec![shard], false, Effect::Write, true)
        }
    }
}

/// The one shard that a query can run on whatever its values are: none for any, an error for several.
fn query_shards(statement: &Statement, context: &Context<'_>, query: &Query) -> Result<Vec<ShardId>, Box<Plan>> {
    let source = SourceText::new(&statement.text, &statement.tokens, true, context.standard_conforming_strings);
    let scope = Rc::new(Scope::new(&source, false));
    let mut analysis = Analysis::new(context);
    analysis.query(query, &scope, 0);
    let facts = &analysis.facts;
    if !facts.unknown.is_empty() {
        return Err(Box::new(Plan::Unknown(UnknownNames { names: facts.unknown.clone() })));
    }
    if let Some(error) = &facts.error {
        return Err(Box::new(Plan::Refuse(error.clone())));
    }
    let mut shards: Vec<ShardId> = facts.needs.iter().map(|(s, _)| *s).collect();
    if facts.system || facts.temporary {
        shards.push(Catalog::HOME);
    }
    shards.sort_unstable();
    shards.dedup();
    let opaque = facts.opaque.is_some() && context.catalog.has_distributed_tables();
    if analysis.sharded().next().is_some() || shards.len() > 1 || opaque || facts.foreign || facts.too_large {
        return Err(Box::new(refuse(
            "a table or materialized view made from a query over several shards",
            "Create the table first, then fill it with INSERT.",
        )));
    }
    Ok(shards)
}

fn materialized(statement: &Statement, context: &Context<'_>, cursor: &mut Cursor<'_>) -> Subject {
    let _ = cursor.if_exists();
    let name = qualified(context, &cursor.name().unwrap_or_default());
    planned(match statement.tree() {
        Ok(Tree::CreateView(view)) => filled(statement, context, &name, &view.query),
        Ok(Tree::CreateTable(table)) if table.query.is_some() => match &table.query {
            Some(query) => filled(statement, context, &name, query),
            None => refuse("this CREATE MATERIALIZED VIEW", CHOOSE),
        },
        _ if context.catalog.shards.len() <= 1 => everywhere(vec![Catalog::HOME], false, Effect::Write, true),
        _ => Plan::AskFirst(Error::unsupported("a CREATE MATERIALIZED VIEW that cannot be read here").hint(CHOOSE)),
    })
}

/// A view is made where its tables are.
fn view(statement: &Statement, context: &Context<'_>, cursor: &mut Cursor<'_>, is_temporary: bool) -> Subject {
    let _ = cursor.if_exists();
    let name = cursor.name().unwrap_or_default();
    if is_temporary {
        return planned(temporary(name));
    }
    if context.catalog.shards.len() <= 1 {
        return Subject::Everywhere;
    }
    let Ok(Tree::CreateView(view)) = statement.tree() else {
        return planned(Plan::AskFirst(Error::unsupported("a CREATE VIEW that cannot be read here").hint(CHOOSE)));
    };
    let source = SourceText::new(&statement.text, &statement.tokens, true, context.standard_conforming_strings);
    let scope = Rc::new(Scope::new(&source, false));
    let mut analysis = Analysis::new(context);
    analysis.query(&view.query, &scope, 0);
    let facts = &analysis.facts;
    if !facts.unknown.is_empty() {
        return planned(Plan::Unknown(UnknownNames { names: facts.unknown.clone() }));
    }
    if let Some(error) = &facts.error {
        return planned(Plan::Refuse(error.clone()));
    }
    let mut shards: Vec<ShardId> = facts.needs.iter().map(|(s, _)| *s).collect();
    shards.sort_unstable();
    shards.dedup();
    let sharded = analysis.sharded().next().is_some();
    planned(match shards.as_slice() {
        [] => everywhere(context.catalog.all_shards(), false, Effect::Write, true),
        [shard] if !sharded => everywhere(vec![*shard], false, Effect::Write, true),
        _ => refuse("a view over tables that are not on the same shards", "Make the smaller tables reference tables."),
    })
}

fn index(statement: &Statement, context: &Context<'_>, cursor: &mut Cursor<'_>) -> Subject {
    let mut probe = Cursor::new(statement);
    if !probe.skip_to("on") {
        return Subject::Everywhere;
    }
    probe.take("only");
    let Some(name) = probe.name() else { return Subject::Everywhere };
    let _ = cursor;
    if let Named::Relation(relation) = names::relation(context, &name)
        && context.catalog.shards.len() > 1
        && let Err(error) = checks::indexed(statement, &relation)
    {
        return planned(Plan::Refuse(error));
    }
    Subject::Relations { names: vec![name], if_exists: false }
}
