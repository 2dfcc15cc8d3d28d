//! The server connections that one session holds, and its transaction over them.

use crate::auth::logins::Logins;
use crate::catalog::Catalog;
use crate::catalog::ShardId;
use crate::config::Login;
use crate::config::User;
use crate::error::Error;
use crate::error::Result;
use crate::exec::database::Database;
use crate::exec::database::Snapshot;
use crate::plan::PinReason;
use crate::pool::Answer;
use crate::pool::CancelSlot;
use crate::pool::Connector;
use crate::pool::Lease;
use crate::pool::Pool;
use crate::pool::Spare;
use crate::sql::command::TransactionModes;
use crate::variables::Variables;
use crate::wire::Status;
use std::sync::Arc;

/// A leased server connection and what it is in the middle of.
pub struct Held {
    pub shard: ShardId,
    pub lease: Lease,
    /// BEGIN was sent on it.
    pub joined: bool,
    /// Extended messages were sent since the last Sync: an implicit transaction may be open on it.
    pub unsynced: bool,
    /// It is in the middle of an answer that a merge reads.
    pub answering: bool,
    /// A Sync was sent whose ReadyForQuery has not come.
    pub owes_ready: bool,
    /// It holds state that no other connection has.
    pub pinned: Option<PinReason>,
}

/// Where the client's transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// None, or the implicit one of a single statement.
    Idle,
    /// The implicit transaction of several statements in one Query.
    Implicit,
    Open,
    Failed,
}

pub struct Transaction {
    pub state: State,
    pub modes: TransactionModes,
    pub savepoints: Vec<String>,
    /// The shards that it may have written on or locked rows of, in the order of the first writes.
    pub writers: Vec<ShardId>,
    /// Writers that have told of rows they wrote: nobody need ask them whether they have written.
    pub wrote: Vec<ShardId>,
    /// Those that hold what cannot be prepared and matters at commit: notifications, holdable cursors.
    pub bound: Vec<ShardId>,
    /// The shard that joined it first: its now() is that of all.
    pub clock: Option<ShardId>,
    /// Numbers of sequences were drawn in it, on the home shard.
    pub drew: bool,
    /// It has changed the schema, on every shard.
    pub schema_changed: bool,
    /// The catalog as it sees it.
    pub overlay: Option<Arc<Snapshot>>,
    /// How many commits over several shards had ended when it took its first snapshot, if it keeps that.
    pub snapshot: Option<u64>,
    /// Its snapshots are of one moment on all shards of the database: as a serializable one it may read them all.
    pub one_moment: bool,
    /// A setting was changed in it, so that a rollback changes settings on the servers.
    pub settings_changed: bool,
}

impl Default for Transaction {
    fn default() -> Self {
        Transaction {
            state: State::Idle,
            modes: TransactionModes::default(),
            savepoints: Vec::new(),
            writers: Vec::new(),
            wrote: Vec::new(),
            bound: Vec::new(),
            clock: None,
            drew: false,
            schema_changed: false,
            overlay: None,
            snapshot: None,
            one_moment: false,
            settings_changed: false,
        }
    }
}

impl Transaction {
    pub fn status(&self) -> Status {
        match self.state {
            State::Idle | State::Implicit => Status::Idle,
            State::Open => Status::InTransaction,
            State::Failed => Status::Failed,
        }
    }

    /// BEGIN has to be sent to a shard that joins.
    pub fn is_block(&self) -> bool {
        self.state != State::Idle
    }
}

/// A session's connections and transaction.
pub struct Backends {
    pub database: Arc<Database>,
    pub user: User,
    pub logins: Arc<Logins>,
    pub held: Vec<Held>,
    pub transaction: Transaction,
    pub cancel: CancelSlot,
    /// Every connection stays until the client goes (session mode).
    pub keep_all: bool,
    pools: Vec<Option<Arc<Pool>>>,
    /// Held while one of its connections is beyond its pool's size.
    spare: Option<Spare>,
}

impl Backends {
    pub fn new(database: Arc<Database>, user: User, logins: Arc<Logins>, cancel: CancelSlot, keep_all: bool) -> Self {
        let pools = database.config.shards.iter().map(|_| None).collect();
        Backends {
            database,
            user,
            logins,
            held: Vec::new(),
            transaction: Transaction::default(),
            cancel,
            keep_all,
            pools,
            spare: None,
        }
    }

    /// Session mode: connections stay with the session.
    pub fn keeps_all(&self) -> bool {
        self.keep_all
    }

    /// Another configuration of the same database. Connections that are held stay where they belong.
    pub fn take_over(&mut self, database: Arc<Database>) {
        self.pools = database.config.shards.iter().map(|_| None).collect();
        self.database = database;
    }

