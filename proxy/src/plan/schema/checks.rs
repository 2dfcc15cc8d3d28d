//! What a table's definition must keep to so that each shard can enforce it by itself.

use super::cursor::Cursor;
use crate::catalog::ListedTable;
use crate::catalog::MapId;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::build::fits;
use crate::error::Error;
use crate::plan::Context;
use crate::plan::names;
use crate::plan::names::Named;
use crate::sql::Statement;
use crate::value::KeyType;
use sqlparser::ast::AlterColumnOperation;
use sqlparser::ast::AlterTableOperation;
use sqlparser::ast::ColumnDef;
use sqlparser::ast::ColumnOption;
use sqlparser::ast::CreateTable;
use sqlparser::ast::Expr;
use sqlparser::ast::ForeignKeyConstraint;
use sqlparser::ast::IndexColumn;
use sqlparser::ast::ReferentialAction;
use sqlparser::ast::Statement as Tree;
use sqlparser::ast::TableConstraint;

/// A table as the checks see it: made now, or there already.
struct Checked<'c> {
    name: QualifiedName,
    place: Option<ListedTable>,
    context: &'c Context<'c>,
}

/// Checks CREATE TABLE; gives its columns' names.
pub fn created(context: &Context<'_>, name: &QualifiedName, tree: Option<&CreateTable>) -> Result<Vec<String>, Error> {
    let columns: Vec<String> =
        tree.map(|t| t.columns.iter().map(|c| names::fold(&c.name)).collect()).unwrap_or_default();
    let place = context.catalog.listed_place(name, columns.iter().map(String::as_str));
    if context.catalog.shards.len() <= 1 {
        return Ok(columns);
    }
    let checked = Checked { name: name.clone(), place, context };
    let Some(tree) = tree else {
        return match &checked.place {
            Some(ListedTable::Sharded { .. }) => {
                Err(Error::unsupported(format!("a CREATE TABLE for sharded table {name} that cannot be read here"))
                    .hint("Write the table's columns and constraints in their plain form."))
            }
            _ => Ok(columns),
        };
    };
    if tree.like.is_some() && columns.is_empty() {
        return Ok(columns);
    }
    checked.key_columns(&tree.columns)?;
    for column in &tree.columns {
        checked.column(column)?;
    }
    for constraint in &tree.constraints {
        checked.constraint(constraint)?;
    }
    Ok(columns)
}

/// Checks ALTER TABLE.
pub fn altered(
    statement: &Statement,
    context: &Context<'_>,
    relation: &Relation,
    cursor: &Cursor<'_>,
) -> Result<(), Error> {
    let place = match &relation.placement {
        Placement::Sharded { map, key } => {
            let key = key.iter().filter_map(|k| relation.columns.get(*k)).map(|c| c.name.clone()).collect();
            Some(ListedTable::Sharded { map: *map, key })
        }
        Placement::Reference => Some(ListedTable::Reference),
        Placement::Single(shard) => Some(ListedTable::Single(*shard)),
        _ => return Ok(()),
    };
    let checked = Checked { name: relation.name.clone(), place, context };
    let Ok(Tree::AlterTable(tree)) = statement.tree() else {
        let risky = ["unique", "primary", "references", "rename", "type", "attach", "inherit", "exclude"];
        return match risky.iter().find(|w| cursor.contains(w)) {
            Some(word) if matches!(relation.placement, Placement::Sharded { .. }) => Err(Error::unsupported(format!(
                "an ALTER TABLE with {} on sharded table {} that cannot be read here",
                word.to_uppercase(),
                relation.name
            ))
            .hint("Write one change in each statement.")),
            _ => Ok(()),
        };
    };
    tree.operations.iter().try_for_each(|operation| checked.operation(operation))
}

/// Checks CREATE UNIQUE INDEX.
pub fn indexed(statement: &Statement, relation: &Relation) -> Result<(), Error> {
    let Placement::Sharded { key, .. } = &relation.placement else { return Ok(()) };
    let mut cursor = Cursor::new(statement);
    cursor.take("create");
    if !cursor.take("unique") {
        return Ok(());
    }
    let columns = match statement.tree() {
        Ok(Tree::CreateIndex(index)) => index_columns(&index.columns),
        _ => Vec::new(),
    };
    let has_key = key.iter().all(|k| relation.columns.get(*k).is_some_and(|c| columns.contains(&Some(c.name.clone()))));
    if has_key { Ok(()) } else { Err(not_unique(&relation.name)) }
}

