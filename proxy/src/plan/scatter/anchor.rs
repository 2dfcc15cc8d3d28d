//! The anchor, and that all else follows it.

use super::refused;
use crate::error::Error;
use crate::plan::KeyExpr;
use crate::plan::analyse::Analysis;
use crate::plan::analyse::BlockKind;
use crate::plan::analyse::Node;
use crate::plan::analyse::SelectFacts;
use crate::plan::classes;
use crate::plan::classes::Atom;
use crate::plan::classes::Classes;

/// The table instance whose rows divide the joined rows among the shards.
#[derive(Debug)]
pub struct Anchor {
    pub owner: u32,
    /// Its key columns; none for FULL JOIN, whose rows may have a NULL for it anywhere.
    pub key: Option<Vec<Atom>>,
    /// The other side of a FULL JOIN.
    pub other: Option<u32>,
}

/// What a part of FROM is.
enum Part {
    /// The same rows on every shard.
    Local,
    Spread(Anchor),
}

/// The anchor of a FROM.
pub fn find(analysis: &Analysis<'_>, root: &Node) -> Result<Anchor, Error> {
    match part(analysis, root)? {
        Part::Spread(anchor) => Ok(anchor),
        Part::Local => Err(refused("a sharded table that is only read in a subquery")),
    }
}

/// That a FROM can be read in parts, or is the same everywhere.
pub fn check(analysis: &Analysis<'_>, root: &Node) -> Result<(), Error> {
    part(analysis, root).map(|_| ())
}

fn part(analysis: &Analysis<'_>, node: &Node) -> Result<Part, Error> {
    match node {
        Node::Local => Ok(Part::Local),
        Node::Table(owner) => Ok(match analysis.key(*owner) {
            Some((_, key)) => Part::Spread(Anchor { owner: *owner, key: Some(key), other: None }),
            None => Part::Local,
        }),
        Node::Block(block) => block_part(analysis, *block),
        // each joined row has one row of either side: either may be the anchor
        Node::Inner(left, right) => match (part(analysis, left), part(analysis, right)) {
            (Ok(Part::Spread(anchor)), _) | (_, Ok(Part::Spread(anchor))) => Ok(Part::Spread(anchor)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(Part::Local), Ok(Part::Local)) => Ok(Part::Local),
        },
        Node::Left(kept, extended) => match part(analysis, kept)? {
            Part::Spread(anchor) => Ok(Part::Spread(anchor)),
            Part::Local if is_local(analysis, extended) => Ok(Part::Local),
            Part::Local => Err(refused(
                "an outer join that keeps the rows of a reference table beside a sharded one, over several shards",
            )),
        },
        Node::Full(left, right, on) => full(analysis, left, right, on),
    }
}

/// FULL JOIN of two sharded tables on their whole keys.
fn full(analysis: &Analysis<'_>, left: &Node, right: &Node, on: &[classes::Pred]) -> Result<Part, Error> {
    if is_local(analysis, left) && is_local(analysis, right) {
        return Ok(Part::Local);
    }
    let error = || refused("FULL JOIN over several shards that is not of two sharded tables on their shard keys");
    let (Node::Table(a), Node::Table(b)) = (left, right) else { return Err(error()) };
    let (Some((map, key)), Some((other_map, other_key))) = (analysis.key(*a), analysis.key(*b)) else {
        return Err(error());
    };
    let preds: Vec<&classes::Pred> = on.iter().collect();
    let classes = Classes::new(&preds);
    let joined = map == other_map
        && key.len() == other_key.len()
        && key.iter().zip(&other_key).all(|(x, y)| classes.same(*x, *y));
    if !joined || analysis.sharded().any(|owner| owner != *a && owner != *b) {
        return Err(error());
    }
    Ok(Part::Spread(Anchor { owner: *a, key: None, other: Some(*b) }))
}

/// A derived table: its rows divide as its own anchor's do, if each of them concerns one key only.
fn block_part(analysis: &Analysis<'_>, block: usize) -> Result<Part, Error> {
    let Some(found) = analysis.blocks.get(block) else { return Ok(Part::Local) };
    let spread = analysis.sharded().any(|owner| found.owners.contains(&owner));
    if !spread {
        return Ok(Part::Local);
    }
    let facts = match &found.kind {
        BlockKind::Select(facts) => facts,
        BlockKind::SetOperation { .. } => return Err(refused("UNION, INTERSECT or EXCEPT over several shards")),
        BlockKind::Values => return Err(refused("VALUES with subqueries on sharded tables, over several shards")),
        BlockKind::Modify => return Err(refused("writes over several shards")),
        BlockKind::Recursion => return Err(refused("a recursive query over several shards")),
    };
    let Some(root) = &facts.root else {
        return Err(refused("a sharded table that is only read in a subquery"));
    };
    let anchor = match part(analysis, root)? {
        Part::Spread(anchor) => anchor,
        Part::Local => return Err(refused("a sharded table that is only read in a subquery")),
    };
    per_key(analysis, found.env, facts, &anchor)?;
    Ok(Part::Spread(anchor))
}

