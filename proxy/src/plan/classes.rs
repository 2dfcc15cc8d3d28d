//! What must hold for the rows that matter: predicates in scopes, classes of equal columns, conditions on a shard key.
//!
//! A row of a table *matters* if leaving it out could change the answer. Each table instance has a chain of scopes; the
//! predicates in them hold for every joined row in which a row of it matters. They are equalities, comparisons and
//! IN-lists, all false for NULL (IS NULL is only kept for tables that no outer join can extend with NULLs), and that is
//! what makes the reasoning hold across outer joins: a predicate on the NULL-extended side drops the extended row too.

use super::CompareOp;
use super::KeyExpr;
use super::Source;
use std::collections::HashMap;
use std::ops::Range;

/// A column of a table instance or of a derived table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atom {
    pub owner: u32,
    pub column: u32,
}

/// A predicate that prunes; anything else is `True`.
#[derive(Clone, Debug, PartialEq)]
pub enum Pred {
    True,
    False,
    Equal(Atom, Atom),
    Is(Atom, Test),
    And(Vec<Pred>),
    Or(Vec<Pred>),
}

/// What is asked of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    Equals(Source),
    EqualsAny(Source),
    IsNull,
    Compare(CompareOp, Source),
}

/// A predicate with the owners that it must not be used for: what a derived table says of its own rows bounds others,
/// never the rows inside it. Empty: for all.
#[derive(Clone, Debug)]
pub struct Tagged {
    pub pred: Pred,
    pub origin: Range<u32>,
}

/// Predicates that hold where the owners (the NULL-extended side of an outer join) are not extended with NULLs.
#[derive(Clone, Debug)]
pub struct Conditional {
    pub owners: Range<u32>,
    pub preds: Vec<Tagged>,
}

/// A scope of predicates; what holds in its parent holds here too.
#[derive(Clone, Debug, Default)]
pub struct Env {
    pub parent: Option<usize>,
    pub preds: Vec<Tagged>,
    pub conditionals: Vec<Conditional>,
}

impl Env {
    pub fn push(&mut self, pred: Pred) {
        match pred {
            Pred::True => {}
            Pred::And(preds) => preds.into_iter().for_each(|pred| self.push(pred)),
            pred => self.preds.push(Tagged { pred, origin: 0..0 }),
        }
    }
}

/// Whether a predicate is false when all columns of these owners are NULL.
fn rejects(pred: &Pred, owners: &Range<u32>) -> bool {
    match pred {
        Pred::Equal(a, b) => owners.contains(&a.owner) || owners.contains(&b.owner),
        Pred::Is(_, Test::IsNull) | Pred::True | Pred::False => false,
        Pred::Is(a, _) => owners.contains(&a.owner),
        Pred::And(preds) => preds.iter().any(|p| rejects(p, owners)),
        Pred::Or(preds) => !preds.is_empty() && preds.iter().all(|p| rejects(p, owners)),
    }
}

/// All that holds in a scope, for rows of `owner` (or for the scope's joined rows when there is none).
pub fn applying(envs: &[Env], env: usize, owner: Option<u32>) -> Vec<&Pred> {
    let usable = |tagged: &&Tagged| owner.is_none_or(|owner| !tagged.origin.contains(&owner));
    let mut preds = Vec::new();
    let mut waiting = Vec::new();
    let mut next = envs.get(env);
    while let Some(env) = next {
        preds.extend(env.preds.iter().filter(usable).map(|t| &t.pred));
        waiting.extend(&env.conditionals);
        next = env.parent.and_then(|parent| envs.get(parent));
    }
    loop {
        let (met, rest): (Vec<&Conditional>, Vec<_>) =
            waiting.into_iter().partition(|c| preds.iter().any(|p| rejects(p, &c.owners)));
        if met.is_empty() {
            return preds;
        }
        preds.extend(met.into_iter().flat_map(|c| c.preds.iter().filter(usable).map(|t| &t.pred)));
        waiting = rest;
    }
}

/// Columns that are equal in every row that matters.
#[derive(Debug, Default)]
pub struct Classes {
    parents: HashMap<Atom, Atom>,
}

impl Classes {
    pub fn new(preds: &[&Pred]) -> Classes {
        let mut classes = Classes::default();
        for pred in preds {
            if let Pred::Equal(a, b) = pred {
                let (a, b) = (classes.find(*a), classes.find(*b));
                if a != b {
                    classes.parents.insert(a, b);
                }
            }
        }
        classes
    }

    fn find(&self, atom: Atom) -> Atom {
        let mut at = atom;
        while let Some(parent) = self.parents.get(&at) {
            at = *parent;
        }
        at
    }

    pub fn same(&self, a: Atom, b: Atom) -> bool {
        a == b || self.find(a) == self.find(b)
    }

    /// Whether each of the key's columns is among these columns.
    pub fn contain(&self, among: &[Option<Atom>], key: &[Atom]) -> bool {
        key.iter().all(|k| among.iter().flatten().any(|a| self.same(*a, *k)))
    }
}

/// The condition that follows for a key.
pub fn key_expr(preds: &[&Pred], key: &[Atom]) -> KeyExpr {
    let classes = Classes::new(preds);
    all(preds.iter().map(|pred| convert(pred, &classes, key)).collect())
}

fn convert(pred: &Pred, classes: &Classes, key: &[Atom]) -> KeyExpr {
    match pred {
        Pred::True | Pred::Equal(..) => KeyExpr::True,
        Pred::False => KeyExpr::False,
        Pred::Is(atom, Test::IsNull) => match key.iter().position(|k| k == atom) {
            Some(column) => KeyExpr::IsNull { column },
            None => KeyExpr::True,
        },
        Pred::Is(atom, test) => {
            let parts =
                key.iter().enumerate().filter(|(_, k)| classes.same(**k, *atom)).map(|(column, _)| match test {
                    Test::Equals(value) => KeyExpr::Equals { column, value: value.clone() },
                    Test::EqualsAny(array) => KeyExpr::EqualsAny { column, array: array.clone() },
                    Test::Compare(op, value) => KeyExpr::Compare { column, op: *op, value: value.clone() },
                    Test::IsNull => KeyExpr::True,
                });
            all(parts.collect())
        }
        Pred::And(preds) => all(preds.iter().map(|p| convert(p, classes, key)).collect()),
        Pred::Or(preds) => any(preds.iter().map(|p| convert(p, classes, key)).collect()),
    }
}

/// A conjunction, simplified.
pub fn all(parts: Vec<KeyExpr>) -> KeyExpr {
    let mut kept: Vec<KeyExpr> = Vec::new();
    for part in parts {
        match part {
            KeyExpr::True => {}
            KeyExpr::False => return KeyExpr::False,
            KeyExpr::And(inner) => kept.extend(inner),
            part => {
                if !kept.contains(&part) {
                    kept.push(part);
                }
            }
        }
    }
    match kept.len() {
        0 => KeyExpr::True,
        1 => kept.swap_remove(0),
        _ => KeyExpr::And(kept),
    }
}

/// A disjunction, simplified.
pub fn any(parts: Vec<KeyExpr>) -> KeyExpr {
    let mut kept: Vec<KeyExpr> = Vec::new();
    for part in parts {
        match part {
            KeyExpr::True => return KeyExpr::True,
            KeyExpr::False => {}
            KeyExpr::Or(inner) => kept.extend(inner),
            part => {
                kept.push(part);
            }
        }
    }
    match kept.len() {
        0 => KeyExpr::False,
        1 => kept.swap_remove(0),
        _ => KeyExpr::Or(kept),
    }
}
