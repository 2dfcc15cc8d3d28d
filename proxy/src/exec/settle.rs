//! Recovery of transactions over several shards: what is prepared and belongs to nobody is ended as its decision says,
//! at start, from time to time, and after a connection was lost in the middle of a commit.
//!
//! A shard on which something may be decided and is not committed yet is not used, so that nobody reads the past.

use crate::catalog::ShardId;
use crate::control::decision::CommitFacts;
use crate::control::decision::Outcome;
use crate::control::decision::Prepared;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::database::Database;
use crate::exec::gid;
use crate::limits;
use crate::telemetry;
use futures::future::join_all;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

/// What this proxy knows of its own commits, and of what it found on the shards.
#[derive(Debug)]
pub struct Settlement {
    shards: Mutex<Vec<ShardState>>,
    /// Shards that may not be used yet.
    unsettled: AtomicUsize,
    /// Keys of transactions that sessions of this process are committing.
    active: Mutex<HashSet<String>>,
    /// Decisions that nobody will ask for any more, by shard.
    finished: Mutex<Vec<(ShardId, String)>>,
    /// One pass over a shard at a time; when the last one ended.
    passes: Vec<tokio::sync::Mutex<Option<Instant>>>,
}

#[derive(Debug, Default)]
struct ShardState {
    facts: Option<CommitFacts>,
    /// It has been looked at since we started.
    looked: bool,
    /// What is prepared there and may be decided.
    doubts: HashSet<String>,
    /// What need not be left alone for a while.
    hurried: HashSet<String>,
}

impl ShardState {
    fn is_settled(&self) -> bool {
        self.looked && self.doubts.is_empty()
    }
}

/// As long as it lives, recovery leaves the transaction alone.
pub struct Active<'a> {
    settlement: &'a Settlement,
    key: String,
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        if let Ok(mut active) = self.settlement.active.lock() {
            active.remove(&self.key);
        }
    }
}

impl Settlement {
    /// A database of one shard has nothing to settle.
    pub fn new(shards: usize) -> Settlement {
        let state = || ShardState { looked: shards < 2, ..ShardState::default() };
        Settlement {
            shards: Mutex::new((0..shards).map(|_| state()).collect()),
            unsettled: AtomicUsize::new(if shards < 2 { 0 } else { shards }),
            active: Mutex::default(),
            finished: Mutex::default(),
            passes: (0..shards).map(|_| tokio::sync::Mutex::new(None)).collect(),
        }
    }

    /// Every shard may be used: what is so nearly always.
    pub fn is_settled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) == 0
    }

    /// This process commits it: recovery is to leave it alone.
    pub fn activate(&self, key: String) -> Active<'_> {
        if let Ok(mut active) = self.active.lock() {
            active.insert(key.clone());
        }
        Active { settlement: self, key }
    }

    fn is_active(&self, key: &str) -> bool {
        self.active.lock().is_ok_and(|active| active.contains(key))
    }

    /// It may be decided, and is not known to be committed on the shard, which is not used until that is so.
    pub fn doubt(&self, shard: ShardId, gid: String) {
        self.change(usize::from(shard.0), |state| {
            state.doubts.insert(gid.clone());
            state.hurried.insert(gid);
        });
    }

    /// It is rolled back, but may be prepared on the shard.
    pub fn hurry(&self, shard: ShardId, gid: String) {
        self.change(usize::from(shard.0), |state| _ = state.hurried.insert(gid));
    }

    /// What a shard can do is not known any more.
    pub fn forget_facts(&self, shard: ShardId) {
        self.change(usize::from(shard.0), |state| state.facts = None);
    }

    /// A transaction has ended everywhere.
    pub fn finish(&self, decision: ShardId, key: String) {
        if let Ok(mut finished) = self.finished.lock()
            && finished.len() < limits::FINISHED_DECISIONS
        {
            finished.push((decision, key));
        }
    }

    fn change(&self, shard: usize, change: impl FnOnce(&mut ShardState)) {
        let Ok(mut shards) = self.shards.lock() else { return };
        if let Some(state) = shards.get_mut(shard) {
            change(state);
        }
        let unsettled = shards.iter().filter(|state| !state.is_settled()).count();
        self.unsettled.store(unsettled, Ordering::Release);
    }

    fn state<T>(&self, shard: usize, read: impl FnOnce(&ShardState) -> T) -> Option<T> {
        self.shards.lock().ok()?.get(shard).map(read)
    }

    fn facts(&self, shard: usize) -> Option<CommitFacts> {
        self.state(shard, |state| state.facts.clone()).flatten()
    }
}

