//! Whether a write can be on several shards: its parts there must do together what the whole would do.

use super::Part;
use super::Shape;
use super::WritePlan;
use super::gather;
use super::moment;
use super::without_semicolons;
use crate::catalog::Catalog;
use crate::error::Error;
use crate::plan::KeyExpr;
use crate::plan::analyse::Analysis;
use crate::plan::analyse::BlockKind;
use crate::plan::analyse::Node;
use crate::plan::analyse::QueryResult;
use crate::plan::analyse::Selected;
use crate::plan::classes;
use crate::plan::classes::Classes;
use crate::plan::scatter::anchor;
use crate::plan::scatter::anchor::Anchor;
use crate::plan::source::SourceText;
use sqlparser::ast::Insert;
use sqlparser::ast::OnConflictAction;
use sqlparser::ast::OnInsert;
use sqlparser::ast::SetExpr;
use sqlparser::ast::Statement as Tree;

/// A write as it is planned, with the table instance whose key says where it has rows.
pub struct Planned {
    pub plan: Option<WritePlan>,
    pub anchor: Option<u32>,
    /// Why it cannot be on several shards.
    pub refused: Option<Error>,
}

/// Plans a statement that writes; `result` is that of its tree.
pub fn plan(analysis: &Analysis<'_>, tree: &Tree, result: &QueryResult<'_>, source: &SourceText<'_>) -> Planned {
    let (tree, with) = match tree {
        Tree::Query(query) => match &*query.body {
            SetExpr::Insert(tree) | SetExpr::Update(tree) | SetExpr::Delete(tree) | SetExpr::Merge(tree) => {
                (tree, true)
            }
            _ => (tree, true),
        },
        tree => (tree, false),
    };
    let refuse = |error| Planned { plan: None, anchor: None, refused: Some(error) };
    match tree {
        Tree::Insert(insert) => match (&analysis.facts.insert, &analysis.facts.selected) {
            (Some(plan), _) => inserted(analysis, insert, plan, with, source),
            (None, Some(selected)) if analysis.sharded().next().is_none() => {
                gathered(analysis, insert, selected, with, source)
            }
            (None, Some(selected)) => {
                whole(selected_anchor(analysis, selected), result.block, analysis, source, Some(selected.block))
            }
            (None, None) => refuse(refused("this INSERT over several shards")),
        },
        Tree::Update(_) | Tree::Delete(_) => {
            whole(target_anchor(analysis, result.block), result.block, analysis, source, None)
        }
        Tree::Merge(_) => refuse(refused("MERGE over several shards")),
        _ => refuse(refused("a statement with data-modifying queries over several shards")),
    }
}

fn refused(what: &str) -> Error {
    Error::unsupported(what.to_owned()).hint("Name one value of the shard key, so that it runs on one shard.")
}

/// The same text on each shard.
fn whole(
    anchor: Result<Anchor, Error>,
    top: usize,
    analysis: &Analysis<'_>,
    source: &SourceText<'_>,
    selected: Option<usize>,
) -> Planned {
    let tokens = without_semicolons(source.text, source.tokens);
    let moments = moment::moments(source.text, tokens);
    let blocks = [Some(top), selected];
    let allowed = |block: &Option<usize>| block.is_some() && blocks.contains(block);
    let proven = anchor.and_then(|anchor| {
        statement_wide(analysis, moments.len(), allowed)?;
        anchor::all_colocated(analysis, &anchor)?;
        anchor::local_blocks(analysis, top)?;
        Ok(anchor.owner)
    });
    match proven {
        Ok(owner) => {
            let mut parts: Vec<Part> = Vec::new();
            if let Some(last) = tokens.len().checked_sub(1) {
                moment::cut(0, last, &moments, 0, &mut parts);
            }
            let draws = moment::draws(&moments).collect();
            let plan = WritePlan { shape: Shape::Same(parts), draws, several: Ok(()) };
            Planned { plan: Some(plan), anchor: Some(owner), refused: None }
        }
        Err(error) => Planned { plan: None, anchor: None, refused: Some(error) },
    }
}

