//! What is owed to the client in a pipeline of the extended protocol, and its end at Sync.
//!
//! Messages for one shard are gathered and sent in one write; what we answer ourselves waits in the same queue of owed
//! replies, so that the client's replies keep their order. When the shard changes, the queue is emptied first. Nothing
//! of our own is asked on a connection while replies are owed there.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::backends::run_on;
use crate::exec::cache::Planned;
use crate::exec::copy;
use crate::exec::relay::Action;
use crate::exec::relay::Relay;
use crate::limits;
use crate::plan::Plan;
use crate::pool::RowNumbers;
use crate::pool::ServerConnection;
use crate::session::Failure;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::measure;
use crate::session::portal::Portal;
use crate::session::prepared::Prepared;
use crate::sql::command::Command;
use crate::wire::Tag;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::Bytes;
use bytes::BytesMut;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// A reply that the client is owed, in its order; those called own are not the client's.
#[derive(Debug)]
pub enum Owed {
    /// ParseComplete of a statement that we prepared.
    OwnParse(u64),
    /// ParseComplete of the unnamed statement.
    OwnUnnamed,
    /// CloseComplete of a statement that we evicted.
    OwnClose(u64),
    /// CloseComplete of a portal of ours.
    OwnClosePortal,
    OwnBind,
    Bind,
    /// RowDescription or NoData.
    Describe,
    /// RowDescription; NoData is not passed on (EXECUTE in a simple Query).
    DescribeRows,
    /// The rows and the end of an Execute.
    Execute(Arc<Planned>),
    /// The same, of a text whose effects the caller sees to, or of a cursor.
    ExecuteText,
    /// CloseComplete of a portal.
    ClosePortal,
    /// Made here.
    Local(Bytes),
    /// No reply: what is looked into in the rows that come next.
    Rows(Option<Arc<RowNumbers>>),
    /// No reply: what is to be taken back if an error comes before this point. Until the replies ahead have come, what
    /// we did for a later message is not certain to count.
    Undo(Undo),
}

/// A change of the session's names: what was there before.
pub enum Undo {
    Prepared(Vec<u8>, Option<Arc<Prepared>>),
    Portal(Vec<u8>, Option<Portal>),
}

impl std::fmt::Debug for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Undo::Prepared(name, _) => write!(f, "Prepared({})", String::from_utf8_lossy(name)),
            Undo::Portal(name, _) => write!(f, "Portal({})", String::from_utf8_lossy(name)),
        }
    }
}

/// The messages since the last Sync.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// The shard that the replies owed come from.
    pub target: Option<ShardId>,
    pub owed: VecDeque<Owed>,
    /// After an error, up to Sync.
    pub skipping: bool,
    /// Something came since the last Sync.
    pub open: bool,
    /// The shard whose server has reported the error: it skips to Sync.
    pub failed: Option<ShardId>,
    /// A portal has been executed in the pipeline's present transaction.
    pub ran: bool,
    /// What is executed has ended the transaction that was.
    pub fresh: bool,
    /// A portal of the session's own is executed: its rows were described by Describe, if at all.
    pub executing: bool,
    /// Replies of a portal over several shards, which are given when its shards have bound it: until then an error
    /// may come in their place. Nothing else is owed meanwhile.
    pub kept: BytesMut,
    /// Scratch of a drain: the statements that ran.
    executed: Vec<Arc<Planned>>,
    /// The Sync that was sent came before the data of a copy, which swallows it: the client sends another.
    swallowed: bool,
}

/// What PostgreSQL says of a prepared statement whose columns have changed; drivers know the text.
pub const CHANGED_RESULT: &str = "cached plan must not change result type";

/// Replies owed at most, before those that are there are given.
const OWED: usize = 4_096;

impl Pipeline {
    pub fn is_open(&self) -> bool {
        self.open
    }
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// ReadyForQuery came.
    Ready,
    /// Everything owed came; the pipeline goes on.
    Open,
}

