//! What a statement does beside reading rows, as far as it decides where it can run.

use crate::catalog::MapId;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::plan::KeyCondition;
use crate::plan::PinReason;
use crate::plan::SetConfig;
use crate::plan::classes::Atom;
use crate::plan::writes::WritePlan;
use std::sync::Arc;

/// Gathered over the whole statement; names are of the first construct of each kind.
#[derive(Debug, Default)]
pub struct Facts {
    /// The first reason for which it cannot run on more than one shard, nor on one.
    pub error: Option<Error>,
    /// More table instances than are kept: what is known is not all.
    pub too_large: bool,
    pub unknown: Vec<QualifiedName>,
    /// A function or operator that may read or write anything.
    pub opaque: Option<String>,
    /// A function of that name is not known.
    pub unknown_function: Option<String>,
    pub time: Option<String>,
    /// Where its calls begin in the client's text, in bytes.
    pub time_calls: std::collections::BTreeSet<usize>,
    /// A call in a view, or one whose value is made of more than the time.
    pub time_elsewhere: bool,
    /// How many such calls there are.
    pub times: usize,
    pub server: Option<String>,
    pub volatile: Option<String>,
    /// The blocks in which volatile functions are called; `None` in FROM.
    pub volatile_blocks: Vec<Option<usize>>,
    pub system_column: Option<String>,
    /// A collation other than those that compare bytes.
    pub collation: Option<String>,
    /// An OID as a name: it differs between shards.
    pub object_name: Option<String>,
    pub set_config: Vec<SetConfig>,
    pub pins: Option<PinReason>,
    pub notifies: bool,
    /// A function that tells what the connection has drawn from sequences.
    pub reads_sequence: Option<String>,
    /// Shards of single tables, sequences and the like.
    pub needs: Vec<(ShardId, String)>,
    /// Conditions that declared functions bring.
    pub conditions: Vec<KeyCondition>,
    pub system: bool,
    pub reference: bool,
    pub temporary: bool,
    pub locks: bool,
    pub into: bool,
    pub tablesample: bool,
    /// A table with row security, or with rules.
    pub policies: Option<QualifiedName>,
    /// A CTE is used more than once.
    pub shared_cte: bool,
    /// A subquery holds an aggregate that belongs to the query around it.
    pub outer_aggregate: bool,
    /// Constructs of other databases, or such as are not known here.
    pub foreign: bool,
    /// It has an INSERT, UPDATE, DELETE or MERGE, be it of a temporary table.
    pub modifies: bool,
    pub writes: Vec<Write>,
    /// The statement is an INSERT of rows that are given: in pieces.
    pub insert: Option<WritePlan>,
    /// The statement is an INSERT … SELECT into a sharded table.
    pub selected: Option<Selected>,
    /// Every table that is read or written, for collations.
    pub relations: Vec<Arc<Relation>>,
    /// Ordinals of literals that were read.
    pub fixed: Vec<usize>,
}

/// A table that is written.
#[derive(Clone, Debug)]
pub struct Write {
    pub relation: Arc<Relation>,
    /// Rows that an INSERT writes: where they must live.
    pub rows: Option<KeyCondition>,
}

/// What an INSERT … SELECT writes.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The block and the scope of its query.
    pub block: usize,
    pub env: usize,
    pub relation: Arc<Relation>,
    pub map: MapId,
    /// The columns that are read for the key's columns, if all of them are columns.
    pub atoms: Option<Vec<Atom>>,
    /// Positions of the columns that are given, and of the key's.
    pub columns: Vec<usize>,
    pub key: Vec<usize>,
    /// A column that is left to a default whose value is not the same on all shards.
    pub varying: Option<String>,
    /// A column that is left out draws from a sequence, or is one of the key with a default.
    pub draws: bool,
}

impl Facts {
    pub fn refuse(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    pub fn need(&mut self, shard: ShardId, what: String) {
        if !self.needs.iter().any(|(s, _)| *s == shard) {
            self.needs.push((shard, what));
        }
    }
}
