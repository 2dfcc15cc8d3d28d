//! What the query of a view, a materialised view or CREATE TABLE AS reads, and where it can stand.

use super::Stop;
use super::cursor::Cursor;
use super::place;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::RelationKind;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::plan::Context;
use crate::plan::OnShards;
use crate::plan::analyse::Analysis;
use crate::plan::analyse::Scope;
use crate::plan::source::SourceText;
use crate::plan::words;
use crate::sql::Statement;
use sqlparser::ast::Statement as Tree;
use std::rc::Rc;
use std::sync::Arc;

/// The relations of a query, views taken apart.
#[derive(Debug, Default)]
pub struct Reads {
    pub relations: Vec<Arc<Relation>>,
    pub unknown: Vec<QualifiedName>,
    /// Shards of sequences and of single tables.
    pub needs: Vec<ShardId>,
    pub temporary: bool,
    pub system: bool,
    /// The names of its columns, where they are known.
    pub columns: Option<Vec<String>>,
    /// It cannot be used at all, and why.
    pub error: Option<Error>,
}

/// Cuts the query out of a statement's text.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn inner(query: &Cursor<'_>, context: &Context<'_>) -> Result<Statement, Stop> {
    let text: Arc<str> = Arc::from(query.rest());
    if text.is_empty() {
        return Err(Stop::Ask(Error::unsupported("a statement without its query")));
    }
    Statement::new(text, context.standard_conforming_strings).map_err(Stop::Ask)
}

/// What a query reads.
pub fn of_query(query: &Statement, context: &Context<'_>) -> Reads {
    if let Some(select) = words::table_as_select(query, context) {
        return of_query(&select, context);
    }
    let Ok(Tree::Query(tree)) = query.tree() else {
        return words::reads(&query.text, &query.tokens, context);
    };
    let source = SourceText::new(&query.text, &query.tokens, true, context.standard_conforming_strings);
    let scope = Rc::new(Scope::new(&source, false));
    let mut analysis = Analysis::new(context);
    let result = analysis.query(tree, &scope, 0);
    let columns = result.outputs.map(|outputs| {
        let names = outputs.into_iter().map(|output| output.name);
        names.map(|name| name.unwrap_or_else(|| "?column?".to_owned())).collect()
    });
    let facts = analysis.facts;
    Reads {
        relations: facts.relations,
        unknown: facts.unknown,
        needs: facts.needs.into_iter().map(|(shard, _)| shard).collect(),
        temporary: facts.temporary,
        system: facts.system,
        columns,
        error: facts.error,
    }
}

/// Where a view is: it reads what is there.
///
/// # Errors
/// What it reads is not together on any shard, or its definition cannot be read.
pub fn of_view(relation: &Relation, context: &Context<'_>) -> Result<OnShards, Stop> {
    let definition = Arc::from(relation.definition.as_deref().unwrap_or(""));
    // names in a definition are qualified, and never temporary
    let qualified = Context { search_path: &[], temporary: &[], forced_shard: None, param_types: &[], ..*context };
    let query = Statement::new(definition, true).map_err(Stop::Refuse)?;
    let mut reads = of_query(&query, &qualified);
    if reads.error.is_some() {
        reads = words::reads(&query.text, &query.tokens, &qualified);
    }
    view_place(&reads, &qualified)
}

/// Where a view with this query can be.
///
/// # Errors
/// Nowhere: it reads sharded tables and one that is on one shard only, or such of different shards.
pub fn view_place(reads: &Reads, context: &Context<'_>) -> Result<OnShards, Stop> {
    if let Some(error) = &reads.error {
        return Err(Stop::Refuse(error.clone()));
    }
    let mut sharded = None;
    let mut singles = reads.needs.clone();
    for relation in tables(reads) {
        match &relation.placement {
            Placement::Sharded { .. } => sharded = Some(&relation.name),
            Placement::Reference | Placement::System | Placement::Derived => {}
            Placement::Single(shard) => singles.push(*shard),
            Placement::Ambiguous(_) | Placement::Refused(_) => {
                place::of_relation(relation, context)?;
            }
        }
    }
    singles.sort_unstable();
    singles.dedup();
    match (sharded, singles.as_slice()) {
        (_, []) => Ok(OnShards::All),
        (None, [shard]) => Ok(place::at(*shard)),
        _ => Err(apart(reads).into()),
    }
}

/// The tables among what is read.
fn tables(reads: &Reads) -> impl Iterator<Item = &Relation> {
    reads.relations.iter().map(Arc::as_ref).filter(|relation| relation.kind != RelationKind::View)
}

fn apart(reads: &Reads) -> Error {
    let names: Vec<String> = tables(reads).map(|relation| relation.name.to_string()).collect();
    Error::unsupported("a view over tables that are not on the same shards")
        .detail(format!("It reads {}.", names.join(", ")))
        .hint("Make those that are on one shard reference tables.")
}

/// The one shard where a query can run whole, whatever the values: the home shard if any would do.
///
/// # Errors
/// It reads sharded tables, or tables of several shards.
pub fn one_shard(reads: &Reads, what: &str, context: &Context<'_>) -> Result<Option<ShardId>, Stop> {
    if let Some(relation) = tables(reads).find(|r| matches!(r.placement, Placement::Sharded { .. })) {
        return Err(Error::unsupported(format!("{what} over sharded table {}", relation.name))
            .hint("Create the table first, then fill it with INSERT.")
            .into());
    }
    let place = view_place(reads, context)?;
    Ok(match place {
        OnShards::Some(shards) => shards.first().copied(),
        OnShards::All if reads.system || reads.temporary => Some(Catalog::HOME),
        OnShards::All => None,
    })
}
