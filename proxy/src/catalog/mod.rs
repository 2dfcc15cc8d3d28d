//! What we know of a database: an immutable snapshot with a version.
//!
//! A [`Catalog`] is made from the configuration (shards, shard maps, which table is what) and from what the shards'
//! `pg_catalog` says (columns, types, collations, constraints, functions, triggers). It is never changed: a refresh
//! makes a new one with a higher version.

pub mod build;
pub mod oids;
pub mod schema;
pub mod shard_map;

use crate::catalog::oids::ShardOids;
use crate::config::FunctionConfig;
use crate::value::Datum;
use crate::value::KeyType;
use crate::value::Oid;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A shard's place in the configuration's list, from 0. The first is the home and lead shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// A shard map's place in [`Catalog::maps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapId(pub u16);

/// Schema and name as stored in pg_catalog (folded, unquoted).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    pub schema: String,
    pub name: String,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

#[derive(Clone, Debug)]
pub struct Catalog {
    pub version: u64,
    pub database: String,
    /// Names of the shards; `ShardId` indexes them.
    pub shards: Vec<String>,
    pub maps: Vec<ShardMap>,
    pub relations: HashMap<QualifiedName, Arc<Relation>>,
    pub functions: Functions,
    /// What a new table is that the configuration does not list.
    pub unlisted: Unlisted,
    /// Tables with one of these columns are sharded by them, unless listed: column name → map.
    pub column_rules: BTreeMap<String, MapId>,
    /// Configured tables, whether they exist or not.
    pub listed: HashMap<QualifiedName, ListedTable>,
    /// The database's default collation.
    pub default_collation: Collation,
    /// Schemas that exist on the home shard.
    pub schemas: Vec<String>,
    /// Indexes → their tables.
    pub indexes: HashMap<QualifiedName, QualifiedName>,
    /// Tables and views of pg_catalog.
    pub system: HashSet<String>,
    /// By shard: how its numbers of types and tables differ from the home shard's; `None` for the home shard.
    pub oids: Vec<Option<Arc<ShardOids>>>,
    /// The home shard's numbers of users' types.
    pub user_types: HashSet<Oid>,
    /// Those that are defined otherwise on some shard.
    pub unequal_types: HashSet<Oid>,
    /// What is wrong with tables, one sentence each; such a table is refused when it is used.
    pub problems: Vec<String>,
}

impl Catalog {
    /// What is known while no shard has been read yet: nothing.
    pub fn empty(database: &str) -> Catalog {
        Catalog {
            version: 0,
            database: database.to_owned(),
            shards: Vec::new(),
            maps: Vec::new(),
            relations: HashMap::new(),
            functions: Functions::default(),
            unlisted: Unlisted::Refuse,
            column_rules: BTreeMap::new(),
            listed: HashMap::new(),
            default_collation: Collation::Linguistic,
            schemas: Vec::new(),
            indexes: HashMap::new(),
            system: HashSet::new(),
            oids: Vec::new(),
            user_types: HashSet::new(),
            unequal_types: HashSet::new(),
            problems: Vec::new(),
        }
    }

    /// The first shard of the configuration.
    pub const HOME: ShardId = ShardId(0);

    /// All shards, in order.
    pub fn all_shards(&self) -> Vec<ShardId> {
        (0..self.shards.len()).filter_map(|n| u16::try_from(n).ok().map(ShardId)).collect()
    }

    pub fn shard_name(&self, shard: ShardId) -> &str {
        self.shards.get(usize::from(shard.0)).map_or("?", String::as_str)
    }

    /// How a shard's numbers differ from the home shard's; `None` for the home shard.
    pub fn shard_oids(&self, shard: ShardId) -> Option<&Arc<ShardOids>> {
        self.oids.get(usize::from(shard.0))?.as_ref()
    }

    pub fn map(&self, map: MapId) -> Option<&ShardMap> {
        self.maps.get(usize::from(map.0))
    }

    pub fn relation(&self, schema: &str, name: &str) -> Option<&Arc<Relation>> {
        self.relations.get(&QualifiedName { schema: schema.to_owned(), name: name.to_owned() })
    }

    /// Whether any table is more than on one shard by configuration: without such tables nothing can be scattered.
    pub fn has_distributed_tables(&self) -> bool {
        self.relations.values().any(|r| matches!(r.placement, Placement::Sharded { .. } | Placement::Reference))
            || self.listed.values().any(|t| !matches!(t, ListedTable::Single(_)))
            || !self.column_rules.is_empty()
    }
}

/// What a table that the configuration does not list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    Single,
    Reference,
    Refuse,
}