/// INSERT … SELECT without sharded tables.
fn gathered(
    analysis: &Analysis<'_>,
    insert: &Insert,
    selected: &Selected,
    with: bool,
    source: &SourceText<'_>,
) -> Planned {
    let refuse = |error| Planned { plan: None, anchor: None, refused: Some(error) };
    let condition = analysis.facts.writes.iter().find_map(|w| w.rows.as_ref());
    let Some(condition) = condition else { return refuse(refused("this INSERT over several shards")) };
    let input = gather::Input {
        insert,
        relation: &selected.relation,
        columns: &selected.columns,
        key: &selected.key,
        condition,
    };
    let filled = gather::filled(&input, analysis.context);
    let draws = selected.draws;
    if !draws && matches!(condition.expr, KeyExpr::Row(_)) {
        // It goes whole to the shard of its key.
        return refuse(unknown_key(selected));
    }
    let planned = match gather_proven(analysis, insert, with) {
        Ok(()) => gather::plan(&input, &filled, source).unwrap_or_else(|| Err(unknown_key(selected))),
        Err(error) => Err(error),
    };
    match planned {
        Ok(plan) => Planned { plan: Some(plan), anchor: None, refused: None },
        Err(error) => refuse(error),
    }
}

fn gather_proven(analysis: &Analysis<'_>, insert: &Insert, with: bool) -> Result<(), Error> {
    let facts = &analysis.facts;
    let elsewhere = facts.needs.iter().find(|(shard, _)| *shard != Catalog::HOME);
    let reason = None
        .or(with.then(|| "WITH before an INSERT … SELECT over several shards".to_owned()))
        .or((facts.writes.len() > 1).then(|| "a statement with several writes over several shards".to_owned()))
        .or(elsewhere.map(|(_, what)| format!("an INSERT … SELECT over several shards that reads {what}")))
        .or(facts.locks.then(|| "FOR UPDATE or FOR SHARE in a write over several shards".to_owned()))
        .or((!facts.set_config.is_empty()).then(|| "set_config over several shards".to_owned()))
        .or((!facts.conditions.is_empty()).then(|| "a function that runs by shard key, over several shards".to_owned()))
        .or(facts.policies.as_ref().map(|t| format!("table {t} with row security or rules over several shards")));
    if let Some(reason) = reason {
        return Err(refused(&reason));
    }
    if insert.on.is_none() && insert.returning.is_none() {
        return Ok(());
    }
    // What stands behind the query runs on each shard.
    statement_wide(analysis, 0, |_| true)?;
    conflict(insert)
}

/// INSERT … VALUES.
fn inserted(
    analysis: &Analysis<'_>,
    insert: &Insert,
    plan: &WritePlan,
    with: bool,
    source: &SourceText<'_>,
) -> Planned {
    let tokens = without_semicolons(source.text, source.tokens);
    let moments = moment::moments(source.text, tokens).len();
    let several = rows_proven(analysis, insert, with, moments);
    let mut plan = plan.clone();
    plan.several = several.clone();
    let alone = matches!(&plan.shape, Shape::Rows(split) if split.rows.len() == 1);
    // One row is on one shard: without anything to draw the text goes there as it is.
    let needed = plan.always_draws() || plan.has_moments() || !(alone || several.is_err());
    Planned { plan: needed.then_some(plan), anchor: None, refused: several.err() }
}

fn rows_proven(analysis: &Analysis<'_>, insert: &Insert, with: bool, moments: usize) -> Result<(), Error> {
    let queries =
        analysis.blocks.iter().any(|b| matches!(b.kind, BlockKind::Select(_) | BlockKind::SetOperation { .. }));
    statement_wide(analysis, moments, |_| !queries)?;
    if analysis.sharded().next().is_some() {
        return Err(refused("a subquery on a sharded table in an INSERT of rows on several shards"));
    }
    if with || insert.source.as_ref().is_some_and(|s| s.with.is_some()) {
        return Err(refused("WITH in an INSERT of rows on several shards"));
    }
    anchor::local_blocks(analysis, usize::MAX)?;
    conflict(insert)
}

/// ON CONFLICT beside RETURNING must not leave rows out.
fn conflict(insert: &Insert) -> Result<(), Error> {
    let Some(OnInsert::OnConflict(conflict)) = &insert.on else { return Ok(()) };
    let skips = match &conflict.action {
        OnConflictAction::DoNothing => true,
        OnConflictAction::DoUpdate(update) => update.selection.is_some(),
    };
    if skips && insert.returning.is_some() {
        return Err(Error::unsupported("RETURNING beside ON CONFLICT that may skip rows, on several shards")
            .detail("The order of the rows that are returned could not be told.")
            .hint("Leave RETURNING out, or insert the rows of each shard key by themselves."));
    }
    Ok(())
}

