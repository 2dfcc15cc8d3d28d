//! The end of a transaction over several shards: committed everywhere or nowhere.
//!
//! ```text
//! who has written?  ─ at most one ─▶ its COMMIT, then the others'
//!        │ several
//!        ▼
//! decide (a row in the decision shard's own transaction) ─▶ PREPARE TRANSACTION on the others
//!        ─▶ COMMIT of the decision shard: this is the decision ─▶ COMMIT PREPARED on the others ─▶ readers' COMMIT
//! ```
//!
//! Before the decision everything can be rolled back; after it nothing can. What is lost in between is put right by
//! recovery (`settle`), which finds the decision by the name of what is still prepared.

use crate::catalog::ShardId;
use crate::config::CommitMode;
use crate::control::decision::Outcome;
use crate::control::decision::Prepared;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::backends::Backends;
use crate::exec::backends::Held;
use crate::exec::backends::run_on;
use crate::exec::database::Database;
use crate::exec::gid::TransactionName;
use crate::limits;
use crate::plan::PinReason;
use crate::pool::Answer;
use crate::telemetry;
use crate::wire::Status;
use crate::wire::backend;
use crate::wire::frontend;
use futures::future::join_all;
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Instant;
use tokio::time::timeout;

/// Null as long as the transaction has written and locked nothing.
const HAS_WRITTEN: &str = "SELECT pg_catalog.pg_current_xact_id_if_assigned()";

/// COMMIT PREPARED is tried again where the server says no: a cancel or a time-out of the client's must not stop it.
const ATTEMPTS: usize = 3;

static ONE: LazyLock<[metrics::Counter; 2]> = LazyLock::new(|| {
    let counter =
        |outcome: &'static str| metrics::counter!(telemetry::COMMITS_TOTAL, "kind" => "one", "outcome" => outcome);
    [counter("commit"), counter("abort")]
});

fn count(kind: &'static str, outcome: &'static str) {
    metrics::counter!(telemetry::COMMITS_TOTAL, "kind" => kind, "outcome" => outcome).increment(1);
}

/// A commit over several shards before its decision.
struct TwoPhase {
    name: TransactionName,
    decision: ShardId,
    others: Vec<ShardId>,
}

impl Backends {
    /// Ends the transaction on every participant; true when it has committed.
    ///
    /// # Errors
    /// What kept it from committing, after a rollback everywhere; 08007 when a connection was lost and nobody can tell.
    pub async fn end(&mut self, commit: bool) -> Result<bool> {
        self.held.sort_by_key(|h| h.shard);
        let participants = self.joined();
        let ended = match participants.as_slice() {
            [] => Ok(commit),
            _ if !commit => {
                self.roll_back(&participants).await;
                Ok(false)
            }
            [only] => self.commit_first(Some(*only), &[]).await,
            _ => self.commit_several(&participants).await,
        };
        self.held.iter_mut().for_each(|h| h.joined = false);
        ended
    }

    fn joined(&self) -> Vec<ShardId> {
        self.held.iter().filter(|h| h.joined).map(|h| h.shard).collect()
    }

    async fn commit_several(&mut self, participants: &[ShardId]) -> Result<bool> {
        // What follows is no part of a pipeline: in a block Sync ends nothing.
        join_all(self.held.iter_mut().filter(|h| h.joined && h.unsynced).map(leave_pipeline)).await;
        let writers = match self.writers(participants).await {
            Ok(writers) => writers,
            Err(error) => {
                self.roll_back(participants).await;
                return Err(error);
            }
        };
        let others = |writers: &[ShardId]| participants.iter().copied().filter(|s| !writers.contains(s)).collect();
        let readers: Vec<ShardId> = others(&writers);
        match writers.as_slice() {
            [] | [_] => self.commit_first(writers.first().copied(), &readers).await,
            _ if self.database.config.commit == CommitMode::OnePhase => {
                self.commit_one_after_the_other(&writers, &readers).await
            }
            _ => {
                let begun = match self.choose(&writers) {
                    Ok((decision, others)) => self.name(decision, others).await,
                    Err(error) => Err(error),
                };
                match begun {
                    Ok(two) => self.two_phase(two, &readers).await,
                    Err(error) => {
                        self.roll_back(participants).await;
                        Err(error)
                    }
                }
            }
        }
    }