/// A subquery that is the same whether it runs on all rows or on those of each key apart.
fn per_key(analysis: &Analysis<'_>, env: usize, facts: &SelectFacts, anchor: &Anchor) -> Result<(), Error> {
    let preds = classes::applying(&analysis.envs, env, None);
    let classes = Classes::new(&preds);
    let contains = |columns: &[Option<Atom>]| anchor.key.as_ref().is_some_and(|key| classes.contain(columns, key));
    if facts.limited {
        return Err(refused("LIMIT in a subquery over several shards"));
    }
    if facts.locks {
        return Err(refused("FOR UPDATE in a subquery over several shards"));
    }
    if facts.distinct_on {
        return Err(refused("DISTINCT ON in a subquery over several shards"));
    }
    if facts.grouping_sets {
        return Err(refused("GROUPING SETS, ROLLUP or CUBE over several shards"));
    }
    match &facts.grouped {
        Some(grouped) if !contains(grouped) => {
            return Err(refused("a subquery over several shards whose GROUP BY does not contain the shard key"));
        }
        None if facts.aggregates || facts.having => {
            return Err(refused("an aggregate without GROUP BY in a subquery over several shards"));
        }
        _ => {}
    }
    if facts.distinct && !facts.outputs.as_ref().is_some_and(|outputs| contains(outputs)) {
        return Err(refused("DISTINCT without the shard key in a subquery over several shards"));
    }
    if !facts.windows.iter().all(|window| contains(window)) {
        return Err(refused("a window function over several shards whose PARTITION BY does not contain the shard key"));
    }
    Ok(())
}

fn is_local(analysis: &Analysis<'_>, node: &Node) -> bool {
    match node {
        Node::Local => true,
        Node::Table(owner) => analysis.key(*owner).is_none(),
        Node::Block(block) => {
            analysis.blocks.get(*block).is_none_or(|b| !analysis.sharded().any(|owner| b.owners.contains(&owner)))
        }
        Node::Inner(a, b) | Node::Left(a, b) | Node::Full(a, b, _) => is_local(analysis, a) && is_local(analysis, b),
    }
}

/// Every other sharded table matters only where its key is the anchor's.
pub fn all_colocated(analysis: &Analysis<'_>, anchor: &Anchor) -> Result<(), Error> {
    let Some((map, key)) = analysis.key(anchor.owner) else { return Err(Error::internal("an anchor without a key")) };
    for owner in analysis.sharded() {
        if owner == anchor.owner || Some(owner) == anchor.other {
            continue;
        }
        let Some((other_map, other_key)) = analysis.key(owner) else { continue };
        let preds = analysis.applying(owner);
        if classes::key_expr(&preds, &other_key) == KeyExpr::False {
            // none of its rows matters
            continue;
        }
        let classes = Classes::new(&preds);
        let follows = map == other_map
            && key.len() == other_key.len()
            && key.iter().zip(&other_key).all(|(a, b)| classes.same(*a, *b));
        if !follows {
            let name = |owner: u32| analysis.key_names(owner).unwrap_or_default().join(", ");
            return Err(Error::unsupported("a join or subquery over several shards that is not on the shard key")
                .detail(format!("{} is not known to equal {}.", name(owner), name(anchor.owner)))
                .hint("Join the tables on their whole shard keys, or name one value of the shard key in WHERE."));
        }
    }
    Ok(())
}

/// Subqueries on reference tables must give the same on every shard.
pub fn local_blocks(analysis: &Analysis<'_>, top: usize) -> Result<(), Error> {
    for (number, block) in analysis.blocks.iter().enumerate() {
        if number == top || block.correlated || analysis.sharded().any(|owner| block.owners.contains(&owner)) {
            continue;
        }
        let reason = match &block.kind {
            BlockKind::Select(facts) if facts.limited => "LIMIT",
            BlockKind::Select(facts) if facts.distinct_on => "DISTINCT ON",
            BlockKind::Select(facts) if facts.volatile => "a volatile function",
            BlockKind::Select(facts) if !facts.windows.is_empty() => "a window function",
            BlockKind::Select(facts) if facts.ordered_aggregates => "an aggregate that depends on order",
            BlockKind::SetOperation { limited: true } => "LIMIT",
            _ => continue,
        };
        return Err(refused(&format!("{reason} in a subquery that each of several shards would answer by itself")));
    }
    Ok(())
}
