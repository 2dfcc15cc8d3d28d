//! Statement + catalog → [`Plan`]: what to do for a statement, values unknown.
//!
//! A plan holds no values and no connections. It names literals by ordinal and parameters by number, so that one plan
//! serves every text that differs only in literals which the planner did not read.

mod analyse;
mod classes;
pub mod clocked;
mod copy;
mod copy_options;
mod display;
mod explain;
pub mod finish;
mod functions;
pub mod moment;
mod names;
mod only;
mod predicates;
mod reference;
mod rows;
mod scatter;
mod schema;
mod source;
mod template;
mod words;
pub mod writes;

pub use template::Piece;
pub use template::Template;

use crate::catalog::Catalog;
use crate::catalog::MapId;
use crate::catalog::QualifiedName;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::value::Datum;
use crate::value::KeyType;
use crate::value::Oid;
use crate::wire::copy::Shape;
use std::sync::Arc;
use writes::WritePlan;

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
    /// It cannot be read here: Parse it on the home shard. PostgreSQL's error is the answer; what it accepts is refused
    /// with this one.
    AskFirst(Error),
    Refuse(Error),
}

#[derive(Clone, Debug)]
pub struct RowsPlan {
    pub target: Target,
    pub effect: Effect,
    /// What runs when the target is more than one shard, or why it cannot.
    pub scatter: Result<Arc<ScatterPlan>, Error>,
    /// A write that is not forwarded as it stands, on one shard or several.
    pub writes: Option<Arc<WritePlan>>,
    /// After it the server connection may hold state that no server reports: keep it for the session.
    pub opaque: bool,
    /// `set_config` calls whose effect belongs to the session: (name, is_local); read the values back afterwards.
    pub set_config: Vec<SetConfig>,
    /// It reads what SQL's PREPARE has prepared: on the connection that runs it these statements must be.
    pub names_prepared: bool,
    /// Session state that ties the session to the server connection it ran on, and why.
    pub pins: Option<PinReason>,
    /// It calls pg_notify.
    pub notifies: bool,
    /// Whether it tells the time of the transaction.
    pub time: TellsTime,
    /// currval or lastval: the answer depends on what the session has drawn on this connection.
    pub reads_sequence: Option<String>,
    /// COPY … FROM STDIN or TO STDOUT on one shard.
    pub copy: Option<CopyDirection>,
    /// COPY when the target is more than one shard.
    pub copies: Option<Arc<CopyPlan>>,
    /// What the data of a COPY in binary format are, on a database of several shards.
    pub binary_copy: Option<Arc<BinaryCopy>>,
    /// A write to reference tables: how it has the same effect on every shard.
    pub everyone: Option<Arc<EveryonePlan>>,
    /// Ordinals of the literals whose values this plan was made for: it serves another text of the same normalised
    /// form only if these are the same there.
    pub fixed: Vec<usize>,
    /// The statement changes the schema (SELECT INTO, CREATE TEMP TABLE AS): read the catalog again afterwards. With
    /// `temporary`, these temporary tables exist afterwards.
    pub makes: Makes,
}

/// The data of a COPY in binary format.
#[derive(Clone, Debug)]
pub enum BinaryCopy {
    /// Of a table: the types of the columns, by the home shard's numbers.
    Table(Vec<Oid>),
    /// The rows of this query.
    Query(String),
}

/// COPY over several shards.
#[derive(Clone, Debug)]
pub enum CopyPlan {
    /// Each row to the shard of its key.
    Split(CopySplit),
    /// The same data to every shard; writers of the table wait for each other.
    Everyone { table: QualifiedName },
    /// The rows of one shard after those of another.
    Out { shape: Shape },
}

/// Where the rows of COPY … FROM STDIN go.
#[derive(Clone, Debug)]
pub struct CopySplit {
    pub table: String,
    pub map: MapId,
    /// Of the table's key columns.
    pub types: Vec<KeyType>,
    pub keys: Vec<CopyKey>,
    /// How many fields a row has to have, at least.
    pub fields: usize,
    pub shape: Shape,
    pub encoding: Option<String>,
}

