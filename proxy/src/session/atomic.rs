//! Writes on several shards: the transaction that they share.
//!
//! Outside a transaction such a statement gets one of its own, which ends with it. In a pipeline of the extended
//! protocol the pipeline's transaction becomes a block on every shard, which Sync commits; in a block of the client's
//! nothing is to be done but to note who writes.

use crate::catalog::ShardId;
use crate::config::CommitMode;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::backends::State;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::rows::refused_serializable;

/// Whether a statement's transaction is its own, so that it ends with it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTransaction(bool);

impl OwnTransaction {
    /// The statement's end is the transaction's end.
    pub fn ends_here(self) -> bool {
        self.0
    }
}

impl Session {
    /// Opens what a statement needs that writes on these shards, and notes them as writers. Connections are joined as
    /// they are acquired. The caller gives the statement's tag to the client only after [`Session::end_writes`].
    ///
    /// # Errors
    /// 0A000 under SERIALIZABLE; 25P02 in a failed transaction; what a server says to BEGIN in a pipeline.
    pub(super) async fn begin_writes(&mut self, shards: &[ShardId]) -> Outcome<OwnTransaction> {
        self.refuse_if_failed()?;
        self.refuse_serializable_writes(shards)?;
        self.refuse_torn_writes(shards).await?;
        let own = self.share_transaction().await?;
        for &shard in shards {
            self.backends.note_write(shard);
        }
        Ok(own)
    }

    /// Ends what [`Session::begin_writes`] has opened: COMMIT everywhere if all went well, else ROLLBACK everywhere.
    /// The outcome is passed on.
    ///
    /// # Errors
    /// The statement's own; what keeps its transaction from committing.
    pub(super) async fn end_writes<T>(&mut self, own: OwnTransaction, outcome: Outcome<T>) -> Outcome<T> {
        if !own.0 {
            return outcome;
        }
        let ended = Box::pin(self.end_transaction(outcome.is_ok())).await;
        match (outcome, ended) {
            (Ok(_), Ok(false)) => {
                Err(Error::new(codes::TRANSACTION_ROLLBACK, "the transaction was rolled back by a shard").into())
            }
            (Ok(done), Ok(true)) => Ok(done),
            (Ok(_), Err(failure)) => Err(failure),
            (failed, _) => failed,
        }
    }

    /// Makes the transaction at work one that is a block on every shard; whether it is the statement's own.
    pub(super) async fn share_transaction(&mut self) -> Outcome<OwnTransaction> {
        if self.backends.transaction.state != State::Idle {
            return Ok(OwnTransaction(false));
        }
        if !self.pipeline.is_open() {
            self.begin_implicit();
            return Ok(OwnTransaction(true));
        }
        // Nothing may be owed where BEGIN is sent.
        self.drain(false).await?;
        self.backends.transaction.state = State::Implicit;
        self.begin_unsynced("BEGIN").await?;
        Ok(OwnTransaction(false))
    }

    /// A statement that writes on one shard, inside a transaction: the second writer of a pipeline makes its
    /// transaction a shared one.
    pub(super) async fn join_writers(&mut self, shard: ShardId) -> Outcome {
        self.refuse_serializable_writes(&[shard])?;
        if self.backends.transaction.writers.iter().any(|s| *s != shard) {
            self.refuse_torn_writes(&[shard]).await?;
            let _joined = self.share_transaction().await?;
        }
        self.backends.note_write(shard);
        Ok(())
    }

    /// What could not be committed atomically is refused before it is done.
    ///
    /// # Errors
    /// 55000 with what a shard lacks.
    pub(super) async fn refuse_torn_writes(&self, shards: &[ShardId]) -> Result<()> {
        let database = &self.backends.database;
        let mut all = self.backends.transaction.writers.clone();
        all.extend(shards.iter().filter(|s| !self.backends.transaction.writers.contains(s)));
        if all.len() > 1 && database.config.commit == CommitMode::TwoPhase {
            database.may_commit_over(&all).await?;
        }
        Ok(())
    }

    /// Notes what cannot be prepared on a shard, if a transaction is open that it belongs to.
    pub(super) fn note_bound(&mut self, shard: ShardId) {
        if self.backends.transaction.is_block() || self.pipeline.is_open() {
            self.backends.note_bound(shard);
        }
    }

    /// A serializable transaction writes on one shard, if it has not read others.
    fn refuse_serializable_writes(&self, shards: &[ShardId]) -> Result<()> {
        let transaction = &self.backends.transaction;
        let first = shards.first();
        let is_alone = transaction.writers.iter().chain(shards).all(|s| Some(s) == first);
        if (is_alone && !transaction.one_moment) || !self.is_serializable() {
            return Ok(());
        }
        Err(refused_serializable())
    }
}