impl Database {
    pub fn shard_name(&self, shard: ShardId) -> &str {
        self.config.shards.get(usize::from(shard.0)).map_or("?", |s| s.name.as_str())
    }

    pub fn shard_position(&self, name: &str) -> Option<usize> {
        self.config.shards.iter().position(|s| s.name == name)
    }

    /// Whether a transaction may write on these shards, by two-phase commit; the installation's name.
    ///
    /// # Errors
    /// 55000 with the reason and what to do; 08006 where a shard cannot be asked.
    pub async fn may_commit_over(&self, shards: &[ShardId]) -> Result<String> {
        let mut installation = None;
        for &shard in shards {
            let at = usize::from(shard.0);
            let facts = match self.settlement.facts(at).filter(CommitFacts::can_commit) {
                Some(facts) => facts,
                None => self.look_at_facts(at).await?,
            };
            if let Some(error) = self.lacks(shard, &facts) {
                return Err(error);
            }
            installation = facts.installation;
        }
        installation.ok_or_else(|| Error::internal("a commit over no shards"))
    }

    /// What a shard lacks for a commit over several shards.
    pub fn lacks(&self, shard: ShardId, facts: &CommitFacts) -> Option<Error> {
        let name = self.shard_name(shard);
        if facts.max_prepared_transactions == 0 {
            let hint = format!(
                "Set max_prepared_transactions on shard {name} (to max_connections, say) and restart it; or choose \
                 commit = \"one_phase\" for the database, which cannot keep shards from differing after a crash."
            );
            return Some(
                Error::new(codes::NOT_IN_PREREQUISITE_STATE, "writes on several shards cannot be committed atomically")
                    .detail(format!("max_prepared_transactions is 0 on shard {name}."))
                    .hint(hint),
            );
        }
        if !facts.can_commit() {
            return Some(
                Error::new(codes::NOT_IN_PREREQUISITE_STATE, "writes on several shards cannot be committed atomically")
                    .detail(format!("The schema shardway on shard {name} has no table of decisions."))
                    .hint("Let the control login create it: GRANT CREATE ON DATABASE … TO …, on every shard."),
            );
        }
        None
    }

    /// Asks a shard, and makes what it lacks of ours.
    async fn look_at_facts(&self, shard: usize) -> Result<CommitFacts> {
        let mut facts = self.control().commit_facts(shard, &self.config.name).await?;
        if facts.installation.is_some() && !facts.has_decisions && self.config.shards.len() > 1 {
            if let Err(error) = self.control().make_decisions(shard).await {
                tracing::debug!(database = %self.config.name, %error, "table of decisions not made");
            }
            facts = self.control().commit_facts(shard, &self.config.name).await?;
        }
        self.settlement.change(shard, |state| state.facts = Some(facts.clone()));
        Ok(facts)
    }