/// Where the value of a key column is in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyKey {
    pub name: String,
    /// The field, from 0; `None`: it is NULL in every row.
    pub field: Option<usize>,
    /// `character varying(n)`
    pub length: Option<usize>,
    pub force_null: bool,
    pub force_not_null: bool,
}

/// A write to reference tables.
#[derive(Clone, Debug)]
pub struct EveryonePlan {
    /// The reference tables that are read or written: their writers wait for each other, in this order.
    pub locks: Vec<QualifiedName>,
    /// What may differ between shards: the lead shard computes, and the images of its rows are applied elsewhere. Else
    /// the same text runs on every shard.
    pub varies: Option<String>,
    /// How images are taken and applied, or why they cannot be.
    pub images: Result<Arc<ImagesPlan>, Error>,
}

/// The lead shard's text returns hidden columns behind those of the client; each row of them is applied elsewhere.
#[derive(Clone, Debug)]
pub struct ImagesPlan {
    /// The client's text up to the end of this token, then `returning`.
    pub last: usize,
    pub returning: String,
    /// Of each hidden column: whether its values travel in binary format.
    pub binary: Vec<bool>,
    /// Applies one row: `$n` is the n-th hidden column.
    pub apply: String,
}

/// How a statement tells the time of the transaction: now() and its kin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TellsTime {
    #[default]
    No,
    /// By calls in its own text.
    Plainly,
    /// In a view, or together with something else.
    Hidden,
}

/// What exists after a statement that did not exist before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Makes {
    pub changes_schema: bool,
    /// Names of temporary tables that the session has afterwards.
    pub temporary: Vec<String>,
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
    /// Each condition bounds where the rows of one table are that matter. The statement runs whole if all of them, and
    /// `also` (the shards of single tables and the like that it reads), name one shard. Else it is scattered over the
    /// shards of the first condition, if it can be.
    Keys { conditions: Vec<KeyCondition>, also: Vec<ShardId> },
    /// Written on every shard: reference tables.
    All,
}

/// What must hold for the key of every row that matters.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCondition {
    pub map: MapId,
    /// Of the table's key columns.
    pub types: Vec<KeyType>,
    /// The key columns as the statement calls them (`orders.tenant_id`), for messages and the printed plan.
    pub names: Vec<String>,
    /// Of rows that are written: how many characters a column of type varchar holds; empty for conditions.
    pub widths: Vec<Option<u32>>,
    pub expr: KeyExpr,
    /// Of each key column of a table that rows are written to, whether it is NOT NULL; else empty.
    pub not_null: Vec<bool>,
}

/// A condition over the columns of a shard key; `column` is the position in the key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyExpr {
    /// Nothing is known: all shards of the map.
    True,
    /// No row can match.
    False,
    Equals {
        column: usize,
        value: Source,
    },
    /// `= ANY(array)`, one array value.
    EqualsAny {
        column: usize,
        array: Source,
    },
    IsNull {
        column: usize,
    },
    /// The whole key of a row that an INSERT writes, one source for each key column; NULL is a value here.
    Row(Vec<Source>),
    /// `column op value`, op one of < <= > >=.
    Compare {
        column: usize,
        op: CompareOp,
        value: Source,
    },
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
    Literal {
        ordinal: usize,
        negative: bool,
    },
    /// `$n`, from 1.
    Param(usize),
    Const(Datum),
    /// The n-th value that is drawn before the rows are written (see [`writes::WritePlan`]), from 0.
    Drawn(usize),
}

/// What each shard runs, and how the rows become one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterPlan {
    /// The text for the shards. Its parameters are the client's, with the same numbers.
    pub sql: Template,
    pub layout: Layout,
    /// LIMIT and OFFSET as the client wrote them; the text has been given their sum already, or none of them.
    pub limit: Option<Count>,
    pub offset: Option<Count>,
    /// The texts have two parameters more: the time of the transaction, and of the statement.
    pub moment: Option<moment::Moment>,
    /// What runs instead where the merge does not take the types of the shards' columns: by a final statement.
    pub otherwise: Option<Arc<ScatterPlan>>,
    /// Shards are asked one after the other, each for the rows that are still missing: its text has that number as its
    /// last parameter. So LIMIT locks no more rows than it gives.
    pub in_turn: bool,
}