    /// The same user as configured anew.
    pub fn log_in_as(&mut self, user: User, logins: Arc<Logins>) {
        self.pools.iter_mut().for_each(|pool| *pool = None);
        self.user = user;
        self.logins = logins;
    }

    /// How this session's user opens a connection to a shard beside the pool.
    ///
    /// # Errors
    /// A root certificate that cannot be read.
    pub fn connector(&self, shard: ShardId) -> Result<Connector> {
        self.database.connector(shard, self.login(shard))
    }

    fn login(&self, shard: ShardId) -> Login {
        self.logins.server_login(&self.user.name, self.database.url_login(shard))
    }

    fn pool(&mut self, shard: ShardId) -> Result<Arc<Pool>> {
        if let Some(Some(pool)) = self.pools.get(usize::from(shard.0)) {
            return Ok(Arc::clone(pool));
        }
        let pool = self.database.pool(shard, &self.login(shard))?;
        if let Some(slot) = self.pools.get_mut(usize::from(shard.0)) {
            *slot = Some(Arc::clone(&pool));
        }
        Ok(pool)
    }

    pub fn find(&mut self, shard: ShardId) -> Option<&mut Held> {
        self.held.iter_mut().find(|h| h.shard == shard)
    }

    /// The connection for a shard, with the session's settings on it and joined to the transaction.
    ///
    /// # Errors
    /// What the pool says; what the server says to a setting or to BEGIN.
    pub async fn acquire(&mut self, shard: ShardId, variables: &Variables) -> Result<&mut Held> {
        let mut fresh = false;
        if !self.database.settlement.is_settled() {
            // Also what is held already must not show the past.
            Box::pin(self.database.admit_settled(shard)).await?;
        }
        let index = match self.held.iter().position(|h| h.shard == shard) {
            Some(index) => index,
            None => {
                let lease = self.lease(shard, variables).await?;
                fresh = true;
                self.cancel.enter(Arc::clone(&lease.cancel)).await;
                self.held.push(Held {
                    shard,
                    lease,
                    joined: false,
                    unsynced: false,
                    answering: false,
                    owes_ready: false,
                    pinned: None,
                });
                if self.held.len() > 1 {
                    self.database.deadlocks.watch(&self.database, &self.cancel);
                }
                self.held.len() - 1
            }
        };
        self.tell_numbers(index, shard);
        let held = self.held.get_mut(index).ok_or_else(|| Error::internal("a lease is gone"))?;
        if held.lease.dead {
            return Err(Error::new(
                crate::error::codes::CONNECTION_FAILURE,
                format!("connection to {} was lost", held.lease.place()),
            )
            .hint("Roll the transaction back and try again."));
        }
        if !is_settled(held, &self.transaction, variables) {
            let joined = held.joined;
            if let Err(error) = Box::pin(settle(held, &self.transaction, variables)).await {
                Box::pin(leave_block(held)).await;
                if fresh && !held.joined {
                    let held = self.held.swap_remove(index);
                    self.release(held).await;
                }
                return Err(error);
            }
            if self.transaction.snapshot.is_some() && !joined && held.joined {
                Box::pin(self.join_late(shard)).await?;
            }
        }
        let held = self.held.get_mut(index).ok_or_else(|| Error::internal("a lease is gone"))?;
        if held.joined {
            self.transaction.clock.get_or_insert(shard);
        }
        Ok(held)
    }