/// UPDATE and DELETE: each row of the target is on one shard; what is read beside it must be there too.
fn target_anchor(analysis: &Analysis<'_>, top: usize) -> Result<Anchor, Error> {
    let Some((_, target, others)) = analysis.targets.iter().find(|(block, ..)| *block == top) else {
        return Err(refused("this write over several shards"));
    };
    let owner = match target {
        Node::Table(owner) => *owner,
        _ => return Err(refused("a write to a view over several shards")),
    };
    let Some((_, key)) = analysis.key(owner) else {
        return Err(refused("a write to a table of one shard that reads sharded tables of several"));
    };
    if let Some(others) = others {
        anchor::check(analysis, others)?;
    }
    Ok(Anchor { owner, key: Some(key), other: None })
}

/// INSERT … SELECT: each row that is read is written under the key that it has.
fn selected_anchor(analysis: &Analysis<'_>, selected: &Selected) -> Result<Anchor, Error> {
    let unknown = || unknown_key(selected);
    if let Some(column) = &selected.varying {
        return Err(refused(&format!(
            "INSERT … SELECT over several shards that leaves column {column} to its default"
        )));
    }
    let anchor = anchor::find(analysis, &Node::Block(selected.block)).map_err(|error| match selected.atoms {
        Some(_) => error,
        None => unknown(),
    })?;
    let (Some(written), Some(read)) = (&selected.atoms, &anchor.key) else { return Err(unknown()) };
    let same_map = analysis.key(anchor.owner).is_some_and(|(map, _)| map == selected.map);
    let preds = classes::applying(&analysis.envs, selected.env, None);
    let classes = Classes::new(&preds);
    let same = written.len() == read.len() && written.iter().zip(read).all(|(w, r)| w == r || classes.same(*w, *r));
    if !same_map || !same {
        return Err(unknown());
    }
    Ok(anchor)
}

/// What cannot be on several shards wherever it stands in a write.
fn statement_wide(
    analysis: &Analysis<'_>,
    moments: usize,
    allowed: impl Fn(&Option<usize>) -> bool,
) -> Result<(), Error> {
    let facts = &analysis.facts;
    let found = |what: &Option<String>, rest: &str| what.as_ref().map(|name| format!("{name} {rest}"));
    let policies = facts.policies.as_ref().map(ToString::to_string);
    let reason = None
        .or((facts.writes.len() > 1).then(|| "a statement with several writes over several shards".to_owned()))
        .or(found(&facts.system_column.as_ref().map(|c| format!("system column {c}")), "over several shards"))
        .or(found(
            &facts.server.as_ref().map(|f| format!("function {f}")),
            "over several shards, which answer differently",
        ))
        .or(found(
            &facts.time.as_ref().filter(|_| facts.times != moments).map(|f| format!("{f},")),
            "which has another value on each of several shards",
        ))
        .or(found(&facts.object_name, "over several shards, whose object identifiers differ"))
        .or(found(&policies.map(|t| format!("table {t} with row security or rules")), "over several shards"))
        .or(facts.locks.then(|| "FOR UPDATE or FOR SHARE in a write over several shards".to_owned()))
        .or(facts.tablesample.then(|| "TABLESAMPLE over several shards".to_owned()))
        .or((facts.system || facts.temporary)
            .then(|| "a sharded table beside catalog tables or temporary tables".to_owned()))
        .or(facts.needs.first().map(|(_, what)| format!("a sharded table beside {what}, which is on one shard")))
        .or((!facts.set_config.is_empty()).then(|| "set_config over several shards".to_owned()))
        .or((!facts.conditions.is_empty()).then(|| "a function that runs by shard key, over several shards".to_owned()))
        .or((facts.shared_cte && facts.volatile.is_some())
            .then(|| "a volatile function beside a common table expression that is used twice".to_owned()))
        .or(found(
            &facts
                .volatile
                .as_ref()
                .filter(|_| facts.volatile_blocks.iter().any(|b| !allowed(b)))
                .map(|f| format!("volatile function {f}")),
            "in FROM, VALUES or a subquery over several shards",
        ));
    match reason {
        Some(reason) => Err(refused(&reason)),
        None => Ok(()),
    }
}

fn unknown_key(selected: &Selected) -> Error {
    Error::unsupported(format!("INSERT … SELECT into {} whose shard key is not known", selected.relation.name))
        .detail("Its rows would have to move between shards.")
        .hint("Select the shard key of the rows that are read, fix it in the query's WHERE, or insert with VALUES.")
}