    /// The participants whose COMMIT matters: asked only where more than one may have written.
    async fn writers(&mut self, participants: &[ShardId]) -> Result<Vec<ShardId>> {
        let transaction = &self.transaction;
        let noted = |shard: &ShardId| transaction.writers.contains(shard) || transaction.bound.contains(shard);
        let candidates: Vec<ShardId> = participants.iter().copied().filter(noted).collect();
        if candidates.len() < 2 {
            return Ok(candidates);
        }
        let (mut writers, asked): (Vec<ShardId>, Vec<ShardId>) =
            candidates.into_iter().partition(|shard| self.transaction.wrote.contains(shard));
        if asked.is_empty() {
            return Ok(writers);
        }
        let bound = self.transaction.bound.clone();
        for (shard, answer) in self.on(&asked, |_| HAS_WRITTEN.to_owned()).await {
            if answer?.text().is_some() || bound.contains(&shard) {
                writers.push(shard);
            }
        }
        writers.sort_unstable();
        Ok(writers)
    }

    /// At most one shard has written: its COMMIT is the transaction's, the others are told afterwards.
    async fn commit_first(&mut self, writer: Option<ShardId>, readers: &[ShardId]) -> Result<bool> {
        let mut committed = true;
        if let Some(writer) = writer {
            let Some(held) = self.held.iter_mut().find(|h| h.shard == writer) else {
                return Err(Error::internal("a lease is gone"));
            };
            match told(held, "COMMIT").await {
                Ok(answer) => committed = answer.tag == "COMMIT",
                Err(error) => {
                    self.roll_back(readers).await;
                    let [_, abort] = &*ONE;
                    abort.increment(1);
                    let unknown = error.code == codes::CONNECTION_FAILURE && self.transaction.writers.contains(&writer);
                    return Err(if unknown { outcome_unknown(&error) } else { error });
                }
            }
        }
        if !committed {
            self.roll_back(readers).await;
            return Ok(false);
        }
        let [commit, _] = &*ONE;
        commit.increment(1);
        let answers = self.on(readers, |_| "COMMIT".to_owned()).await;
        let failed = answers.into_iter().find_map(|(_, answer)| answer.err());
        match failed {
            // Nothing has been written anywhere: the client may know that a shard was lost.
            Some(error) if writer.is_none() => Err(error),
            _ => Ok(true),
        }
    }

    /// `commit = "one_phase"`.
    async fn commit_one_after_the_other(&mut self, writers: &[ShardId], readers: &[ShardId]) -> Result<bool> {
        let mut done: Vec<ShardId> = Vec::new();
        for (at, &shard) in writers.iter().enumerate() {
            let answers = self.on(&[shard], |_| "COMMIT".to_owned()).await;
            let failure = match answers.into_iter().next() {
                Some((_, Ok(answer))) if answer.tag == "COMMIT" => None,
                Some((_, Err(error))) => Some(error),
                _ => Some(Error::new(codes::TRANSACTION_ROLLBACK, "the transaction was rolled back by a shard")),
            };
            let Some(error) = failure else {
                done.push(shard);
                continue;
            };
            let rest: Vec<ShardId> = writers.iter().skip(at + 1).chain(readers).copied().collect();
            self.roll_back(&rest).await;
            count("one_phase", if done.is_empty() { "abort" } else { "torn" });
            if done.is_empty() {
                return Err(error);
            }
            let names: Vec<String> = done.iter().map(|s| self.database.shard_name(*s).to_owned()).collect();
            return Err(Error::new(error.code, format!("the transaction has committed on some shards only: {error}"))
                .detail(format!(
                    "Committed on {}; not on {} and those after it.",
                    names.join(", "),
                    self.database.shard_name(shard)
                ))
                .hint("This is what commit = \"one_phase\" can lose."));
        }
        count("one_phase", "commit");
        self.on(readers, |_| "COMMIT".to_owned()).await;
        Ok(true)
    }

    /// The shard that decides, and those that prepare: what cannot be prepared decides.
    fn choose(&self, writers: &[ShardId]) -> Result<(ShardId, Vec<ShardId>)> {
        let bound: Vec<ShardId> = writers.iter().copied().filter(|s| self.transaction.bound.contains(s)).collect();
        if let [first, second, ..] = bound.as_slice() {
            return Err(Error::unsupported(
                "a transaction over several shards with NOTIFY, LISTEN or holdable cursors on more than one is not \
                 supported",
            )
            .detail(format!(
                "There are such on shards {} and {}.",
                self.database.shard_name(*first),
                self.database.shard_name(*second)
            ))
            .hint("Commit between them."));
        }
        let pinned = |shard: &ShardId| {
            self.held.iter().find(|h| h.shard == *shard).is_some_and(|h| {
                matches!(
                    h.pinned,
                    Some(PinReason::TemporaryTable | PinReason::HoldCursor | PinReason::Listen | PinReason::Opaque)
                )
            })
        };
        let chosen = bound.first().copied().or_else(|| writers.iter().copied().find(pinned));
        let decision = chosen.or_else(|| writers.first().copied()).ok_or_else(|| Error::internal("no writers"))?;
        Ok((decision, writers.iter().copied().filter(|s| *s != decision).collect()))
    }