    /// The catalog as the session sees it.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        match &self.transaction.overlay {
            Some(snapshot) => Arc::clone(snapshot),
            None => self.database.snapshot(),
        }
    }

    /// A short look at the catalog as the session sees it.
    pub fn look<T>(&self, at: impl FnOnce(&Catalog) -> T) -> T {
        look(&self.transaction, &self.database, at)
    }

    /// How the connection's object identifiers are translated, by the catalog of now.
    fn tell_numbers(&mut self, index: usize, shard: ShardId) {
        let Some(held) = self.held.get_mut(index).filter(|_| self.database.config.shards.len() > 1) else { return };
        look(&self.transaction, &self.database, |catalog| {
            let oids = catalog.shard_oids(shard);
            if held.lease.oids.as_ref().map(Arc::as_ptr) != oids.map(Arc::as_ptr) {
                held.lease.oids = oids.cloned();
            }
        });
    }

    /// A connection from the pool. One on which a session has made variables of its own cannot forget them, only empty
    /// them: it is closed instead.
    async fn lease(&mut self, shard: ShardId, variables: &Variables) -> Result<Lease> {
        self.database.admit(shard).await?;
        let pool = self.pool(shard)?;
        loop {
            let mut lease = if self.held.is_empty() {
                pool.lease().await?
            } else {
                pool.lease_further(&mut self.spare, &self.database.spares).await?
            };
            if !variables.difference(&lease.applied).is_some_and(|d| d.resets_custom()) {
                return Ok(lease);
            }
            lease.dead = true;
        }
    }

    async fn release(&mut self, mut held: Held) {
        self.cancel.leave(&held.lease.cancel).await;
        held.lease.io.shrink();
        held.lease.news.clear();
        drop(held);
        self.put_spare_back();
    }

    /// Others may use the places beyond the pools' sizes once this session does not.
    fn put_spare_back(&mut self) {
        if self.spare.is_some() && !self.held.iter().any(|held| held.lease.is_spare()) {
            self.spare = None;
        }
    }

    /// Gives back every connection that the session need not keep. Called when no transaction is open.
    pub async fn give_back(&mut self) {
        if self.keep_all {
            // Session mode keeps them, but not what is broken.
            let mut index = 0;
            while let Some(held) = self.held.get(index) {
                if held.lease.broken || held.lease.dead {
                    let held = self.held.swap_remove(index);
                    self.release(held).await;
                } else {
                    index += 1;
                }
            }
            return;
        }
        let mut index = 0;
        while let Some(held) = self.held.get(index) {
            if held.pinned.is_some() && !held.lease.broken && !held.lease.dead {
                index += 1;
            } else {
                let held = self.held.swap_remove(index);
                self.release(held).await;
            }
        }
    }

    /// The client is gone. What is in the middle of something is closed, so that PostgreSQL rolls it back; what is
    /// pinned is closed, because its state is nobody else's.
    ///
    /// Nobody reads the answer of what runs: it is cancelled, since a server sees that its client is gone only when it
    /// writes.
    pub async fn close(&mut self) {
        if self.held.iter().any(|h| h.lease.broken) {
            self.cancel.cancel().await;
        }
        for mut held in std::mem::take(&mut self.held) {
            self.cancel.leave(&held.lease.cancel).await;
            let idle = !held.lease.is_spent() && !held.joined && !held.unsynced && held.pinned.is_none();
            let clean = idle && (!self.keep_all || reset(&mut held.lease).await.is_ok());
            if !clean {
                held.lease.dead = true;
                say_goodbye(&mut held.lease).await;
            }
            held.lease.io.shrink();
        }
        self.transaction = Transaction::default();
        self.put_spare_back();
    }

    /// Ties the session to its connection to a shard; true if it was not tied to it before.
    pub fn pin(&mut self, shard: ShardId, reason: PinReason) -> bool {
        let Some(held) = self.find(shard) else { return false };
        let new = held.pinned.is_none();
        if new {
            tracing::debug!(shard = shard.0, ?reason, "session pinned");
            held.pinned = Some(reason);
        }
        new
    }

    /// Notes that a shard is written on.
    pub fn note_write(&mut self, shard: ShardId) {
        if !self.transaction.writers.contains(&shard) {
            self.transaction.writers.push(shard);
        }
    }

    /// Notes that a shard holds what cannot be prepared and becomes real at commit.
    pub fn note_bound(&mut self, shard: ShardId) {
        if !self.transaction.bound.contains(&shard) {
            self.transaction.bound.push(shard);
        }
    }

    /// Forgets the transaction; `rolled_back`: settings made in it are not what the servers have now.
    pub fn forget_transaction(&mut self, rolled_back: bool) {
        if rolled_back && self.transaction.settings_changed {
            for held in &mut self.held {
                held.lease.applied.forget();
            }
        }
        self.transaction = Transaction::default();
    }

    /// Shards that hold something open now.
    pub fn participants(&self) -> impl Iterator<Item = ShardId> {
        self.held.iter().filter(|h| h.joined || h.unsynced).map(|h| h.shard)
    }
}

/// See [`Backends::look`].
fn look<T>(transaction: &Transaction, database: &Database, at: impl FnOnce(&Catalog) -> T) -> T {
    match &transaction.overlay {
        Some(snapshot) => at(&snapshot.catalog),
        None => at(&database.current().catalog),
    }
}

/// Runs a text of our own on a connection, in its pipeline if it is in one.
pub async fn run_on(held: &mut Held, sql: &str) -> Result<Answer> {
    if held.unsynced { held.lease.run_in_pipeline(sql).await } else { held.lease.run(sql).await }
}

/// Settings that differ, then BEGIN and savepoints. Settings go first and outside the transaction, so that its
/// rollback does not undo them; they are waited for, so that nothing runs under wrong ones.
///
/// Nothing may be owed on the connection if settings differ. Inside a transaction the SET LOCAL settings are put back
/// afterwards, since a reset takes them away too.
/// Nothing has to be sent before the session's next statement: what is so for most statements, at the price of a
/// comparison.
fn is_settled(held: &mut Held, transaction: &Transaction, variables: &Variables) -> bool {
    if (transaction.is_block() && !held.joined) || variables.difference(&held.lease.applied).is_some() {
        return false;
    }
    held.lease.applied.adopt(variables);
    true
}