impl Session {
    /// The first message of a pipeline: its implicit transaction begins.
    pub(super) fn open_pipeline(&mut self) {
        if !self.pipeline.open {
            self.pipeline.open = true;
            self.pipeline.ran = false;
            self.pipeline.fresh = false;
            self.variables.begin();
        }
    }

    /// An error of ours comes after the replies that are owed already; one of those may be an error itself, which
    /// then is the only one.
    pub(super) async fn fail_pipeline(&mut self, error: &Error) -> Outcome {
        match self.drain(false).await {
            Ok(_) => self.report(error),
            Err(Failure::Error(lost)) => self.report(&lost),
            Err(Failure::Reported) => {}
            Err(other) => return Err(other),
        }
        self.pipeline.owed.clear();
        self.fail_transaction();
        self.pipeline.skipping = true;
        Ok(())
    }

    /// A reply that we make: behind what is owed.
    pub(super) fn reply(&mut self, fill: impl FnOnce(&mut BytesMut)) {
        if !self.pipeline.kept.is_empty() {
            fill(&mut self.pipeline.kept);
        } else if self.pipeline.owed.is_empty() {
            fill(&mut self.client.write);
        } else {
            let mut bytes = BytesMut::new();
            fill(&mut bytes);
            self.pipeline.owed.push_back(Owed::Local(bytes.freeze()));
        }
    }

    /// Remembers what a change of names has replaced, if it may have to be taken back.
    pub(super) fn may_undo(&mut self, undo: Undo) {
        if !self.pipeline.owed.is_empty() {
            self.pipeline.owed.push_back(Owed::Undo(undo));
        }
    }

    /// An error came before these: the messages that they stand for were skipped.
    fn undo(&mut self, skipped: impl DoubleEndedIterator<Item = Owed>) {
        for owed in skipped.rev() {
            match owed {
                Owed::Undo(Undo::Prepared(name, Some(before))) => _ = self.prepared.insert(name, before),
                Owed::Undo(Undo::Prepared(name, None)) => _ = self.prepared.remove(&name),
                Owed::Undo(Undo::Portal(name, Some(before))) => _ = self.portals.insert(name, before),
                Owed::Undo(Undo::Portal(name, None)) => _ = self.portals.remove(&name),
                _ => {}
            }
        }
    }

    /// Flush: everything owed is given.
    pub(super) async fn flush_pipeline(&mut self) -> Outcome {
        self.drain(false).await?;
        self.client.flush().await.map_err(|_| Failure::Gone)
    }

    /// A pipeline without end must not be kept in memory: what is owed is given when it is long.
    pub(super) fn is_pipeline_long(&self) -> bool {
        let target = self.backends.held.iter().find(|h| Some(h.shard) == self.pipeline.target);
        let waiting = target.map_or(0, |h| h.lease.io.write.len());
        waiting > 8 * limits::WRITE_BURST_BYTES || self.pipeline.owed.len() > OWED
    }

    /// The next messages are for this shard: what is owed by another comes first.
    pub(super) async fn aim(&mut self, shard: ShardId) -> Outcome {
        self.give_kept();
        if self.pipeline.target != Some(shard) {
            self.drain(false).await?;
            self.pipeline.target = Some(shard);
        }
        Ok(())
    }

    /// Sync: the implicit transaction of the pipeline ends.
    pub(super) async fn sync(&mut self) -> Outcome {
        if self.end_pipeline().await? {
            self.end_statement().await?;
            self.ready();
        }
        Ok(())
    }

