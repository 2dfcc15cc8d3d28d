//! Which column a name means, from the innermost query outward.

use super::Output;
use super::names;
use crate::plan::classes::Atom;
use crate::plan::source::SourceText;
use sqlparser::ast::Query;
use sqlparser::ast::SelectItemQualifiedWildcardKind;
use std::cell::Cell;
use std::rc::Rc;

/// An item of FROM.
#[derive(Clone, Debug)]
pub struct Item {
    pub label: Option<String>,
    /// Of a table that is named without an alias.
    pub schema: Option<String>,
    /// Names and what they are; `None`: its columns are not known.
    pub columns: Option<Vec<(String, Option<Atom>)>>,
}

/// What can be named at one place.
#[derive(Debug)]
pub struct Scope<'q> {
    pub items: Vec<Item>,
    /// Columns that USING and NATURAL have merged; they hide the items' own when named alone.
    pub merged: Vec<(String, Option<Atom>)>,
    pub parent: Option<Rc<Scope<'q>>>,
    pub ctes: Option<Rc<CteLink<'q>>>,
    pub source: &'q SourceText<'q>,
    pub env: usize,
    /// The block that this is the scope of.
    pub block: Option<usize>,
    pub in_view: bool,
}

#[derive(Debug)]
pub struct CteLink<'q> {
    pub name: String,
    pub columns: Vec<String>,
    pub body: CteBody<'q>,
    /// Where it was defined.
    pub scope: Rc<Scope<'q>>,
    pub next: Option<Rc<CteLink<'q>>>,
    pub uses: Cell<u32>,
}

#[derive(Debug)]
pub enum CteBody<'q> {
    /// Taken apart for each use.
    Query(&'q Query),
    /// A recursive query's reference to itself.
    Itself,
    /// Runs once however often it is used: recursive and data-modifying ones.
    Analysed { block: usize, outputs: Option<Vec<Output>> },
}

impl<'q> CteLink<'q> {
    pub fn new(
        name: String,
        columns: Vec<String>,
        body: CteBody<'q>,
        scope: Rc<Scope<'q>>,
        next: Option<Rc<CteLink<'q>>>,
    ) -> CteLink<'q> {
        CteLink { name, columns, body, scope, next, uses: Cell::new(0) }
    }
}

/// What a name in a scope turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub atom: Option<Atom>,
    /// Blocks between the name and the scope that has it: they are correlated.
    pub crossed: Vec<usize>,
}

impl<'q> Scope<'q> {
    pub fn new(source: &'q SourceText<'q>, in_view: bool) -> Scope<'q> {
        Scope { items: Vec::new(), merged: Vec::new(), parent: None, ctes: None, source, env: 0, block: None, in_view }
    }

    /// An empty scope inside this one.
    pub fn enter(self: &Rc<Self>) -> Scope<'q> {
        Scope {
            items: Vec::new(),
            merged: Vec::new(),
            parent: Some(self.clone()),
            ctes: self.ctes.clone(),
            source: self.source,
            env: self.env,
            block: None,
            in_view: self.in_view,
        }
    }

    /// As this one, without its items.
    pub fn clone_empty(&self) -> Scope<'q> {
        Scope {
            items: Vec::new(),
            merged: Vec::new(),
            parent: self.parent.clone(),
            ctes: self.ctes.clone(),
            source: self.source,
            env: self.env,
            block: self.block,
            in_view: self.in_view,
        }
    }

    pub fn cte(&self, name: &str) -> Option<Rc<CteLink<'q>>> {
        let mut next = self.ctes.clone();
        while let Some(link) = next {
            if link.name == name {
                return Some(link);
            }
            next = link.next.clone();
        }
        None
    }

    /// Looks a name up as PostgreSQL does; `None`: nowhere, or not certain.
    pub fn find(&self, parts: &[String]) -> Option<Found> {
        let mut crossed = Vec::new();
        let mut scope = self;
        loop {
            match scope.find_here(parts) {
                Here::Is(atom) => return Some(Found { atom, crossed }),
                Here::Unclear => return None,
                Here::No => {}
            }
            crossed.extend(scope.block);
            scope = scope.parent.as_deref()?;
        }
    }

    fn find_here(&self, parts: &[String]) -> Here {
        match parts {
            [name] => self.find_unqualified(name),
            [label, name] => self.find_qualified(None, label, name),
            [schema, label, name] => self.find_qualified(Some(schema), label, name),
            _ => Here::Unclear,
        }
    }

    fn find_unqualified(&self, name: &str) -> Here {
        if let Some((_, atom)) = self.merged.iter().find(|(n, _)| n == name) {
            return Here::Is(*atom);
        }
        let mut found = self.items.iter().filter_map(|i| i.columns.as_ref()).flatten().filter(|(n, _)| n == name);
        match (found.next(), found.next()) {
            (Some((_, atom)), None) => Here::Is(*atom),
            (Some(_), Some(_)) => Here::Unclear,
            (None, _) if self.items.iter().any(|i| i.columns.is_none()) => Here::Unclear,
            (None, _) => Here::No,
        }
    }

    fn find_qualified(&self, schema: Option<&str>, label: &str, name: &str) -> Here {
        let is_meant = |item: &&Item| {
            item.label.as_deref() == Some(label) && schema.is_none_or(|s| item.schema.as_deref().is_none_or(|i| i == s))
        };
        let mut items = self.items.iter().filter(is_meant);
        match (items.next(), items.next()) {
            (None, _) => Here::No,
            (Some(_), Some(_)) => Here::Unclear,
            (Some(item), None) => match &item.columns {
                None => Here::Unclear,
                Some(columns) => match columns.iter().find(|(n, _)| n == name) {
                    Some((_, atom)) => Here::Is(*atom),
                    None => Here::Unclear,
                },
            },
        }
    }

    /// Whether an unqualified name is, or may be, a column of this query's own FROM items.
    pub fn has_column(&self, name: &str) -> bool {
        self.find_unqualified(name) != Here::No
    }

    /// Whether an unqualified name is certainly one column here.
    pub fn is_one_column(&self, name: &str) -> bool {
        matches!(self.find_unqualified(name), Here::Is(_))
    }

    /// What `*` stands for; merged columns come first.
    pub fn all_columns(&self) -> Option<Vec<Output>> {
        let mut outputs: Vec<Output> =
            self.merged.iter().map(|(name, atom)| Output { name: Some(name.clone()), atom: *atom }).collect();
        for item in &self.items {
            for (name, atom) in item.columns.as_ref()? {
                if !self.merged.iter().any(|(n, _)| n == name) {
                    outputs.push(Output { name: Some(name.clone()), atom: *atom });
                }
            }
        }
        Some(outputs)
    }

    /// What `label.*` stands for.
    pub fn item_columns(&self, kind: &SelectItemQualifiedWildcardKind) -> Option<Vec<Output>> {
        let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else { return None };
        let parts = names::parts(name)?;
        let label = parts.last()?;
        let mut items = self.items.iter().filter(|i| i.label.as_ref() == Some(label));
        let item = items.next()?;
        if items.next().is_some() {
            return None;
        }
        let columns = item.columns.as_ref()?;
        Some(columns.iter().map(|(name, atom)| Output { name: Some(name.clone()), atom: *atom }).collect())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Here {
    Is(Option<Atom>),
    No,
    /// It is here but what it is is not known, or it may be here.
    Unclear,
}
