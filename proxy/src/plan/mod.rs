//! Statement + catalog → [`Plan`]: what to do for a statement, values unknown.
//!
//! A plan holds no values and no connections. It names literals by ordinal and parameters by number, so that one plan
//! serves every text that differs only in literals which the planner did not read.

use crate::catalog::Catalog;
use crate::catalog::MapId;
use crate::catalog::QualifiedName;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::value::Datum;
use crate::sql::Statement;
use crate::value::Oid;
use std::sync::Arc;

/// What the planner may know beside the statement.
pub struct Context<'a> {
    pub catalog: &'a Catalog,
    /// The session's search_path, resolved: existing schemas in order, `$user` replaced, pg_catalog only where named.
    pub search_path: &'a [String],
    /// Names of temporary tables that the session made (they live on its home shard connection and come first).
    pub temporary: &'a [String],
    /// Types of `$1`, `$2`, … as declared or inferred by a server; 0 or missing: unknown.
    pub param_types: &'a [Oid],
    pub standard_conforming_strings: bool,
    /// `SET shardway.shard = 's1'`: everything goes there, as it is.
    pub forced_shard: Option<ShardId>,
}

/// What to do for one statement.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The session does it: BEGIN, SET, PREPARE, LISTEN, … (see `sql::command`).
    Session,
    /// Rows are read or written: whole on one shard, or scattered.
    Rows(RowsPlan),
    /// The same text on several shards, one tag for the client: schema changes and maintenance.
    Everywhere(EverywherePlan),
    /// EXPLAIN of what may be scattered.
    Explain(ExplainPlan),
    /// Nobody knows this table: read the catalog again, then let the home shard say so.
    Unknown(UnknownNames),
    Refuse(Error),
}

#[derive(Clone, Debug)]
pub struct RowsPlan {
    pub target: Target,
    pub effect: Effect,
    /// What runs when the target is more than one shard, or why it cannot.
    pub scatter: Result<Arc<ScatterPlan>, Error>,
    /// After it the server connection may hold state that no server reports: keep it for the session.
    pub opaque: bool,
    /// `set_config` calls whose effect belongs to the session: (name, is_local); read the values back afterwards.
    pub set_config: Vec<SetConfig>,
    /// Session state that ties the session to the server connection it ran on, and why.
    pub pins: Option<PinReason>,
    /// COPY … FROM STDIN or TO STDOUT on one shard.
    pub copy: Option<CopyDirection>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    In,
    Out,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetConfig {
    pub name: String,
    pub local: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinReason {
    TemporaryTable,
    Listen,
    AdvisoryLock,
    HoldCursor,
    Opaque,
    SequenceState,
}

/// What a statement may do to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Read,
    /// SELECT … FOR UPDATE and the like.
    Lock,
    Write,
}

/// How the shards follow from values.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// Reference tables only: any shard, best one that the transaction holds already.
    Any,
    /// Constants and catalog queries.
    Home,
    /// A single table's shard.
    Shard(ShardId),
    /// Each condition bounds where the rows of one group of colocated tables are. The statement runs whole if all of
    /// them name the same one shard; several conditions that do not are not scattered.
    Keys(Vec<KeyCondition>),
    /// Written on every shard: reference tables.
    All,
}

/// What must hold for the key of every row that matters.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCondition {
    pub map: MapId,
    pub expr: KeyExpr,
}

/// A condition over the columns of a shard key; `column` is the position in the key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyExpr {
    /// Nothing is known: all shards of the map.
    True,
    /// No row can match.
    False,
    Equals { column: usize, value: Source },
    /// `= ANY(array)`, one array value.
    EqualsAny { column: usize, array: Source },
    IsNull { column: usize },
    /// The whole key of a row that an INSERT writes, one source for each key column; NULL is a value here.
    Row(Vec<Source>),
    /// `column op value`, op one of < <= > >=.
    Compare { column: usize, op: CompareOp, value: Source },
    And(Vec<KeyExpr>),
    Or(Vec<KeyExpr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Where a value comes from at run time.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The n-th literal of the text (see `sql::Normalized`), from 0. A minus sign before it is in `negative`.
    Literal { ordinal: usize, negative: bool },
    /// `$n`, from 1.
    Param(usize),
    Const(Datum),
}

/// What each shard runs, and how the rows become one answer.
#[derive(Clone, Debug)]
pub struct ScatterPlan {
    /// The text for the shards. Its parameters are the client's, with the same numbers.
    pub sql: String,
    /// Format of each column of the shards' rows.
    pub columns: Vec<ShardColumn>,
    pub merge: MergeSpec,
    /// LIMIT and OFFSET as the client wrote them; the text has been given their sum already.
    pub limit: Option<Count>,
    pub offset: Option<Count>,
}

/// A column of the rows that shards send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardColumn {
    /// The client's n-th column, in the format that the client asked for.
    Client(usize),
    /// Hidden: in binary format, for the merge.
    Hidden,
}

/// A row count in LIMIT or OFFSET; a NULL is no limit, or no offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Rows(u64),
    Param(usize),
}

/// How rows of several shards become one answer. All columns are positions in the shards' rows (from 0). The order of
/// the steps: group → distinct → order → offset and limit → output.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeSpec {
    /// What the client sees.
    pub output: Vec<Output>,
    /// Two-phase aggregation: rows whose key columns (hidden, binary) are equal become one; empty = one group that
    /// exists even when no shard sends a row (each shard sends one row then).
    pub group: Option<Vec<usize>>,
    /// Rows equal in these hidden columns are given once.
    pub distinct: Option<Vec<usize>>,
    /// The order of the answer. Without `group` each shard's rows come in this order already.
    pub order: Vec<SortKey>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// The bytes that a shard wrote, unchanged.
    Column(usize),
    Aggregate(Aggregate),
}

/// A final value made of partial ones. All partial columns are hidden (binary), except `value`, which is in the
/// client's format.
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregate {
    /// sum of bigint partial counts → bigint
    Count { partial: usize },
    /// sum; `partial` has sum's result type, or numeric/double for the narrower types as the plan casts it
    Sum { partial: usize },
    /// avg: partial sum and partial count; numeric by PostgreSQL's division, or double
    Avg { sum: usize, count: usize },
    /// min or max: `value` in the client's format, `sort` the same value in binary
    Min { value: usize, sort: usize },
    Max { value: usize, sort: usize },
    BoolAnd { partial: usize },
    BoolOr { partial: usize },
    BitAnd { partial: usize },
    BitOr { partial: usize },
}

#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    pub by: SortBy,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    /// A hidden column of the shards' rows.
    Column(usize),
    /// The value of an aggregate in `MergeSpec::output`.
    Output(usize),
}

#[derive(Clone, Debug)]
pub struct EverywherePlan {
    pub shards: OnShards,
    /// PostgreSQL refuses it inside a transaction block (VACUUM, CREATE INDEX CONCURRENTLY, …).
    pub outside_transaction: bool,
    /// The catalog must be read again afterwards.
    pub changes_schema: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnShards {
    All,
    Some(Vec<ShardId>),
}

#[derive(Clone, Debug)]
pub struct ExplainPlan {
    pub inner: RowsPlan,
    /// The inner plan as `Display` prints it, one line each.
    pub lines: Vec<String>,
    /// What is put before the shard query: `EXPLAIN (COSTS OFF) `.
    pub prefix: String,
    /// FORMAT TEXT: the only one that can be put below the proxy's own lines.
    pub text: bool,
}

#[derive(Clone, Debug)]
pub struct UnknownNames {
    pub names: Vec<QualifiedName>,
}