/// The columns of the shards' rows, and what the merge does with them.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// The client's columns (as many as the statement itself has: `*` is not expanded here), then, if `copies`, all of
    /// them once more, hidden, then `extra` more hidden ones.
    Rows { copies: bool, extra: usize, distinct: bool, order: Vec<RowSortKey> },
    /// A second aggregation: every column is known.
    Grouped { columns: Vec<ShardColumn>, merge: MergeSpec },
    /// The rows go to one server, whose statement gives the answer: LIMIT and OFFSET are in it.
    Final(finish::FinalPlan),
}

#[derive(Clone, Debug, PartialEq)]
pub struct RowSortKey {
    pub by: HiddenColumn,
    pub descending: bool,
    pub nulls_first: bool,
}

/// A hidden column of [`Layout::Rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenColumn {
    /// The copy of the client's n-th column, from 0.
    Copy(usize),
    /// The n-th of the extra ones, from 0.
    Extra(usize),
}

impl ScatterPlan {
    /// The shards' columns and the merge with absolute positions, once it is known how many columns the statement
    /// itself has (from its RowDescription).
    pub fn resolve(&self, client_columns: usize) -> (Vec<ShardColumn>, MergeSpec) {
        let (copies, extra, distinct, order) = match &self.layout {
            Layout::Grouped { columns, merge } => return (columns.clone(), merge.clone()),
            Layout::Final(plan) => {
                let merge = MergeSpec { output: Vec::new(), group: None, distinct: None, order: Vec::new() };
                return (vec![ShardColumn::Hidden; plan.columns.len()], merge);
            }
            Layout::Rows { copies, extra, distinct, order } => (*copies, *extra, *distinct, order),
        };
        let hidden = if copies { client_columns } else { 0 } + extra;
        let mut columns: Vec<ShardColumn> = (0..client_columns).map(ShardColumn::Client).collect();
        columns.extend(std::iter::repeat_n(ShardColumn::Hidden, hidden));
        let position = |by| match by {
            HiddenColumn::Copy(n) => client_columns + n,
            HiddenColumn::Extra(n) => client_columns + if copies { client_columns } else { 0 } + n,
        };
        let order = order.iter().map(|key| SortKey {
            by: SortBy::Column(position(key.by)),
            descending: key.descending,
            nulls_first: key.nulls_first,
        });
        let merge = MergeSpec {
            output: (0..client_columns).map(Output::Column).collect(),
            group: None,
            distinct: distinct.then(|| (0..client_columns).map(|n| client_columns + n).collect()),
            order: order.collect(),
        };
        (columns, merge)
    }
}

/// A column of the rows that shards send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardColumn {
    /// The client's n-th column, in the format that the client asked for.
    Client(usize),
    /// Hidden: in binary format, for the merge.
    Hidden,
}

/// A row count in LIMIT or OFFSET; a NULL parameter is no limit, or no offset. Negative ones are errors (2201W, 2201X).
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
    Count {
        partial: usize,
    },
    /// sum; `partial` has sum's result type, or numeric/double for the narrower types as the plan casts it
    Sum {
        partial: usize,
    },
    /// avg: partial sum and partial count; numeric by PostgreSQL's division, or double
    Avg {
        sum: usize,
        count: usize,
    },
    /// min or max: `value` in the client's format, `sort` the same value in binary
    Min {
        value: usize,
        sort: usize,
    },
    Max {
        value: usize,
        sort: usize,
    },
    BoolAnd {
        partial: usize,
    },
    BoolOr {
        partial: usize,
    },
    BitAnd {
        partial: usize,
    },
    BitOr {
        partial: usize,
    },
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

/// The setting, of a transaction, that the branches of a DO block write to.
pub const MARKS: &str = "shardway.branches";