    /// A shard may be used when nothing that may be decided is still prepared there.
    ///
    /// # Errors
    /// 08006 while it may not.
    pub async fn admit_settled(&self, shard: ShardId) -> Result<()> {
        let at = usize::from(shard.0);
        let is_settled = || self.settlement.state(at, ShardState::is_settled).unwrap_or(false);
        if self.settlement.is_settled() || is_settled() {
            return Ok(());
        }
        let Some(pass) = self.settlement.passes.get(at) else { return Err(Error::internal("no such shard")) };
        let mut pass = pass.lock().await;
        if is_settled() {
            return Ok(());
        }
        let recent = pass.is_some_and(|ended| ended.elapsed() < limits::BREAKER_PAUSE);
        if !recent {
            let settled = Box::pin(self.settle(at)).await;
            *pass = Some(Instant::now());
            settled?;
        }
        if is_settled() {
            return Ok(());
        }
        let message =
            format!("a transaction that may have committed is not complete on shard {}", self.shard_name(shard));
        Err(Error::new(codes::CONNECTION_FAILURE, message).hint("Statements that do not need this shard go on."))
    }

    /// A pass over every shard, and over the decisions that nobody needs any more. Shards that are away are looked at
    /// later.
    pub async fn settle_all(&self) {
        if self.config.shards.len() < 2 {
            return;
        }
        let one = async |shard: usize| {
            let Some(pass) = self.settlement.passes.get(shard) else { return };
            let mut pass = pass.lock().await;
            if let Err(error) = self.settle(shard).await {
                let name = self.config.shards.get(shard).map_or("?", |s| s.name.as_str());
                tracing::debug!(database = %self.config.name, shard = name, %error, "prepared transactions not read");
            }
            *pass = Some(Instant::now());
        };
        join_all((0..self.config.shards.len()).map(one)).await;
    }

    /// Ends what is prepared on one shard and belongs to nobody.
    async fn settle(&self, shard: usize) -> Result<()> {
        let facts = self.look_at_facts(shard).await?;
        let (first, before, hurried) = self
            .settlement
            .state(shard, |state| (!state.looked, state.doubts.clone(), state.hurried.clone()))
            .unwrap_or_default();
        let Some(installation) = facts.installation else {
            self.settlement.change(shard, |state| state.looked = true);
            return Ok(());
        };
        let prepared = self.control().prepared(shard, Some(&installation)).await?;
        self.measure(shard, &prepared);
        let mut left = HashSet::new();
        for one in &prepared {
            let soon = first || hurried.contains(&one.gid);
            if (soon || one.age > limits::PREPARED_REST.as_secs_f64()) && self.end_prepared(shard, one).await {
                left.insert(one.gid.clone());
            }
        }
        let listed: HashSet<&String> = prepared.iter().map(|one| &one.gid).collect();
        self.settlement.change(shard, |state| {
            state.looked = true;
            state.doubts.retain(|gid| !before.contains(gid));
            // A PREPARE that was lost on its way may still arrive: it is found by its age then.
            state.hurried.retain(|gid| !hurried.contains(gid) || listed.contains(gid));
            state.doubts.extend(left);
        });
        Ok(())
    }

    /// True when it may be decided and is not ended.
    async fn end_prepared(&self, shard: usize, prepared: &Prepared) -> bool {
        let Some(name) = gid::parse(&prepared.gid) else { return false };
        if self.settlement.is_active(&name.key) {
            return self.settlement.state(shard, |state| state.doubts.contains(&prepared.gid)).unwrap_or(true)
                && !self.ended_as_decided(shard, prepared, &name).await;
        }
        !self.ended_as_decided(shard, prepared, &name).await
    }

    /// True when it is ended, or certainly not decided yet.
    async fn ended_as_decided(&self, shard: usize, prepared: &Prepared, name: &gid::PreparedName) -> bool {
        let Some(decider) = self.shard_position(&name.decision_shard) else {
            tracing::error!(gid = prepared.gid, "a prepared transaction whose decision shard is not configured");
            return false;
        };
        let outcome = match self.control().compete(decider, &name.key).await {
            Ok(outcome) => outcome,
            // Its coordinator is at work.
            Err(error) if error.code == codes::LOCK_NOT_AVAILABLE => return true,
            Err(error) => {
                tracing::warn!(gid = prepared.gid, %error, "the decision on a prepared transaction cannot be asked");
                return false;
            }
        };
        if let Err(error) = self.control().resolve(shard, prepared, outcome).await {
            tracing::error!(gid = prepared.gid, ?outcome, %error, "a prepared transaction cannot be ended");
            return outcome == Outcome::Abort;
        }
        tracing::info!(gid = prepared.gid, ?outcome, "ended a prepared transaction");
        let word = if outcome == Outcome::Commit { "commit" } else { "abort" };
        metrics::counter!(telemetry::RECOVERED_TOTAL, "outcome" => word).increment(1);
        true
    }