async fn settle(held: &mut Held, transaction: &Transaction, variables: &Variables) -> Result<()> {
    if let Some(difference) = variables.difference(&held.lease.applied) {
        let unknown = held.lease.applied.is_unknown();
        held.lease.applied.forget();
        if held.unsynced {
            for statement in difference.statements() {
                run_on(held, &statement).await?;
            }
        } else {
            held.lease.run(&difference.to_sql()).await?;
        }
        if let Some(local) = variables.local_sql()
            && unknown
            && held.joined
        {
            run_on(held, &local).await?;
        }
        held.lease.applied.adopt(variables);
    }
    if transaction.is_block() && !held.joined {
        join(held, transaction, variables).await?;
    }
    Ok(())
}

/// BEGIN, savepoints and SET LOCAL for a shard that joins the transaction.
async fn join(held: &mut Held, transaction: &Transaction, variables: &Variables) -> Result<()> {
    held.lease.retired |= variables.has_local_custom();
    let begin = begin_text(&transaction.modes);
    if held.unsynced {
        // Statements before the BEGIN in the same pipeline belong to the block; nothing else was set in it yet.
        held.lease.run_in_pipeline(&begin).await?;
    } else if transaction.savepoints.is_empty() && variables.local_sql().is_none() && cannot_fail(&transaction.modes) {
        held.lease.begin_ahead(&begin);
    } else {
        let mut sql = begin;
        for savepoint in &transaction.savepoints {
            sql.push_str("; SAVEPOINT ");
            sql.push_str(&quote_identifier(savepoint));
        }
        if let Some(local) = variables.local_sql() {
            sql.push_str("; ");
            sql.push_str(&local);
        }
        held.lease.run(&sql).await?;
    }
    held.joined = true;
    Ok(())
}

/// After a failure to get ready: a block that was begun halfway must not be open for the next statement.
async fn leave_block(held: &mut Held) {
    if !held.joined && !held.unsynced && held.lease.status != Status::Idle {
        // Lost, or refused: it is not used again then.
        if held.lease.run("ROLLBACK").await.is_err() {
            held.lease.dead = true;
        }
    }
}

/// A standby refuses serializable and writing transactions at BEGIN; nothing else makes it fail.
fn cannot_fail(modes: &TransactionModes) -> bool {
    modes.read_only != Some(false)
        && !modes.isolation.as_deref().is_some_and(|i| i.eq_ignore_ascii_case("serializable"))
}

/// BEGIN with what the client asked for.
pub fn begin_text(modes: &TransactionModes) -> String {
    format!("BEGIN{}", modes_text(modes).unwrap_or_default())
}

/// Transaction modes as they stand behind BEGIN and SET TRANSACTION, a space before each; `None` when none is given.
pub fn modes_text(modes: &TransactionModes) -> Option<String> {
    let mut text = String::new();
    if let Some(isolation) = &modes.isolation {
        text.push_str(" ISOLATION LEVEL ");
        text.push_str(isolation);
    }
    match modes.read_only {
        Some(true) => text.push_str(" READ ONLY"),
        Some(false) => text.push_str(" READ WRITE"),
        None => {}
    }
    match modes.deferrable {
        Some(true) => text.push_str(" DEFERRABLE"),
        Some(false) => text.push_str(" NOT DEFERRABLE"),
        None => {}
    }
    (!text.is_empty()).then_some(text)
}

pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Everything that a session may have left on a connection. A variable of its own cannot be forgotten, only emptied:
/// such a connection is refused.
async fn reset(lease: &mut Lease) -> Result<()> {
    if lease.applied.is_unknown() || Variables::default().difference(&lease.applied).is_some_and(|d| d.resets_custom())
    {
        return Err(Error::internal("a connection that cannot be reset"));
    }
    let run = tokio::time::timeout(crate::limits::RESET_TIMEOUT, lease.run("DISCARD ALL"));
    run.await.map_err(|_| Error::internal("DISCARD ALL takes too long"))??;
    lease.applied.clear();
    lease.statements.clear();
    Ok(())
}

/// Terminate, so that the server does not log a lost connection.
async fn say_goodbye(lease: &mut Lease) {
    lease.io.write.clear();
    crate::wire::frontend::put_empty(&mut lease.io.write, crate::wire::frontend::TERMINATE);
    let _ = tokio::time::timeout(std::time::Duration::from_millis(100), lease.io.flush()).await;
}