#[derive(Clone, Debug)]
pub struct EverywherePlan {
    pub shards: OnShards,
    /// PostgreSQL refuses it inside a transaction block (VACUUM, CREATE INDEX CONCURRENTLY, …).
    pub outside_transaction: bool,
    /// What it does to rows: LOCK TABLE locks, TRUNCATE writes, ANALYZE reads.
    pub effect: Effect,
    /// The catalog must be read again afterwards.
    pub changes_schema: bool,
    /// Sharded tables that are made: the bigint sequences of their columns must not give on one shard what they give on
    /// another.
    pub numbers: Vec<QualifiedName>,
    /// A table whose rows are given a new column with the time of the transaction: it must be the same on all shards.
    pub stamped: Option<QualifiedName>,
    /// The text for each shard, where they have not all of the things that it names; else empty.
    pub texts: Vec<(ShardId, String)>,
    /// It is about roles, which belong to a server: shards that are databases of one server share them.
    pub of_server: bool,
    /// A DO block whose branches leave marks, to run in place of the client's text: all shards must have gone the same
    /// way.
    pub marked: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnShards {
    All,
    Some(Vec<ShardId>),
}

#[derive(Clone, Debug)]
pub struct ExplainPlan {
    pub inner: RowsPlan,
    /// Where the explained statement starts in the client's text, in bytes: the inner plan's literals and tokens are
    /// those of the text from there on.
    pub body: usize,
    /// It is also run.
    pub analyze: bool,
    /// The inner plan as `Display` prints it, one line each.
    pub lines: Vec<String>,
    /// What is put before the shard query: `EXPLAIN (COSTS OFF) `.
    pub prefix: String,
    /// FORMAT TEXT: the only one that can be put below the proxy's own lines.
    pub text: bool,
}

/// Relations that the catalog does not have.
#[derive(Clone, Debug)]
pub struct UnknownNames {
    pub names: Vec<QualifiedName>,
}

/// Decides what to do for a statement.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let plan = plan_command(statement, context);
    if context.catalog.shards.len() > 1 { plan } else { only::plan(statement, plan) }
}

fn plan_command(statement: &Statement, context: &Context<'_>) -> Plan {
    match &statement.command {
        Command::Explain => explain::plan(statement, context),
        Command::Copy => copy::plan(statement, context),
        Command::Select | Command::Insert | Command::Update | Command::Delete | Command::Merge => {
            rows::plan(statement, context)
        }
        Command::Do => rows::plan_block(statement, context),
        Command::Call => rows::plan_opaque(statement, context),
        Command::Lock | Command::Maintenance | Command::Truncate | Command::Schema => schema::plan(statement, context),
        Command::Checkpoint => Plan::Rows(RowsPlan::at(Target::Home, Effect::Read)),
        Command::Other => words::plan(statement, context),
        Command::Empty
        | Command::Begin(_)
        | Command::Commit { .. }
        | Command::Rollback { .. }
        | Command::Savepoint(_)
        | Command::Release(_)
        | Command::RollbackTo(_)
        | Command::PrepareTransaction
        | Command::CommitPrepared
        | Command::RollbackPrepared
        | Command::SetTransaction(_)
        | Command::SetCharacteristics(_)
        | Command::Set { .. }
        | Command::Reset(_)
        | Command::ResetAll
        | Command::Show(_)
        | Command::Discard { .. }
        | Command::Prepare { .. }
        | Command::Execute { .. }
        | Command::Deallocate(_)
        | Command::Declare { .. }
        | Command::Fetch { .. }
        | Command::Move { .. }
        | Command::CloseCursor(_)
        | Command::Listen(_)
        | Command::Unlisten(_)
        | Command::Notify(_)
        | Command::SetConstraints => Plan::Session,
    }
}

impl RowsPlan {
    /// Why it cannot be on several shards, if so.
    pub fn refused_over_several(&self) -> Option<&Error> {
        match &self.writes {
            Some(writes) => writes.several.as_ref().err(),
            None => self.scatter.as_ref().err(),
        }
    }

    /// Whole, at one place, with nothing to remember.
    pub fn at(target: Target, effect: Effect) -> RowsPlan {
        RowsPlan {
            target,
            effect,
            scatter: Err(Error::unsupported("a statement over several shards")),
            writes: None,
            opaque: false,
            set_config: Vec::new(),
            names_prepared: false,
            pins: None,
            notifies: false,
            time: TellsTime::No,
            reads_sequence: None,
            copy: None,
            copies: None,
            binary_copy: None,
            everyone: None,
            fixed: Vec::new(),
            makes: Makes::default(),
        }
    }
}