/// A table as the configuration lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedTable {
    Sharded { map: MapId, key: Vec<String> },
    Reference,
    Single(ShardId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    Table,
    Partitioned,
    View,
    MaterializedView,
    ForeignTable,
    Sequence,
}

/// A table, view or sequence.
#[derive(Clone, Debug)]
pub struct Relation {
    pub name: QualifiedName,
    pub kind: RelationKind,
    pub placement: Placement,
    /// The shards that have it.
    pub found_on: Vec<ShardId>,
    pub columns: Vec<Column>,
    /// Column positions of each unique constraint or unique index without predicate or expression.
    pub unique: Vec<Vec<usize>>,
    /// For views: the query, as pg_get_viewdef gives it.
    pub definition: Option<String>,
    /// Why statements on this relation may do more than they say: user triggers, rules, row security policies.
    pub triggers: Vec<Trigger>,
    pub has_rules: bool,
    pub has_policies: bool,
    /// The parent, for a partition or an inheritance child.
    pub parent: Option<QualifiedName>,
    pub has_children: bool,
}

/// Where the rows of a relation live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// `key`: column positions, in the order of the map's key types.
    Sharded {
        map: MapId,
        key: Vec<usize>,
    },
    Reference,
    Single(ShardId),
    /// Found on these shards with rows of which nobody knows to which they belong: an error to use.
    Ambiguous(Vec<ShardId>),
    /// A view: where its rows are follows from what it reads.
    Derived,
    /// It must not be used, and why (a sentence without its subject): wrongly listed, or not listed where that is
    /// asked for.
    Refused(String),
    /// pg_catalog, information_schema.
    System,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// On the home shard.
    pub type_oid: Oid,
    /// As format_type gives it, with modifiers: `character varying(20)`.
    pub type_name: String,
    pub collation: Collation,
    /// `None`: the type has no collation, or its name is not known.
    pub collation_name: Option<QualifiedName>,
    pub not_null: bool,
    /// The default as pg_get_expr gives it.
    pub default: Option<String>,
    pub generated: bool,
    pub identity: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// The type has none.
    None,
    /// Compares as bytes: C, POSIX, C.UTF-8, ucs_basic.
    Bytes,
    /// Linguistic order, but equal only if the bytes are.
    Linguistic,
    /// Equality is not equality of bytes either.
    Nondeterministic,
}

#[derive(Clone, Debug)]
pub struct Trigger {
    pub name: String,
    pub function: QualifiedName,
    /// Internal triggers (foreign keys) are not listed; this is one that a user made.
    pub events: String,
}

/// Functions that users made, and the facts about built-in ones that the planner needs.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// User functions and procedures by name (any schema but pg_catalog).
    pub user: HashMap<String, Vec<UserFunction>>,
    /// Built-in functions by name.
    pub builtin: Arc<HashMap<String, BuiltinFunction>>,
    /// What the operator says that functions do.
    pub declared: Vec<FunctionConfig>,
    /// Operators that users made (those of extensions are not here).
    pub operators: HashSet<String>,
}

#[derive(Clone, Debug)]
pub struct UserFunction {
    pub name: QualifiedName,
    pub volatility: Volatility,
    /// `sql`, `plpgsql`, `c`, `internal`, …
    pub language: String,
    pub kind: FunctionKind,
    /// Owned by an extension.
    pub from_extension: bool,
    pub returns_set: bool,
}

/// What holds for any overload of this name in pg_catalog.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinFunction {
    /// The most volatile of the overloads.
    pub volatility: Volatility,
    pub is_aggregate: bool,
    pub is_window: bool,
    pub returns_set: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    Function,
    Procedure,
    Aggregate,
    Window,
}

/// Key types, a function from keys to places, and pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardMap {
    pub name: String,
    pub key: Vec<KeyType>,
    pub function: ShardFunction,
    /// Single keys that live where this says, whatever the function says.
    pub pins: HashMap<Vec<Datum>, ShardId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardFunction {
    /// `placement[bucket]`: the length is the number of buckets, a power of two.
    Hash { placement: Vec<ShardId> },
    /// Ordered, non-overlapping [from, to); `None` is unbounded. Holes are allowed: such a key lives nowhere.
    Range { parts: Vec<RangePart> },
    /// The first key columns' values → place; without a default other values live nowhere.
    List { values: HashMap<Vec<Datum>, ShardId>, default: Option<ShardId> },
    /// Two levels: `first`, over the first `columns` of the key, gives a position in `groups` where other functions
    /// give a shard; that group gives the shard by the other columns.
    Groups { columns: usize, first: Box<ShardFunction>, groups: Vec<ShardFunction> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangePart {
    pub from: Option<Vec<Datum>>,
    pub to: Option<Vec<Datum>>,
    pub shard: ShardId,
}