fn not_unique(table: &QualifiedName) -> Error {
    Error::unsupported(format!("a unique constraint on sharded table {table} that does not contain the shard key"))
        .detail("One shard cannot tell whether another has the same values.")
        .hint("Add the shard key's columns to the constraint.")
}

fn index_columns(columns: &[IndexColumn]) -> Vec<Option<String>> {
    let column = |c: &IndexColumn| match &c.column.expr {
        Expr::Identifier(ident) => Some(names::fold(ident)),
        _ => None,
    };
    columns.iter().map(column).collect()
}

impl Checked<'_> {
    fn key(&self) -> Option<(MapId, &[String])> {
        match &self.place {
            Some(ListedTable::Sharded { map, key }) => Some((*map, key)),
            _ => None,
        }
    }

    /// The key columns are there, with types that fit the map's.
    fn key_columns(&self, columns: &[ColumnDef]) -> Result<(), Error> {
        let Some((map, key)) = self.key() else { return Ok(()) };
        let Some(map) = self.context.catalog.map(map) else { return Ok(()) };
        for (name, expected) in key.iter().zip(&map.key) {
            let Some(column) = columns.iter().find(|c| names::fold(&c.name) == *name) else {
                return Err(Error::unsupported(format!("table {} without its shard key column {name}", self.name))
                    .hint("The configuration says that the table is sharded by this column."));
            };
            self.key_type(name, &column.data_type.to_string(), *expected)?;
        }
        Ok(())
    }

    fn key_type(&self, column: &str, written: &str, expected: KeyType) -> Result<(), Error> {
        let lower = written.to_ascii_lowercase();
        let plain = match lower.as_str() {
            "bigserial" | "serial8" => "bigint",
            "serial" | "serial4" => "integer",
            "smallserial" | "serial2" => "smallint",
            other => other,
        };
        if KeyType::parse_name(plain).is_some_and(|found| fits(expected, found)) {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "shard key column {column} of {} with type {lower}, where the shard map has {}",
            self.name,
            expected.name()
        ))
        .hint("Give the column the shard map's type, or correct the configuration."))
    }

    fn column(&self, column: &ColumnDef) -> Result<(), Error> {
        let name = names::fold(&column.name);
        for option in &column.options {
            match &option.option {
                ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) => self.unique(&[Some(name.clone())])?,
                ColumnOption::ForeignKey(key) => self.foreign_key(key, std::slice::from_ref(&name))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn constraint(&self, constraint: &TableConstraint) -> Result<(), Error> {
        match constraint {
            TableConstraint::Unique(unique) => self.unique(&index_columns(&unique.columns)),
            TableConstraint::PrimaryKey(key) => self.unique(&index_columns(&key.columns)),
            TableConstraint::ForeignKey(key) => {
                let columns: Vec<String> = key.columns.iter().map(names::fold).collect();
                self.foreign_key(key, &columns)
            }
            TableConstraint::Exclude(_) if self.key().is_some() => {
                Err(Error::unsupported(format!("an exclusion constraint on sharded table {}", self.name))
                    .detail("One shard cannot tell what another has.")
                    .hint("Use a unique constraint that contains the shard key."))
            }
            _ => Ok(()),
        }
    }

    fn unique(&self, columns: &[Option<String>]) -> Result<(), Error> {
        let Some((_, key)) = self.key() else { return Ok(()) };
        if key.iter().all(|k| columns.contains(&Some(k.clone()))) { Ok(()) } else { Err(not_unique(&self.name)) }
    }

    /// A foreign key whose two rows are always on one shard.
    fn foreign_key(&self, key: &ForeignKeyConstraint, columns: &[String]) -> Result<(), Error> {
        let parts = names::parts(&key.foreign_table).unwrap_or_default();
        let target = match names::relation(self.context, &parts) {
            Named::Relation(relation) => relation,
            _ if parts.last() == Some(&self.name.name) => return self.own_foreign_key(key, columns),
            _ => return Ok(()),
        };
        let refused = |why: &str| {
            Err(Error::unsupported(format!("a foreign key from {} to {}", self.name, target.name))
                .detail(why.to_owned())
                .hint("Include the shard key on both sides, or make the referenced table a reference table."))
        };
        match (&self.place, &target.placement) {
            (_, Placement::Reference) => Ok(()),
            (Some(ListedTable::Sharded { map, key: own }), Placement::Sharded { map: other, key: theirs }) => {
                if map != other {
                    return refused("The tables have different shard maps.");
                }
                let theirs: Vec<&str> =
                    theirs.iter().filter_map(|k| target.columns.get(*k)).map(|c| c.name.as_str()).collect();
                let referred = self.referred(key, &target, columns.len());
                let paired = own
                    .iter()
                    .zip(&theirs)
                    .all(|(mine, other)| columns.iter().zip(&referred).any(|(c, r)| c == mine && r == other));
                if !paired {
                    return refused("It does not pair the tables' shard keys.");
                }
                self.key_action(key, columns)
            }
            (Some(ListedTable::Single(a)), Placement::Single(b)) if a == b => Ok(()),
            (None, Placement::Single(b)) if *b == crate::catalog::Catalog::HOME => Ok(()),
            _ => refused("The referenced rows can be on another shard."),
        }
    }

    fn own_foreign_key(&self, key: &ForeignKeyConstraint, columns: &[String]) -> Result<(), Error> {
        let Some((_, own)) = self.key() else { return Ok(()) };
        let referred: Vec<String> = match key.referred_columns.is_empty() {
            true => columns.to_vec(),
            false => key.referred_columns.iter().map(names::fold).collect(),
        };
        let paired = own.iter().all(|k| columns.iter().zip(&referred).any(|(c, r)| c == k && r == k));
        if !paired {
            return Err(Error::unsupported(format!("a foreign key from {} to itself", self.name))
                .detail("It does not contain the shard key.".to_owned())
                .hint("Include the shard key on both sides."));
        }
        self.key_action(key, columns)
    }

    /// The columns that a foreign key refers to: those of a unique constraint as wide, when it does not say.
    fn referred(&self, key: &ForeignKeyConstraint, target: &Relation, width: usize) -> Vec<String> {
        if !key.referred_columns.is_empty() {
            return key.referred_columns.iter().map(names::fold).collect();
        }
        let unique = target.unique.iter().find(|u| u.len() == width);
        let name = |c: &usize| target.columns.get(*c).map(|c| c.name.clone());
        unique.map(|u| u.iter().filter_map(name).collect()).unwrap_or_default()
    }

    /// SET NULL, SET DEFAULT and CASCADE of updates change key columns.
    fn key_action(&self, key: &ForeignKeyConstraint, columns: &[String]) -> Result<(), Error> {
        let Some((_, own)) = self.key() else { return Ok(()) };
        let sets = |action: &Option<ReferentialAction>| {
            matches!(action, Some(ReferentialAction::SetNull | ReferentialAction::SetDefault))
        };
        let has_key = columns.iter().any(|c| own.contains(c));
        if has_key && (sets(&key.on_delete) || sets(&key.on_update)) {
            return Err(Error::unsupported(format!("a foreign key action of {} that sets the shard key", self.name))
                .hint("Use ON DELETE CASCADE, or leave the action out."));
        }
        Ok(())
    }

    fn operation(&self, operation: &AlterTableOperation) -> Result<(), Error> {
        let is_key = |name: &sqlparser::ast::Ident| self.key().is_some_and(|(_, key)| key.contains(&names::fold(name)));
        let key_change = |what: &str| {
            Err(Error::unsupported(format!("{what} a shard key column of {}", self.name))
                .hint("Make a new table and list it in the configuration."))
        };
        match operation {
            AlterTableOperation::AddConstraint { constraint, .. } => self.constraint(constraint),
            AlterTableOperation::AddColumn { column_def, .. } => self.column(column_def),
            AlterTableOperation::DropColumn { column_names, .. } if column_names.iter().any(is_key) => {
                key_change("dropping")
            }
            AlterTableOperation::RenameColumn { old_column_name, .. } if is_key(old_column_name) => {
                key_change("renaming")
            }
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDataType { .. } }
                if is_key(column_name) =>
            {
                key_change("changing the type of")
            }
            AlterTableOperation::RenameTable { .. } if self.context.catalog.listed.contains_key(&self.name) => {
                Err(Error::unsupported(format!("renaming table {}, which the configuration lists", self.name))
                    .hint("Change the configuration first."))
            }
            _ => Ok(()),
        }
    }
}
