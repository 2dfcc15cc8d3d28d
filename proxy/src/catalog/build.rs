//! Configuration + what the shards say → [`Catalog`].

use super::BuiltinFunction;
use super::Catalog;
use super::Collation;
use super::Column;
use super::FunctionKind;
use super::Functions;
use super::ListedTable;
use super::MapId;
use super::Placement;
use super::QualifiedName;
use super::RangePart;
use super::Relation;
use super::RelationKind;
use super::ShardFunction;
use super::ShardId;
use super::ShardMap;
use super::Trigger;
use super::Unlisted;
use super::UserFunction;
use super::oids::ShardOids;
use super::oids::unequal_types;
use super::schema;
use super::schema::CollationFacts;
use super::schema::DatabaseFacts;
use super::schema::RelationFacts;
use super::schema::ShardSchema;
use crate::config;
use crate::config::MapFunction;
use crate::config::TablePlace;
use crate::config::UnlistedTables;
use crate::value::KeyType;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;

/// `pg_collation.oid` of the database's default collation.
const DEFAULT_COLLATION: u32 = 100;

impl Catalog {
    /// Puts together what is configured and what the shards say; a shard that is away is `None`, and the others speak
    /// for it. What is wrong with single tables is in [`Catalog::problems`].
    ///
    /// # Errors
    /// No shard could be read, or the configuration names more shards or maps than there can be.
    pub fn build(
        config: &config::Database,
        shards: &[Option<ShardSchema>],
        builtins: Arc<HashMap<String, BuiltinFunction>>,
        version: u64,
    ) -> Result<Catalog, Vec<String>> {
        let present: Vec<(ShardId, &ShardSchema)> = shards
            .iter()
            .enumerate()
            .filter_map(|(n, s)| Some((ShardId(u16::try_from(n).ok()?), s.as_ref()?)))
            .collect();
        let Some((_, first)) = present.first() else {
            return Err(vec!["no shard could be read".to_owned()]);
        };
        let listed = listed_tables(config)?;
        let maps = config.maps.iter().map(shard_map).collect::<Result<Vec<_>, _>>().map_err(|e| vec![e])?;
        let mut catalog = Catalog {
            version,
            database: config.name.clone(),
            shards: config.shards.iter().map(|s| s.name.clone()).collect(),
            maps,
            relations: HashMap::new(),
            functions: functions(&present, builtins, config),
            unlisted: match config.unlisted {
                UnlistedTables::Single => Unlisted::Single,
                UnlistedTables::Reference => Unlisted::Reference,
                UnlistedTables::Refuse => Unlisted::Refuse,
            },
            column_rules: column_rules(config)?,
            listed,
            default_collation: default_collation(&first.database),
            schemas: first.schemas.clone(),
            indexes: HashMap::new(),
            system: present.iter().flat_map(|(_, s)| s.system.iter().cloned()).collect(),
            oids: oids(shards),
            user_types: first.user_types.iter().map(|t| t.oid).collect(),
            unequal_types: unequal_types(first, &present.iter().map(|(_, s)| *s).collect::<Vec<_>>()),
            problems: Vec::new(),
        };
        let found = Found::collect(&present);
        for (name, facts) in &found.tables {
            let relation = catalog.place(name, facts, &found);
            catalog.relations.insert(name.clone(), Arc::new(relation));
        }
        for (name, table) in found.indexes {
            catalog.indexes.insert(name, table);
        }
        catalog.problems.sort();
        Ok(catalog)
    }