    async fn name(&self, decision: ShardId, others: Vec<ShardId>) -> Result<TwoPhase> {
        let all: Vec<ShardId> = others.iter().copied().chain([decision]).collect();
        let installation = self.database.may_commit_over(&all).await?;
        let name = TransactionName::new(&installation, self.database.shard_name(decision))?;
        Ok(TwoPhase { name, decision, others })
    }

    async fn two_phase(&mut self, two: TwoPhase, readers: &[ShardId]) -> Result<bool> {
        let database = Arc::clone(&self.database);
        let _active = database.settlement.activate(two.name.key());
        if let Err(error) = self.first_phase(&two).await {
            self.abort(&two, readers).await;
            return Err(error);
        }
        let room = database.room.commit().await;
        let sent = Instant::now();
        let decided = self.on(&[two.decision], |_| "COMMIT".to_owned()).await.into_iter().next();
        let refused = match decided {
            Some((_, Ok(answer))) if answer.tag == "COMMIT" => None,
            Some((_, Err(error))) if error.code == codes::CONNECTION_FAILURE => {
                match database.ask_decision(two.decision, &two.name.key(), sent).await {
                    Some(Outcome::Commit) => None,
                    Some(Outcome::Abort) => Some(error),
                    None => {
                        self.leave_to_recovery(&two, readers).await;
                        return Err(outcome_unknown(&error));
                    }
                }
            }
            Some((_, Err(error))) => Some(error),
            _ => Some(Error::new(codes::TRANSACTION_ROLLBACK, "the transaction was rolled back by a shard")),
        };
        if let Some(error) = refused {
            self.abort(&two, readers).await;
            return Err(error);
        }
        self.second_phase(&two).await;
        database.room.remember(two.others.iter().copied().chain([two.decision]).collect());
        drop(room);
        count("two_phase", "commit");
        self.on(readers, |_| "COMMIT".to_owned()).await;
        Ok(true)
    }

    /// The decision's row, then PREPARE TRANSACTION.
    async fn first_phase(&mut self, two: &TwoPhase) -> Result<()> {
        let decide = format!("SELECT shardway.decide('{}', '{}')", two.name.key(), two.name.secret);
        for (shard, answer) in self.on(&[two.decision], |_| decide.clone()).await {
            if answer.as_ref().is_err_and(|error| error.code != codes::CONNECTION_FAILURE) {
                // What records decisions may have been lost with a shard's last commits: it is looked at again.
                self.database.settlement.forget_facts(shard);
            }
            if answer?.text().is_none() {
                return Err(Error::internal("the decision was not recorded"));
            }
        }
        let prepare = |shard| format!("PREPARE TRANSACTION '{}'", two.name.gid(shard));
        let mut failure = None;
        for (shard, answer) in self.on(&two.others, prepare).await {
            let error = match answer {
                Ok(answer) if answer.tag == "PREPARE TRANSACTION" => continue,
                Ok(_) => Error::new(codes::TRANSACTION_ROLLBACK, "the transaction was rolled back by a shard"),
                Err(error) => {
                    if error.code == codes::CONNECTION_FAILURE {
                        self.database.settlement.hurry(shard, two.name.gid(shard));
                    }
                    error
                }
            };
            failure.get_or_insert(error);
        }
        failure.map_or(Ok(()), Err)
    }

    async fn second_phase(&mut self, two: &TwoPhase) {
        let mut open = two.others.clone();
        for _ in 0..ATTEMPTS {
            let commit = |shard| format!("COMMIT PREPARED '{}'", two.name.gid(shard));
            let tried = join_all(self.held.iter_mut().filter(|h| open.contains(&h.shard)).map(async |held| {
                let done = timeout(limits::SECOND_PHASE_TIMEOUT, told(held, &commit(held.shard))).await;
                held.lease.dead |= done.is_err();
                (held.shard, matches!(done, Ok(Ok(_))), held.lease.dead)
            }));
            let lost: Vec<(ShardId, bool, bool)> = tried.await;
            open.retain(|shard| lost.iter().any(|(s, done, _)| s == shard && !done));
            if lost.iter().all(|(_, done, dead)| *done || *dead) {
                break;
            }
        }
        let mut away = Vec::new();
        for shard in open {
            self.database.settlement.doubt(shard, two.name.gid(shard));
            let database = &self.database;
            let settled = async {
                while database.admit_settled(shard).await.is_err() {
                    tokio::time::sleep(limits::BREAKER_PAUSE).await;
                }
            };
            if timeout(limits::SECOND_PHASE_TIMEOUT, settled).await.is_err() {
                away.push(self.database.shard_name(shard).to_owned());
            }
        }
        if away.is_empty() {
            return self.database.settlement.finish(two.decision, two.name.key());
        }
        tracing::warn!(gid = two.name.key(), shards = away.join(", "), "committed, but not everywhere yet");
        let warning = Error::new(codes::CONNECTION_FAILURE, format!("shard {} is away", away.join(", ")))
            .detail("The transaction has committed; what it did there can be seen when the shard is back.");
        if let Some(held) = self.held.iter_mut().find(|h| h.shard == two.decision) {
            backend::put_notice(&mut held.lease.news, "WARNING", &warning);
        }
    }

