//! Snapshots of several shards that belong together: none of them may show a commit that another does not.
//!
//! A portal's snapshot is taken at Bind (PortalStart in pquery.c). Where commits over several shards are about, all shards
//! bind while no second phase is under way, and only then execute. A transaction that keeps its snapshots takes that of a
//! shard that joins late in the same way, and is told when a commit has come in between.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::backends::Backends;
use crate::exec::backends::Held;
use crate::exec::backends::State;
use crate::exec::backends::run_on;
use crate::exec::room::Guard;
use crate::exec::room::Room;
use crate::exec::scatter::failed;
use crate::limits;
use crate::variables::Variables;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::BytesMut;
use futures::future::join_all;
use tokio::time::timeout;

/// How often snapshots are taken anew when a commit has come in between.
const ATTEMPTS: usize = 8;

impl Backends {
    /// One snapshot serves all of the transaction's statements.
    fn keeps_snapshot(&self, variables: &Variables) -> bool {
        let level = self.transaction.modes.isolation.as_deref();
        self.transaction.state != State::Idle
            && level
                .or_else(|| variables.get("default_transaction_isolation"))
                .is_some_and(|l| l.eq_ignore_ascii_case("repeatable read") || l.eq_ignore_ascii_case("serializable"))
    }

    /// [`Backends::acquire`], for a statement that takes a snapshot.
    ///
    /// # Errors
    /// As there.
    pub async fn acquire_for_statement(&mut self, shard: ShardId, variables: &Variables) -> Result<&mut Held> {
        self.acquire(shard, variables).await?;
        if self.transaction.state != State::Idle {
            self.note_snapshot(variables);
        }
        self.find(shard).ok_or_else(|| Error::internal("a lease is gone"))
    }

    /// A statement is about to take a snapshot.
    pub fn note_snapshot(&mut self, variables: &Variables) {
        if self.transaction.snapshot.is_none() && self.keeps_snapshot(variables) {
            self.transaction.snapshot = Some(self.database.room.count());
        }
    }