    /// A Query message in the middle of a pipeline: it belongs to the pipeline's transaction and ends it, without a
    /// ReadyForQuery of the pipeline's own. False when an error came to light: then the Query is skipped like everything
    /// up to Sync.
    pub(super) async fn join_pipeline(&mut self) -> Outcome<bool> {
        if !self.pipeline.open {
            return Ok(true);
        }
        let drained = self.drain(false).await;
        self.settle_pipeline(drained.map(|_| ())).await?;
        if self.pipeline.skipping {
            self.client.flush().await.map_err(|_| Failure::Gone)?;
            return Ok(false);
        }
        if self.backends.transaction.state == State::Idle && self.backends.held.iter().any(|h| h.unsynced) {
            let begun = self.begin_unsynced("BEGIN").await;
            self.settle_pipeline(begun).await?;
            if self.pipeline.skipping {
                return Ok(false);
            }
            self.backends.transaction.state = State::Implicit;
        }
        if self.backends.transaction.state == State::Idle {
            let ready = self.before_commit().await;
            self.settle_pipeline(ready).await?;
            if self.pipeline.skipping {
                return Ok(false);
            }
        }
        if !self.end_unsynced(true).await {
            self.fail_transaction();
            self.pipeline.skipping = true;
            return Ok(false);
        }
        self.close_pipeline();
        if self.backends.transaction.state == State::Idle {
            self.end_implicit(true).await?;
        }
        Ok(true)
    }

    /// BEGIN on every connection whose pipeline has begun an implicit transaction: it becomes a block.
    pub(super) async fn begin_unsynced(&mut self, begin: &str) -> Outcome {
        for held in &mut self.backends.held {
            if held.unsynced && !held.joined {
                run_on(held, begin).await?;
                held.joined = true;
            }
        }
        Ok(())
    }