    /// Rolls back what was begun, prepared or not.
    async fn abort(&mut self, two: &TwoPhase, readers: &[ShardId]) {
        let all: Vec<ShardId> = two.others.iter().chain([&two.decision]).chain(readers).copied().collect();
        let (name, others) = (&two.name, &two.others);
        let rolled = join_all(self.held.iter_mut().filter(|h| all.contains(&h.shard)).map(async |held| {
            let open = held.lease.status != Status::Idle;
            let sql = match others.contains(&held.shard) && !open {
                true => format!("ROLLBACK PREPARED '{}'", name.gid(held.shard)),
                false => "ROLLBACK".to_owned(),
            };
            let done = told(held, &sql).await;
            // What has failed to prepare is not there.
            (held.shard, done.is_ok() || !held.lease.dead)
        }));
        for (shard, done) in rolled.await {
            if !done && others.contains(&shard) {
                self.database.settlement.hurry(shard, name.gid(shard));
            }
        }
        count("two_phase", "abort");
    }

    /// Nobody can tell whether it is decided: what is prepared stays prepared until recovery knows.
    async fn leave_to_recovery(&mut self, two: &TwoPhase, readers: &[ShardId]) {
        for &shard in &two.others {
            self.database.settlement.doubt(shard, two.name.gid(shard));
        }
        // It may be decided: who has a snapshot of one of its shards is not to join another as if nothing had happened.
        self.database.room.remember(two.others.iter().copied().chain([two.decision]).collect());
        count("two_phase", "unknown");
        self.roll_back(readers).await;
    }

    /// ROLLBACK on these. Who does not answer is closed, so that the server rolls back by itself.
    async fn roll_back(&mut self, shards: &[ShardId]) {
        self.on(shards, |_| "ROLLBACK".to_owned()).await;
    }

    /// Runs a text on several shards at once: all are sent before any is waited for. In the order of the shards.
    async fn on(&mut self, shards: &[ShardId], sql: impl Fn(ShardId) -> String) -> Vec<(ShardId, Result<Answer>)> {
        let concerned = self.held.iter_mut().filter(|h| shards.contains(&h.shard));
        join_all(concerned.map(async |held| (held.shard, told(held, &sql(held.shard)).await))).await
    }
}

/// Runs a text of ours; what the server says beside its answer is the client's.
async fn told(held: &mut Held, sql: &str) -> Result<Answer> {
    let answer = run_on(held, sql).await;
    match &answer {
        Ok(answer) => held.lease.news.extend_from_slice(&answer.notices),
        Err(_) => held.lease.broken |= held.lease.status != Status::Idle,
    }
    answer
}

/// Sync, so that what follows is not part of the pipeline.
async fn leave_pipeline(held: &mut Held) {
    held.unsynced = false;
    frontend::put_empty(&mut held.lease.io.write, frontend::SYNC);
    // An error is told by what is asked next.
    if let Ok(answer) = held.lease.answer(backend::READY).await {
        held.lease.news.extend_from_slice(&answer.notices);
    }
}

fn outcome_unknown(error: &Error) -> Error {
    Error::new(codes::TRANSACTION_UNKNOWN, "the outcome of the transaction is unknown").detail(error.to_string())
}

/// What is prepared on a shard, with the decision that is on record for it.
#[derive(Clone, Debug)]
pub struct PreparedReport {
    pub shard: String,
    pub prepared: Prepared,
    /// `None`: nothing is on record; an error: it cannot be asked.
    pub decision: Result<Option<Outcome>>,
}

impl Database {
    /// Everything of ours that is prepared now.
    ///
    /// # Errors
    /// 08006: a shard is away.
    pub async fn prepared_transactions(&self) -> Result<Vec<PreparedReport>> {
        let mut reports = Vec::new();
        for (shard, config) in self.config.shards.iter().enumerate() {
            for prepared in self.control().prepared(shard, None).await? {
                let name = crate::exec::gid::parse(&prepared.gid);
                let decider = name.as_ref().and_then(|n| self.shard_position(&n.decision_shard));
                let decision = match (name, decider) {
                    (Some(name), Some(decider)) => self.control().decision(decider, &name.key).await,
                    _ => Err(Error::internal("its decision shard is not configured")),
                };
                reports.push(PreparedReport { shard: config.name.clone(), prepared, decision });
            }
        }
        Ok(reports)
    }
}