    /// Where a table is that the configuration lists, by name or by one of its columns; `None` for an unlisted one.
    pub fn listed_place<'a>(
        &self,
        name: &QualifiedName,
        mut columns: impl Iterator<Item = &'a str>,
    ) -> Option<ListedTable> {
        if let Some(listed) = self.listed.get(name) {
            return Some(listed.clone());
        }
        let column = columns.find(|column| self.column_rules.contains_key(*column))?;
        let map = *self.column_rules.get(column)?;
        Some(ListedTable::Sharded { map, key: vec![column.to_owned()] })
    }

    fn place(&mut self, name: &QualifiedName, facts: &FoundRelation<'_>, found: &Found<'_>) -> Relation {
        let oids = facts.shards.first().and_then(|shard| self.shard_oids(*shard));
        let columns = columns(facts.facts, found, self.default_collation, oids.map(|o| &**o));
        let kind = kind(&facts.facts.kind);
        let placement = match kind {
            RelationKind::View => Placement::Derived,
            _ => self.placement(name, facts, found, &columns),
        };
        if let Placement::Refused(problem) = &placement {
            self.problems.push(format!("table {name} {problem}"));
        }
        let position = |column: &String| columns.iter().position(|c| c.name == *column);
        Relation {
            name: name.clone(),
            kind,
            placement,
            found_on: facts.shards.clone(),
            unique: facts.facts.unique.iter().filter_map(|key| key.iter().map(position).collect()).collect(),
            definition: facts.facts.definition.clone(),
            triggers: facts.facts.triggers.iter().map(trigger).collect(),
            has_rules: facts.facts.rules,
            has_policies: facts.facts.row_security,
            parent: facts.facts.parent.as_ref().map(qualified),
            has_children: facts.facts.has_children,
            columns,
        }
    }

    fn placement(
        &self,
        name: &QualifiedName,
        facts: &FoundRelation<'_>,
        found: &Found<'_>,
        columns: &[Column],
    ) -> Placement {
        let decided = self.decided(name, facts, found);
        match decided {
            Some(ListedTable::Sharded { map, key }) if facts.facts.kind == "S" => {
                // an owned sequence is where its table is; it has no key of its own
                let _ = key;
                Placement::Sharded { map, key: Vec::new() }
            }
            Some(ListedTable::Sharded { map, key }) => match self.key_positions(map, &key, columns) {
                Ok(key) => Placement::Sharded { map, key },
                Err(problem) => Placement::Refused(problem),
            },
            Some(ListedTable::Reference) => Placement::Reference,
            Some(ListedTable::Single(shard)) => Placement::Single(shard),
            None => self.unlisted_placement(facts),
        }
    }

    /// What the configuration says of a table, of the table that owns a sequence, or of the topmost parent.
    fn decided(&self, name: &QualifiedName, facts: &FoundRelation<'_>, found: &Found<'_>) -> Option<ListedTable> {
        let mut name = name.clone();
        let mut facts = facts.facts;
        let mut decided = self.listed_place(&name, facts.columns.iter().map(|c| c.name.as_str()));
        for _ in 0..64 {
            let up = if facts.kind == "S" { &facts.table } else { &facts.parent };
            let Some(up) = up.as_ref().map(qualified) else { break };
            let Some(above) = found.tables.get(&up) else { break };
            name = up;
            facts = above.facts;
            decided = self.listed_place(&name, facts.columns.iter().map(|c| c.name.as_str())).or(decided);
        }
        decided
    }

    fn unlisted_placement(&self, facts: &FoundRelation<'_>) -> Placement {
        match (self.unlisted, facts.shards.as_slice()) {
            (_, [shard]) if self.shards.len() == 1 => Placement::Single(*shard),
            (Unlisted::Refuse, _) => Placement::Refused("is not listed in the configuration".to_owned()),
            (Unlisted::Reference, _) => Placement::Reference,
            (Unlisted::Single, [shard]) => Placement::Single(*shard),
            (Unlisted::Single, shards) => Placement::Ambiguous(shards.to_vec()),
        }
    }

    /// The positions of the key columns, checked against the map's key types.
    ///
    /// # Errors
    /// What is wrong, as a sentence without its subject.
    pub fn key_positions(&self, map: MapId, key: &[String], columns: &[Column]) -> Result<Vec<usize>, String> {
        let Some(map) = self.map(map) else { return Err("names a shard map that does not exist".to_owned()) };
        if key.len() != map.key.len() {
            return Err(format!("has {} key columns, shard map {} has {}", key.len(), map.name, map.key.len()));
        }
        let mut positions = Vec::new();
        for (name, expected) in key.iter().zip(&map.key) {
            let Some(position) = columns.iter().position(|c| c.name == *name) else {
                return Err(format!("has no column {name}, which is its shard key"));
            };
            let Some(column) = columns.get(position) else { continue };
            if !KeyType::parse_name(&column.type_name).is_some_and(|found| fits(*expected, found)) {
                return Err(format!(
                    "has shard key column {name} of type {}, shard map {} has {}",
                    column.type_name,
                    map.name,
                    expected.name()
                ));
            }
            if column.collation == Collation::Nondeterministic {
                return Err(format!("has shard key column {name} with a nondeterministic collation"));
            }
            positions.push(position);
        }
        Ok(positions)
    }
}

/// Whether a column of one type may be a key of a map of another: integers hash alike, text types too.
pub fn fits(map: KeyType, column: KeyType) -> bool {
    map == column || (map.is_integer() && column.is_integer()) || (map.is_text() && column.is_text())
}

/// A relation as the first shard that has it says, and all shards that have it.
struct FoundRelation<'a> {
    facts: &'a RelationFacts,
    shards: Vec<ShardId>,
}

