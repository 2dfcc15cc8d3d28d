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

/// The columns of FROM, or of a part of it, in the order of `*`; those that USING and NATURAL have merged once.
#[derive(Clone, Debug)]
pub struct Columns {
    pub known: Vec<(String, Option<Atom>)>,
    /// There are no others.
    pub complete: bool,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns { known: Vec::new(), complete: true }
    }
}

impl Columns {
    pub fn of(item: &Item) -> Columns {
        Columns { known: item.columns.clone().unwrap_or_default(), complete: item.columns.is_some() }
    }

    pub fn append(&mut self, other: Columns) {
        self.known.extend(other.known);
        self.complete &= other.complete;
    }

    /// The only column of a name, where it is certain.
    pub fn one(&self, name: &str) -> Option<Atom> {
        match self.find(name) {
            Here::Is(atom) => atom,
            Here::No | Here::Unclear => None,
        }
    }

    fn find(&self, name: &str) -> Here {
        let mut found = self.known.iter().filter(|(n, _)| n == name);
        match (found.next(), found.next()) {
            (Some((_, atom)), None) => Here::Is(*atom),
            (Some(_), Some(_)) => Here::Unclear,
            (None, _) if !self.complete => Here::Unclear,
            (None, _) => Here::No,
        }
    }
}

/// What can be named at one place.
#[derive(Debug)]
pub struct Scope<'q> {
    pub items: Vec<Item>,
    /// What can be named without the item's name.
    pub columns: Columns,
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
        Scope {
            items: Vec::new(),
            columns: Columns::default(),
            parent: None,
            ctes: None,
            source,
            env: 0,
            block: None,
            in_view,
        }
    }

    /// An empty scope inside this one.
    pub fn enter(self: &Rc<Self>) -> Scope<'q> {
        Scope {
            items: Vec::new(),
            columns: Columns::default(),
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
            columns: Columns::default(),
            parent: self.parent.clone(),
            ctes: self.ctes.clone(),
            source: self.source,
            env: self.env,
            block: self.block,
            in_view: self.in_view,
        }
    }

    /// With these items beside each other.
    pub fn with_items(mut self, items: Vec<Item>, env: usize) -> Scope<'q> {
        self.columns = Columns::default();
        items.iter().for_each(|item| self.columns.append(Columns::of(item)));
        Scope { items, env, ..self }
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

    /// How many queries out a name is, or may be, found; a FROM item's own name is its whole row. `None`: nowhere.
    pub fn level(&self, parts: &[String]) -> Option<usize> {
        let mut crossed = 0;
        let mut row = None;
        let mut scope = self;
        loop {
            if scope.find_here(parts) != Here::No {
                return Some(crossed);
            }
            if let [name] = parts
                && scope.items.iter().any(|item| item.label.as_ref() == Some(name))
            {
                row = row.or(Some(crossed));
            }
            crossed += usize::from(scope.block.is_some());
            match scope.parent.as_deref() {
                Some(parent) => scope = parent,
                None => return row,
            }
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
        self.columns.find(name)
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

    /// What `*` stands for.
    pub fn all_columns(&self) -> Option<Vec<Output>> {
        let output = |(name, atom): &(String, Option<Atom>)| Output { name: Some(name.clone()), atom: *atom };
        self.columns.complete.then(|| self.columns.known.iter().map(output).collect())
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