    fn measure(&self, shard: usize, prepared: &[Prepared]) {
        let name = self.config.shards.get(shard).map(|s| s.name.clone()).unwrap_or_default();
        let labels = [("database", self.config.name.clone()), ("shard", name)];
        metrics::gauge!(telemetry::PREPARED, &labels).set(prepared.len() as f64);
        let oldest = prepared.iter().map(|one| one.age).fold(0.0, f64::max);
        metrics::gauge!(telemetry::PREPARED_OLDEST_SECONDS, &labels).set(oldest);
    }

    /// What a decision was whose COMMIT was lost on the way; `None` when nobody can tell within bounds.
    pub async fn ask_decision(&self, shard: ShardId, key: &str, sent: Instant) -> Option<Outcome> {
        let asked = Instant::now();
        while asked.elapsed() < limits::DECISION_PATIENCE {
            // Decisions are taken off the record only a while after they were settled.
            if sent.elapsed() > Duration::from_secs(300) {
                return None;
            }
            if let Ok(outcome) = self.control().compete(usize::from(shard.0), key).await {
                return Some(outcome);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        None
    }

    /// Takes decisions off the record whose transactions this process has ended everywhere.
    pub async fn forget_finished(&self) {
        let finished = match self.settlement.finished.lock() {
            Ok(mut finished) => std::mem::take(&mut *finished),
            Err(_) => return,
        };
        let mut by_shard: HashMap<ShardId, Vec<String>> = HashMap::new();
        for (shard, key) in finished {
            by_shard.entry(shard).or_default().push(key);
        }
        for (shard, keys) in by_shard {
            for some in keys.chunks(1000) {
                // Those that stay are swept.
                if let Err(error) = self.control().forget_decisions(usize::from(shard.0), some).await {
                    tracing::debug!(%error, "decisions stay on record");
                }
            }
        }
    }

    /// Takes decisions off the record that nothing is prepared for any more on any shard. Decisions are read before the
    /// shards are asked: everything was prepared before it was decided.
    ///
    /// # Errors
    /// A shard that cannot be asked: nothing is taken off then.
    pub async fn sweep(&self) -> Result<()> {
        let Some(installation) = self.settlement.facts(0).and_then(|facts| facts.installation) else { return Ok(()) };
        if self.config.shards.len() < 2 {
            return Ok(());
        }
        let mut keys = Vec::new();
        for shard in 0..self.config.shards.len() {
            keys.push(self.control().sweep_decisions(shard, &installation).await?);
        }
        let mut prepared = HashSet::new();
        for shard in 0..self.config.shards.len() {
            let list = self.control().prepared(shard, Some(&installation)).await?;
            prepared.extend(list.iter().filter_map(|one| gid::parse(&one.gid)).map(|name| name.key));
        }
        for (shard, mut keys) in keys.into_iter().enumerate() {
            keys.retain(|key| !prepared.contains(key) && !self.settlement.is_active(key));
            for some in keys.chunks(1000) {
                self.control().settle_decisions(shard, some).await?;
            }
        }
        Ok(())
    }
}

impl CommitFacts {
    /// Nothing is lacking.
    pub fn can_commit(&self) -> bool {
        self.max_prepared_transactions > 0 && self.has_decisions && self.installation.is_some()
    }
}