struct Found<'a> {
    tables: BTreeMap<QualifiedName, FoundRelation<'a>>,
    indexes: Vec<(QualifiedName, QualifiedName)>,
    collations: HashMap<u32, Collation>,
    collation_names: HashMap<u32, QualifiedName>,
}

impl<'a> Found<'a> {
    fn collect(present: &[(ShardId, &'a ShardSchema)]) -> Found<'a> {
        let mut found = Found {
            tables: BTreeMap::new(),
            indexes: Vec::new(),
            collations: HashMap::new(),
            collation_names: HashMap::new(),
        };
        for (shard, schema) in present {
            for facts in &schema.relations {
                let name = QualifiedName { schema: facts.schema.clone(), name: facts.name.clone() };
                match (facts.kind.as_str(), &facts.table) {
                    ("i" | "I", Some(table)) => found.indexes.push((name, qualified(table))),
                    ("i" | "I", None) => {}
                    _ => {
                        let entry = found.tables.entry(name).or_insert(FoundRelation { facts, shards: Vec::new() });
                        entry.shards.push(*shard);
                    }
                }
            }
            for collation in &schema.collations {
                let kind = collation_kind(collation, &schema.database);
                // user collations have OIDs of their own on each shard: the less certain kind wins
                let known = found.collations.entry(collation.oid).or_insert(kind);
                *known = weaker(*known, kind);
                let name = QualifiedName { schema: collation.schema.clone(), name: collation.name.clone() };
                found.collation_names.entry(collation.oid).or_insert(name);
            }
        }
        found
    }
}

fn weaker(a: Collation, b: Collation) -> Collation {
    let rank = |c| match c {
        Collation::None => 0,
        Collation::Bytes => 1,
        Collation::Linguistic => 2,
        Collation::Nondeterministic => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

fn qualified(name: &schema::NameFacts) -> QualifiedName {
    QualifiedName { schema: name.schema.clone(), name: name.name.clone() }
}

fn kind(letter: &str) -> RelationKind {
    match letter {
        "p" => RelationKind::Partitioned,
        "v" => RelationKind::View,
        "m" => RelationKind::MaterializedView,
        "f" => RelationKind::ForeignTable,
        "S" => RelationKind::Sequence,
        _ => RelationKind::Table,
    }
}

/// `oids`: of the shard that says so, unless it is home.
fn columns(facts: &RelationFacts, found: &Found<'_>, default: Collation, oids: Option<&ShardOids>) -> Vec<Column> {
    let collation = |oid: u32| match oid {
        0 => Collation::None,
        DEFAULT_COLLATION => default,
        oid => found.collations.get(&oid).copied().unwrap_or(Collation::Nondeterministic),
    };
    let column = |c: &schema::ColumnFacts| Column {
        name: c.name.clone(),
        type_oid: oids.map_or(c.type_oid, |oids| oids.to_home.type_or_nobody(c.type_oid)),
        type_name: c.type_name.clone(),
        collation: collation(c.collation),
        collation_name: found.collation_names.get(&c.collation).cloned(),
        not_null: c.not_null,
        default: c.default.clone(),
        generated: c.generated,
        identity: c.identity,
    };
    facts.columns.iter().map(column).collect()
}

fn trigger(facts: &schema::TriggerFacts) -> Trigger {
    Trigger {
        name: facts.name.clone(),
        function: QualifiedName { schema: facts.function_schema.clone(), name: facts.function.clone() },
        events: facts.events.clone(),
    }
}

/// Locales whose order is that of the bytes (of UTF-8: of the code points, which is the same).
fn is_bytewise(locale: &str) -> bool {
    matches!(
        locale.to_ascii_lowercase().as_str(),
        "c" | "posix" | "c.utf-8" | "c.utf8" | "pg_c_utf8" | "pg_unicode_fast" | "ucs_basic"
    )
}

fn default_collation(database: &DatabaseFacts) -> Collation {
    // nondeterministic collations cannot be a database's default
    let locale = match database.provider.as_str() {
        "c" => database.collate.as_deref(),
        "b" => database.locale.as_deref(),
        _ => None,
    };
    if locale.is_some_and(is_bytewise) { Collation::Bytes } else { Collation::Linguistic }
}

fn collation_kind(facts: &CollationFacts, database: &DatabaseFacts) -> Collation {
    if !facts.deterministic {
        return Collation::Nondeterministic;
    }
    let locale = match facts.provider.as_str() {
        "d" => return default_collation(database),
        "c" => facts.collate.as_deref(),
        "b" => facts.locale.as_deref(),
        _ => None,
    };
    if locale.is_some_and(is_bytewise) { Collation::Bytes } else { Collation::Linguistic }
}

/// The first shard that has been read stands for home.
fn oids(shards: &[Option<ShardSchema>]) -> Vec<Option<Arc<ShardOids>>> {
    let Some(home) = shards.iter().position(Option::is_some) else { return Vec::new() };
    let compare = |(n, shard): (usize, &Option<ShardSchema>)| match (shard, shards.get(home)) {
        _ if n == home => None,
        (Some(shard), Some(Some(home))) => Some(Arc::new(ShardOids::compare(home, shard))),
        _ => Some(Arc::new(ShardOids::unknown())),
    };
    shards.iter().enumerate().map(compare).collect()
}

fn functions(
    present: &[(ShardId, &ShardSchema)],
    builtin: Arc<HashMap<String, BuiltinFunction>>,
    config: &config::Database,
) -> Functions {
    let mut seen = BTreeSet::new();
    let mut user: HashMap<String, Vec<UserFunction>> = HashMap::new();
    for facts in present.iter().flat_map(|(_, s)| &s.functions) {
        let signature = format!("{facts:?}");
        if !seen.insert(signature) {
            continue;
        }
        let function = UserFunction {
            name: QualifiedName { schema: facts.schema.clone(), name: facts.name.clone() },
            volatility: schema::volatility(&facts.volatility),
            language: facts.language.clone(),
            kind: match facts.kind.as_str() {
                "p" => FunctionKind::Procedure,
                "a" => FunctionKind::Aggregate,
                "w" => FunctionKind::Window,
                _ => FunctionKind::Function,
            },
            from_extension: facts.extension,
            returns_set: facts.returns_set,
        };
        user.entry(facts.name.clone()).or_default().push(function);
    }
    let operators = present.iter().flat_map(|(_, s)| s.operators.iter().cloned()).collect();
    Functions { user, builtin, declared: config.functions.clone(), operators }
}

fn listed_tables(config: &config::Database) -> Result<HashMap<QualifiedName, ListedTable>, Vec<String>> {
    let mut listed = HashMap::new();
    for table in &config.tables {
        let place = match &table.place {
            TablePlace::Sharded { map, key } => ListedTable::Sharded { map: map_id(*map)?, key: key.clone() },
            TablePlace::Reference => ListedTable::Reference,
            TablePlace::Single(shard) => ListedTable::Single(shard_id(*shard).map_err(|e| vec![e])?),
        };
        listed.insert(QualifiedName { schema: table.schema.clone(), name: table.name.clone() }, place);
    }
    Ok(listed)
}

fn column_rules(config: &config::Database) -> Result<BTreeMap<String, MapId>, Vec<String>> {
    config.column_rules.iter().map(|(column, map)| Ok((column.clone(), map_id(*map)?))).collect()
}

fn map_id(position: usize) -> Result<MapId, Vec<String>> {
    u16::try_from(position).map(MapId).map_err(|_| vec!["too many shard maps".to_owned()])
}

fn shard_id(position: usize) -> Result<ShardId, String> {
    u16::try_from(position).map(ShardId).map_err(|_| "too many shards".to_owned())
}

fn shard_map(config: &config::MapConfig) -> Result<ShardMap, String> {
    let function = shard_function(&config.function)?;
    let pins = config.pins.iter().map(|(k, s)| Ok((k.clone(), shard_id(*s)?))).collect::<Result<_, String>>()?;
    Ok(ShardMap { name: config.name.clone(), key: config.key.clone(), function, pins })
}

fn shard_function(function: &MapFunction) -> Result<ShardFunction, String> {
    Ok(match function {
        MapFunction::Hash(placement) => {
            ShardFunction::Hash { placement: placement.iter().map(|s| shard_id(*s)).collect::<Result<_, _>>()? }
        }
        MapFunction::Range(parts) => {
            let part = |(from, to, shard): &(Option<Vec<_>>, Option<Vec<_>>, usize)| {
                Ok::<_, String>(RangePart { from: from.clone(), to: to.clone(), shard: shard_id(*shard)? })
            };
            ShardFunction::Range { parts: parts.iter().map(part).collect::<Result<_, _>>()? }
        }
        MapFunction::List { values, default } => ShardFunction::List {
            values: values.iter().map(|(v, s)| Ok((v.clone(), shard_id(*s)?))).collect::<Result<_, String>>()?,
            default: default.map(shard_id).transpose()?,
        },
        MapFunction::Groups { columns, first, groups } => ShardFunction::Groups {
            columns: *columns,
            first: Box::new(shard_function(first)?),
            groups: groups.iter().map(shard_function).collect::<Result<_, _>>()?,
        },
    })
}
