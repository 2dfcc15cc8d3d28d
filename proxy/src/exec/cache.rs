//! Plans kept by normalised text, bounded by bytes and entries.

use crate::exec::finish::FinalStatement;
use crate::limits;
use crate::plan::Plan;
use crate::sql::command::Command;
use crate::sql::normalize::Literal;
use crate::value::Oid;
use crate::wire::backend::Field;
use lru::LruCache;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// A planned statement, with what servers have told about it.
#[derive(Debug)]
pub struct Planned {
    /// The text that was planned. A plan whose literals were not read serves other texts of the same form too.
    pub text: Arc<str>,
    pub command: Command,
    pub plan: Plan,
    /// The statement's number: its name on servers.
    pub number: u64,
    /// The number of the shard text of a scattered statement.
    pub scatter_number: u64,
    /// Parameter types and row description of the client's text, as a server gave them.
    pub description: OnceLock<Arc<Description>>,
    /// Column types of the shard text.
    pub shard_types: OnceLock<Arc<Vec<Oid>>>,
    /// The statement of the final phase.
    pub final_statement: OnceLock<Arc<FinalStatement>>,
    /// The same statement by the other plan of its scatter (`ScatterPlan::otherwise`).
    pub otherwise: Option<Box<Planned>>,
    /// The plan holds for every text with the same normalised form, as long as these literals are the same.
    pub template: bool,
    pub fixed: Vec<(usize, String)>,
    /// The literals of `text`, where a route may need them, and whether backslashes were plain when they were cut out.
    pub literals: Vec<Literal>,
    /// It may ask what the session listens on.
    pub shows_channels: bool,
    pub conforming_strings: bool,
    /// The text for the shards of a scattered statement, with this text's literals in it.
    pub shard_text: Option<String>,
    /// Types of parameters that the client declared: what servers are told.
    pub declared: Vec<Oid>,
    /// Types of parameters that the planner was told: declared, or as a server has inferred them.
    pub types: Vec<Oid>,
}

#[derive(Clone, Debug, Default)]
pub struct Description {
    pub params: Vec<Oid>,
    /// `None`: the statement gives no rows.
    pub fields: Option<Vec<Field>>,
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number that no other statement of this process has.
pub fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug)]
pub struct PlanCache {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    plans: LruCache<Box<[u8]>, Arc<Planned>>,
    bytes: usize,
}

/// What an entry costs beside its key and text: the plan's own parts, roughly.
const ENTRY_BYTES: usize = 1_024;

impl Default for PlanCache {
    fn default() -> Self {
        PlanCache { inner: Mutex::new(Inner { plans: LruCache::unbounded(), bytes: 0 }) }
    }
}

impl PlanCache {
    pub fn get(&self, key: &[u8]) -> Option<Arc<Planned>> {
        self.inner.lock().ok()?.plans.get(key).map(Arc::clone)
    }

    pub fn put(&self, key: &[u8], planned: &Arc<Planned>) {
        let Ok(mut inner) = self.inner.lock() else { return };
        // A plan that cuts the text in pieces is larger than the text.
        let parts = |p: &Planned| matches!(&p.plan, Plan::Rows(rows) if rows.writes.is_some());
        let factor = |p: &Planned| if parts(p) { 16 } else { 2 };
        let cost = |key: &[u8], p: &Planned| key.len() + factor(p) * p.text.len() + ENTRY_BYTES;
        inner.bytes += cost(key, planned);
        if let Some(old) = inner.plans.put(key.into(), Arc::clone(planned)) {
            inner.bytes -= cost(key, &old);
        }
        while inner.bytes > limits::PLAN_CACHE_BYTES || inner.plans.len() > limits::PLAN_CACHE_ENTRIES {
            let Some((key, old)) = inner.plans.pop_lru() else { break };
            inner.bytes -= cost(&key, &old);
        }
    }
}