    /// What the outcome of a message means for the pipeline: an error makes it skip to Sync.
    pub(super) async fn settle_pipeline(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) if self.has_lost_state() => Err(Failure::Fatal(error)),
            Err(Failure::Error(error)) => self.fail_pipeline(&error).await,
            Err(Failure::Reported) => {
                self.fail_transaction();
                self.pipeline.skipping = true;
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    fn close_pipeline(&mut self) {
        self.pipeline.owed.clear();
        self.pipeline.kept.clear();
        self.pipeline.skipping = false;
        self.pipeline.open = false;
        self.pipeline.failed = None;
        self.pipeline.target = None;
        self.pipeline.swallowed = false;
    }

    /// The Sync of a pipeline that has run one statement and holds no transaction any more.
    pub(super) async fn end_alone(&mut self, committed: bool) -> Outcome {
        self.close_pipeline();
        self.end_implicit(committed).await
    }

    /// Sends Sync to every server connection that is in the pipeline, the writer first. False when the Sync was the
    /// one that a copy swallows: the pipeline goes on then.
    async fn end_pipeline(&mut self) -> Outcome<bool> {
        let mut committed = false;
        if !self.pipeline.skipping && self.listening.awaits_commit() && self.backends.transaction.state == State::Idle {
            let ready = Box::pin(self.before_commit()).await;
            self.settle_pipeline(ready).await?;
        }
        if self.pipeline.skipping {
            self.end_unsynced(false).await;
        } else {
            let mut unsynced = self.backends.held.iter().filter(|h| h.unsynced).map(|h| h.shard);
            let first = unsynced.next();
            // Alone, its Sync goes out together with what waits for it.
            let alone = unsynced.next().is_none() && first == self.pipeline.target;
            let drained = self.drain(alone && first.is_some()).await;
            if std::mem::take(&mut self.pipeline.swallowed) {
                self.settle_pipeline(drained.map(|_| ())).await?;
                return Ok(false);
            }
            match drained {
                Ok(Drained::Ready) => committed = true,
                Ok(Drained::Open) => committed = self.end_unsynced(true).await,
                Err(Failure::Reported) => _ = self.end_unsynced(false).await,
                Err(Failure::Error(error)) if self.has_lost_state() => return Err(Failure::Fatal(error)),
                Err(Failure::Error(error)) => {
                    self.report(&error);
                    self.end_unsynced(false).await;
                }
                Err(other) => return Err(other),
            }
        }
        if !committed {
            self.fail_transaction();
        }
        self.close_pipeline();
        if self.backends.transaction.state == State::Implicit {
            // It was made a block on each shard: the Sync has not ended it.
            let ended = Box::pin(self.end_transaction(committed)).await;
            self.settle_outcome(if committed { ended.map(|_| ()) } else { Ok(()) })?;
        }
        self.end_implicit(committed).await?;
        Ok(true)
    }

    /// The pipeline's own transaction has ended, unless a block is open.
    async fn end_implicit(&mut self, committed: bool) -> Outcome {
        if self.backends.transaction.state != State::Idle {
            return Ok(());
        }
        if committed {
            self.variables.commit();
        } else {
            self.variables.rollback();
        }
        self.settle_listening(committed);
        self.backends.forget_transaction(!committed);
        if !committed {
            self.changed_temporary().await?;
        }
        Ok(())
    }

    /// Sync on every connection that is in the middle of a pipeline; true when all have committed. To roll an implicit
    /// transaction back it is made to fail first: a bare Sync would commit it.
    async fn end_unsynced(&mut self, mut commit: bool) -> bool {
        let writer = self.backends.transaction.writers.first().copied();
        let mut ended = Vec::new();
        let mut failures = Vec::new();
        self.backends.held.sort_by_key(|h| (Some(h.shard) != writer, h.shard));
        for held in &mut self.backends.held {
            if !held.unsynced {
                continue;
            }
            held.unsynced = false;
            if !commit && !held.joined && self.pipeline.failed != Some(held.shard) {
                frontend::put_parse(&mut held.lease.io.write, b"", b"rollback of a failed pipeline", &[]);
            }
            frontend::put_empty(&mut held.lease.io.write, frontend::SYNC);
            ended.push(held.shard);
            match held.lease.answer(backend::READY).await {
                Ok(answer) if commit => held.lease.news.extend_from_slice(&answer.notices),
                Ok(_) => {}
                // An error that was asked for, or one of a pipeline that has failed already.
                Err(_) if !commit => {}
                Err(error) => {
                    failures.push(error);
                    commit = false;
                }
            }
        }
        for shard in ended {
            self.note_changes(shard);
        }
        for error in &failures {
            self.report(error);
        }
        commit
    }

    /// COMMIT or ROLLBACK inside a pipeline without BEGIN: ends the implicit transaction so far.
    pub(super) async fn end_pipeline_transaction(&mut self, commit: bool) -> Outcome<bool> {
        if commit {
            Box::pin(self.before_commit()).await?;
        }
        let mut shards = Vec::new();
        for held in &mut self.backends.held {
            if held.unsynced {
                let answer = run_on(held, if commit { "COMMIT" } else { "ROLLBACK" }).await?;
                drop(answer);
                shards.push(held.shard);
            }
        }
        for shard in shards {
            self.note_changes(shard);
        }
        self.end_implicit(commit).await?;
        self.variables.begin();
        Ok(commit)
    }

    /// Sends what waits for the target shard and relays its replies, until everything owed has come. Afterwards nothing
    /// is owed, whatever the outcome.
    ///
    /// # Errors
    /// `Reported`: the server's error, which the client has; others as always.
    pub(super) async fn drain(&mut self, sync: bool) -> Outcome<Drained> {
        self.give_kept();
        give_locals(&mut self.pipeline.owed, &mut self.client.write, None);
        let shard = match self.pipeline.target {
            Some(shard) if sync || !self.pipeline.owed.is_empty() => shard,
            _ => return Ok(Drained::Open),
        };
        let mut executed = std::mem::take(&mut self.pipeline.executed);
        let started = Instant::now();
        let outcome = self.relay_pipeline(shard, sync, &mut executed).await;
        for (index, planned) in executed.iter().enumerate() {
            let ok = outcome.is_ok() || index + 1 < executed.len();
            measure::count_statement(&planned.command, measure::ran(&planned.plan), ok, started.elapsed());
        }
        if !self.pipeline.owed.is_empty() {
            let skipped = std::mem::take(&mut self.pipeline.owed);
            self.undo(skipped.into_iter());
        }
        self.note_changes(shard);
        for planned in &executed {
            if let Plan::Rows(rows) = &planned.plan {
                self.pin_after(rows, shard);
            }
        }
        let drained = outcome?;
        for planned in executed.drain(..) {
            if let Plan::Rows(rows) = &planned.plan {
                self.after_whole(rows, shard).await?;
                if planned.command == Command::Schema {
                    self.changed_temporary().await?;
                }
            }
        }
        self.pipeline.executed = executed;
        Ok(drained)
    }

    fn give_kept(&mut self) {
        if !self.pipeline.kept.is_empty() {
            let kept = std::mem::take(&mut self.pipeline.kept);
            self.client.write.extend_from_slice(&kept);
        }
    }

    /// `executed` gets what ran, and what was running when an error came.
    async fn relay_pipeline(
        &mut self,
        shard: ShardId,
        sync: bool,
        executed: &mut Vec<Arc<Planned>>,
    ) -> Outcome<Drained> {
        let Some(held) = self.backends.held.iter_mut().find(|h| h.shard == shard) else {
            return Err(Error::internal("a lease is gone").into());
        };
        if held.lease.dead {
            held.unsynced = false;
            let message = format!("connection to {} was lost", held.lease.place());
            return Err(Error::new(codes::CONNECTION_FAILURE, message).into());
        }
        held.lease.changed.clear();
        frontend::put_empty(&mut held.lease.io.write, if sync { frontend::SYNC } else { frontend::FLUSH });
        held.lease.broken = true;
        let client = &mut self.client;
        let mut relay = Relay::default();
        let owed = &mut self.pipeline.owed;
        let skipped = VecDeque::new();
        let mut exchange = Exchange { owed, executed, skipped, waiting: sync, copying: false, failure: None };
        loop {
            give_locals(exchange.owed, &mut client.write, Some(&mut held.lease));
            if exchange.owed.is_empty() && !exchange.waiting {
                break;
            }
            let mut ran =
                relay.run(&mut held.lease, client, |server, tag, body| exchange.frame(server, tag, body)).await;
            if ran.is_ok() && std::mem::take(&mut exchange.copying) {
                // A Sync that came before the data is swallowed by the server.
                self.pipeline.swallowed |= std::mem::take(&mut exchange.waiting);
                ran = copy::copy_in(&mut held.lease, client).await;
                // So is a Flush.
                frontend::put_empty(&mut held.lease.io.write, frontend::FLUSH);
            }
            if let Err(broken) = ran {
                held.lease.dead = true;
                held.unsynced = false;
                return Err(broken.into());
            }
        }
        held.lease.rows = None;
        let failure = exchange.failure;
        if !exchange.skipped.is_empty() {
            self.pipeline.owed = exchange.skipped;
        }
        let ready = sync && !self.pipeline.swallowed;
        if ready {
            held.unsynced = false;
        }
        if let Some(error) = failure {
            if !ready {
                self.pipeline.failed = Some(shard);
            }
            self.learn_from(&error);
            return Err(Failure::Reported);
        }
        Ok(if ready { Drained::Ready } else { Drained::Open })
    }
}

/// One server's replies to a part of the pipeline.
struct Exchange<'a> {
    owed: &'a mut VecDeque<Owed>,
    executed: &'a mut Vec<Arc<Planned>>,
    /// What was owed when an error came.
    skipped: VecDeque<Owed>,
    /// ReadyForQuery has to come.
    waiting: bool,
    /// The server waits for the client's data.
    copying: bool,
    failure: Option<Error>,
}