    /// The first statement of a transaction that keeps its snapshots is over several shards: takes them all at once,
    /// before anything else is asked there.
    ///
    /// # Errors
    /// A server's.
    pub async fn take_together(&mut self, shards: &[ShardId], variables: &Variables) -> Result<()> {
        if self.transaction.snapshot.is_some() || !self.keeps_snapshot(variables) {
            return Ok(());
        }
        let database = std::sync::Arc::clone(&self.database);
        let _guard = database.room.snapshot().await;
        self.note_snapshot(variables);
        let concerned = self.held.iter_mut().filter(|h| shards.contains(&h.shard));
        let taken = join_all(concerned.map(async |held| run_on(held, "SELECT 1").await)).await;
        taken.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// The first statement of a serializable transaction is over several shards: takes the snapshots of all shards of the
    /// database at one moment, at which no transaction that writes began or ended on any of them, whoever it was of.
    ///
    /// Then each serializable transaction is before or behind this one on all shards alike, so that they stay
    /// serializable together as long as none of them both reads several shards and writes: in a cycle some reader's
    /// snapshot would have to be earlier than itself, as each shard by itself keeps those that it sees in order.
    ///
    /// # Errors
    /// 40001 when writers came in between; a server's; 08006 when a shard is away.
    pub async fn take_at_one_moment(&mut self, variables: &Variables) -> Result<()> {
        const SNAPSHOT: &str = "SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text";
        let database = std::sync::Arc::clone(&self.database);
        for shard in database.shards() {
            self.acquire(shard, variables).await?;
        }
        self.note_snapshot(variables);
        let mut taken = vec![None; database.control().shard_count()];
        for answer in join_all(self.held.iter_mut().map(async |h| (h.shard, run_on(h, SNAPSHOT).await))).await {
            let (shard, answer) = answer;
            let place = taken.get_mut(usize::from(shard.0)).ok_or_else(|| Error::internal("a shard is gone"))?;
            *place = answer?.text();
        }
        // A snapshot that is still the shard's newest was its newest at every moment since it was taken.
        for (snapshot, now) in taken.into_iter().zip(database.control().read_all(SNAPSHOT).await) {
            if snapshot != Some(now?) {
                return Err(Error::new(codes::SERIALIZATION_FAILURE, "could not serialize access among concurrent writers")
                    .detail("A serializable transaction over several shards begins at a moment when none of them is being written.")
                    .hint("Try the transaction again, or use REPEATABLE READ."));
            }
        }
        self.transaction.one_moment = true;
        Ok(())
    }

    /// A shard on which nothing was done leaves the transaction that it has just joined, with the only snapshot.
    ///
    /// # Errors
    /// A server's.
    pub async fn part(&mut self, shard: ShardId) -> Result<()> {
        if let Some(held) = self.find(shard).filter(|held| held.joined && !held.unsynced) {
            run_on(held, "ROLLBACK").await?;
            held.joined = false;
            self.transaction.snapshot = None;
        }
        Ok(())
    }

    /// Takes the snapshot of a shard that joins a transaction which has others already.
    ///
    /// # Errors
    /// 40001 when a commit over these shards has ended since the first snapshot.
    pub async fn join_late(&mut self, shard: ShardId) -> Result<()> {
        let Some(count) = self.transaction.snapshot else { return Ok(()) };
        let joined: Vec<ShardId> = self.held.iter().filter(|h| h.joined).map(|h| h.shard).collect();
        let database = std::sync::Arc::clone(&self.database);
        let _guard = database.room.snapshot().await;
        if database.room.has_changed(count, &joined) {
            return Err(not_together());
        }
        match self.find(shard) {
            Some(held) => run_on(held, "SELECT 1").await.map(drop),
            None => Err(Error::internal("a lease is gone")),
        }
    }
}

/// 40001
pub fn not_together() -> Error {
    Error::new(codes::SERIALIZATION_FAILURE, "could not serialize access due to a commit over several shards")
        .hint("Try the transaction again.")
}

/// Has every shard bind a statement; `put` writes Parse and Bind. Afterwards the statement can be executed on all of them;
/// the guard, if there is one, is to be kept until they have answered.
///
/// # Errors
/// A server's, with every connection told to come back in step (see `scatter::bring_back`); 40001.
pub async fn bind<'r>(
    backends: &mut Backends,
    room: &'r Room,
    variables: &Variables,
    shards: &[ShardId],
    put: impl Fn(&mut Held),
) -> Result<Bound<'r>> {
    for _ in 0..ATTEMPTS {
        let guard = room.snapshot().await;
        let count = room.count();
        backends.note_snapshot(variables);
        let concerned = backends.held.iter_mut().filter(|h| shards.contains(&h.shard));
        concerned.for_each(&put);
        if shards.len() < 2 || !guard.matters() {
            return Ok(Bound { told: false, _guard: (shards.len() > 1).then_some(guard) });
        }
        let mut open = shards.to_vec();
        let bound = match timeout(limits::BIND_PATIENCE, all_bound(backends, &mut open)).await {
            Ok(bound) => bound.map(|()| true),
            // Someone's lock is waited for, which may be that of a commit that waits for us.
            Err(_) => {
                drop(guard);
                let bound = all_bound(backends, &mut open).await;
                // A commit is remembered before it leaves the room.
                let _quiet = room.snapshot().await;
                bound.map(|()| !room.has_changed(count, shards))
            }
        };
        match bound {
            Ok(true) => return Ok(Bound { told: true, _guard: None }),
            Ok(false) if backends.keeps_snapshot(variables) => {
                give_up(backends, shards);
                return Err(not_together());
            }
            Ok(false) => {}
            Err(error) => {
                give_up(backends, shards);
                return Err(error);
            }
        }
    }
    give_up(backends, shards);
    Err(not_together())
}

/// Statements that are bound everywhere.
#[derive(Default)]
pub struct Bound<'r> {
    /// BindComplete has come from every shard.
    pub told: bool,
    _guard: Option<Guard<'r>>,
}

/// Flush, and BindComplete of each; `open` keeps those whose answer has not come.
async fn all_bound(backends: &mut Backends, open: &mut Vec<ShardId>) -> Result<()> {
    for held in backends.held.iter_mut().filter(|h| open.contains(&h.shard) && !h.lease.io.write.is_empty()) {
        frontend::put_empty(&mut held.lease.io.write, frontend::FLUSH);
        if let Err(error) = held.lease.io.flush().await {
            held.lease.dead = true;
            return Err(held.lease.lost(&error));
        }
    }
    while let Some(&shard) = open.first() {
        let Some(held) = backends.find(shard) else { return Err(Error::internal("a lease is gone")) };
        let mut notices = BytesMut::new();
        let got = held.lease.next(&mut notices).await;
        held.lease.news.extend_from_slice(&notices);
        let (tag, body) = got?;
        match tag {
            backend::PARSE_COMPLETE | backend::CLOSE_COMPLETE => held.lease.confirmed(),
            backend::BIND_COMPLETE => _ = open.remove(0),
            backend::ERROR => return Err(failed(&mut held.lease, &body)),
            _ => {}
        }
    }
    Ok(())
}

/// Sync where the statement's transaction is its own, so that everything sent so far is answered.
fn give_up(backends: &mut Backends, shards: &[ShardId]) {
    for held in backends.held.iter_mut().filter(|h| shards.contains(&h.shard) && !h.lease.dead) {
        held.answering = false;
        held.owes_ready = !held.unsynced;
        if held.owes_ready {
            frontend::put_empty(&mut held.lease.io.write, frontend::SYNC);
        }
    }
}