impl Exchange<'_> {
    /// What to do with a frame of the server's.
    fn frame(&mut self, server: &mut ServerConnection, tag: Tag, body: &[u8]) -> Result<Action, Error> {
        let action = match tag {
            backend::READY => {
                server.note_ready(body)?;
                self.waiting = false;
                return Ok(Action::SwallowStop);
            }
            backend::ERROR => return self.error(server, body),
            backend::PARAMETER_STATUS => {
                server.note_parameter(body);
                return Ok(Action::Swallow);
            }
            backend::NOTICE | backend::NOTIFICATION | backend::COPY_OUT | backend::COPY_DONE => {
                return Ok(Action::Forward);
            }
            backend::COPY_IN => {
                self.copying = true;
                return Ok(Action::ForwardStop);
            }
            _ => answer_to(self.owed.pop_front(), tag, self.executed)?,
        };
        let stop = match self.owed.front() {
            Some(Owed::Local(_) | Owed::Undo(_) | Owed::Rows(_)) => true,
            Some(_) => false,
            None => !self.waiting,
        };
        Ok(match (action, stop) {
            (Action::Forward, true) => Action::ForwardStop,
            (Action::Swallow, true) => Action::SwallowStop,
            (action, _) => action,
        })
    }

    fn error(&mut self, server: &mut ServerConnection, body: &[u8]) -> Result<Action, Error> {
        if let Some(Owed::Execute(planned)) = self.owed.front() {
            self.executed.push(Arc::clone(planned));
        }
        let error = server.relayed_error(body)?;
        forget_unprepared(server, self.owed);
        doubt_statements(server, &error);
        self.skipped.append(self.owed);
        self.failure.get_or_insert(error);
        Ok(if self.waiting { Action::Forward } else { Action::ForwardStop })
    }
}

/// A statement on the server is not what it was: none of them can be trusted.
pub(super) fn doubt_statements(server: &mut ServerConnection, error: &Error) {
    server.retired |= error.code == codes::INVALID_STATEMENT_NAME || &*error.message == CHANGED_RESULT;
}

/// Gives the replies of our own that are next, and tells the server's connection (where it is at hand) of the rows.
fn give_locals(owed: &mut VecDeque<Owed>, out: &mut BytesMut, mut server: Option<&mut ServerConnection>) {
    loop {
        match (owed.front_mut(), &mut server) {
            (Some(Owed::Local(bytes)), _) => out.extend_from_slice(bytes),
            (Some(Owed::Undo(_)), _) => {}
            (Some(Owed::Rows(rows)), Some(server)) => server.rows = rows.take(),
            _ => return,
        }
        owed.pop_front();
    }
}

/// What a reply means for the client.
fn answer_to(owed: Option<Owed>, tag: Tag, executed: &mut Vec<Arc<Planned>>) -> Result<Action, Error> {
    match (owed, tag) {
        (Some(Owed::OwnParse(_) | Owed::OwnUnnamed), backend::PARSE_COMPLETE)
        | (Some(Owed::OwnBind), backend::BIND_COMPLETE)
        | (Some(Owed::OwnClose(_) | Owed::OwnClosePortal), backend::CLOSE_COMPLETE)
        | (Some(Owed::DescribeRows), backend::NO_DATA) => Ok(Action::Swallow),
        (Some(Owed::Bind), backend::BIND_COMPLETE)
        | (Some(Owed::ClosePortal), backend::CLOSE_COMPLETE)
        | (Some(Owed::DescribeRows), backend::ROW_DESCRIPTION)
        | (Some(Owed::Describe), backend::ROW_DESCRIPTION | backend::NO_DATA)
        | (Some(Owed::ExecuteText), backend::COMMAND_COMPLETE | backend::EMPTY_QUERY | backend::PORTAL_SUSPENDED) => {
            Ok(Action::Forward)
        }
        (
            Some(Owed::Execute(planned)),
            backend::COMMAND_COMPLETE | backend::EMPTY_QUERY | backend::PORTAL_SUSPENDED,
        ) => {
            executed.push(planned);
            Ok(Action::Forward)
        }
        _ => Err(Error::internal(format!("a server's reply of type '{}' was not expected", char::from(tag)))),
    }
}

/// After an error the server skips to Sync: what it would have prepared it has not, what it would have closed is there.
fn forget_unprepared(server: &mut ServerConnection, owed: &VecDeque<Owed>) {
    for owed in owed {
        match owed {
            Owed::OwnParse(number) => {
                server.statements.pop(number);
            }
            Owed::OwnClose(number) => {
                server.statements.put(*number, ());
            }
            _ => {}
        }
    }
}
