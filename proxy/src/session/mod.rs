//! One client's life: handshake, messages, answers.
//!
//! ```text
//! handshake → run ─┬─ simple   (Query)
//!                  └─ extended (Parse, Bind, Describe, Execute, Close, Flush, Sync) → pipeline
//!                        both → lookup (text → plan) → rows | command | everywhere
//! ```

pub mod atomic;
mod burst;
pub mod clock;
pub mod command;
mod copied;
pub mod cursor;
mod dump;
pub mod encoding;
pub mod everywhere;
pub mod explain;
pub mod extended;
pub mod function_call;
pub mod gather;
pub mod handshake;
pub mod listen;
pub mod load;
pub mod lookup;
pub mod measure;
pub mod peers;
pub mod pipeline;
pub mod portal;
pub mod prepare_transaction;
pub mod prepared;
pub mod reference;
pub mod registry;
pub mod reload;
pub mod reported;
pub mod rows;
pub mod server_prepared;
pub mod settings;
pub mod simple;
pub mod writes;

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::error::Severity;
use crate::error::codes;
use crate::exec::backends::Backends;
use crate::exec::backends::Held;
use crate::exec::backends::State as TransactionState;
use crate::exec::relay::Broken;
use crate::limits;
use crate::net::Connection;
use crate::session::listen::Listening;
use crate::session::pipeline::Pipeline;
use crate::session::portal::Portal;
use crate::session::prepared::Prepared;
use crate::session::registry::Seat;
use crate::session::registry::Shared;
use crate::session::registry::State;
use crate::session::reported::Reported;
use crate::sql::normalize::Normalized;
use crate::variables::Variables;
use crate::wire;
use crate::wire::Tag;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::BytesMut;
use hashbrown::HashMap;
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a statement did not end well.
#[derive(Debug)]
pub enum Failure {
    /// To be told to the client.
    Error(Error),
    /// A server has told it to the client already.
    Reported,
    /// The client is gone: there is nobody to tell.
    Gone,
    /// To be told, and then the session ends.
    Fatal(Error),
}

impl From<Error> for Failure {
    /// A server that has ended its session at work for the client ends the client's too, as PostgreSQL does; a
    /// connection that is lost without a word fails the transaction only.
    fn from(mut error: Error) -> Self {
        if let Some(last_words) = error.last_words.take() {
            return Failure::Fatal(last_words.with_severity(Severity::Fatal));
        }
        if error.is_fatal() && error.raw.is_none() { Failure::Fatal(error) } else { Failure::Error(error) }
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Client => Failure::Gone,
            // What a server does wrong is no fault of the client's: its session goes on.
            Broken::Server { error, torn: false } => error.with_severity(Severity::Error).into(),
            Broken::Server { mut error, torn: true } => {
                error.last_words = None;
                Failure::Fatal(error.with_severity(Severity::Fatal))
            }
            Broken::Protocol(error) => Failure::Fatal(error),
        }
    }
}

pub type Outcome<T = ()> = std::result::Result<T, Failure>;

/// One client, logged in.
pub struct Session {
    pub shared: Arc<Shared>,
    /// The configuration that it works under.
    state: Arc<State>,
    pub client: Connection,
    pub backends: Backends,
    pub variables: Variables,
    /// Scratch for scanning texts.
    scan: Normalized,
    key: Vec<u8>,
    prepared: HashMap<Vec<u8>, Arc<Prepared>>,
    portals: HashMap<Vec<u8>, Portal>,
    /// How many savepoints there were when a portal was made, where there were any.
    depths: HashMap<Vec<u8>, usize>,
    /// Portals made in a failed transaction: only they can still be run in it.
    late: HashSet<Vec<u8>>,
    pipeline: Pipeline,
    /// Cursors of DECLARE, and the shard where each is.
    cursors: HashMap<String, Cursor>,
    /// Temporary tables, which live on the home shard's pinned connection.
    temporary: Vec<String>,
    /// 0 for a session that has made nothing temporary. Else a number that no other session has and that changes with
    /// each change of what it has made: plans and descriptions made under it are no other session's, nor of another time.
    own_names: u64,
    listening: Listening,
    /// `SET shardway.shard`
    forced: Option<ShardId>,
    /// How the statement at work is run.
    ran: measure::Ran,
    /// Reported parameters as they are now.
    reported: Reported,
    /// The part of a plan's key that follows from the session, and what it was made of.
    context_key: Vec<u8>,
    context_of: Option<(u64, Option<ShardId>, bool, u64)>,
    /// Those that the client does not know yet, with the values that it knows.
    untold: BTreeMap<String, Option<String>>,
    /// In the middle of a Query of several statements.
    several: bool,
    /// Characters of that Query before the statement at work.
    before: u32,
    /// Bytes up to what is due, counted as [`Connection::sent`] is.
    told: u64,
    /// Its place in the registry, left when the session ends, however that happens.
    seat: Seat,
}

/// A cursor of DECLARE.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    pub shard: ShardId,
    /// WITH HOLD: it outlives its transaction.
    pub hold: bool,
}

/// The home shard: the first one listed.
pub const HOME: ShardId = ShardId(0);

/// A pinned connection on which nothing is under way.
fn is_quiet_pin(held: &Held) -> bool {
    held.pinned.is_some() && !held.unsynced && !held.lease.dead
}

/// See [`Session::beginning`].
enum Beginning {
    Good,
    Unknown(Tag),
    Wrong,
}

fn state_lost() -> Failure {
    let message = "the server connection that held this session's state was lost";
    Failure::Fatal(Error::fatal(codes::CONNECTION_FAILURE, message))
}

/// Everything after the handshake, until the client goes.
pub async fn run(mut session: Box<Session>) {
    let end = session.serve().await;
    match end {
        Ok(()) | Err(Failure::Gone | Failure::Reported) => {}
        Err(Failure::Fatal(error) | Failure::Error(error)) => {
            measure::count_error(&error);
            let mut error = error.without_raw();
            if let Some(last_words) = error.last_words.take() {
                backend::put_error(&mut session.client.write, &error);
                error = last_words;
            }
            backend::put_error(&mut session.client.write, &error.with_severity(Severity::Fatal));
            let _ = session.client.flush().await;
        }
    }
    session.backends.close().await;
}

impl Session {
    async fn serve(&mut self) -> Outcome {
        loop {
            let Some((tag, body)) = self.next_message().await? else { return Ok(()) };
            if tag == frontend::TERMINATE {
                return Box::pin(self.say_goodbye()).await;
            }
            self.message(tag, body).await?;
        }
    }

    /// The client's next message; what is owed to it is written first. `None` when it has gone, or when an idle session
    /// has to end.
    async fn next_message(&mut self) -> Outcome<Option<(Tag, BytesMut)>> {
        loop {
            let beginning = match self.client.cut() {
                Ok(Some((tag, body))) if body.len() > limits::SHORT_MESSAGE_BYTES && frontend::is_short(tag) => {
                    Beginning::Wrong
                }
                Ok(Some(frame)) => return Ok(Some(frame)),
                readable => self.beginning(readable.is_ok()),
            };
            match beginning {
                Beginning::Good => {}
                Beginning::Unknown(tag) => return Err(Box::pin(self.unknown_message(tag)).await),
                Beginning::Wrong => {
                    Box::pin(self.settle_owed()).await?;
                    Box::pin(self.say_goodbye()).await?;
                    return Err(Failure::Gone);
                }
            }
            self.take_news()?;
            if !self.backends.transaction.is_block() && !self.pipeline.is_open() {
                self.hear()?;
            }
            self.answers_due().await?;
            let idle = !self.backends.transaction.is_block() && !self.pipeline.is_open();
            if idle && self.shared.is_draining() {
                return Err(Failure::Fatal(Error::fatal(
                    codes::ADMIN_SHUTDOWN,
                    "terminating connection due to administrator command",
                )));
            }
            let open = match self.backends.held.iter().any(is_quiet_pin) {
                false => self.wait(idle).await,
                true => Box::pin(self.wait_beside_pins(idle)).await?,
            };
            if !open {
                return Ok(None);
            }
        }
    }

    /// What to make of a message that is not there whole yet, or (not `readable`) never will be: its type alone may be
    /// enough to end the session, with a word; a length that it cannot have ends it without one (SocketBackend in
    /// postgres.c).
    fn beginning(&self, readable: bool) -> Beginning {
        let Some(&tag) = self.client.read.first() else { return Beginning::Good };
        if !frontend::is_known(tag) {
            return Beginning::Unknown(tag);
        }
        let longest = if frontend::is_short(tag) { limits::SHORT_MESSAGE_BYTES + wire::HEAD } else { usize::MAX };
        let head = self.client.head();
        match readable && head.is_ok_and(|head| head.is_none_or(|head| head.total <= longest)) {
            true => Beginning::Good,
            false => Beginning::Wrong,
        }
    }

    /// The end of a session whose client has sent what is no message, behind the answers to what was one.
    async fn unknown_message(&mut self, tag: Tag) -> Failure {
        match self.settle_owed().await {
            Ok(()) => Failure::Fatal(Error::protocol(format!("invalid frontend message type {tag}"))),
            Err(failure) => failure,
        }
    }

    /// Has the servers answer what is owed, as if Flush had come.
    async fn settle_owed(&mut self) -> Outcome {
        if !self.pipeline.is_open() || self.pipeline.skipping {
            return Ok(());
        }
        let drained = Box::pin(self.drain(false)).await.map(|_| ());
        self.settle_pipeline(drained).await
    }

    /// PostgreSQL would have written all that is there: it writes with each ReadyForQuery and each notice.
    fn due_so_far(&mut self) {
        self.told = self.client.sent + self.client.write.len() as u64;
    }

    /// Writes what the client would have by now: inside a pipeline, what came before it.
    async fn say_goodbye(&mut self) -> Outcome {
        if self.pipeline.is_open() && !self.pipeline.skipping {
            let due = usize::try_from(self.told.saturating_sub(self.client.sent)).unwrap_or(usize::MAX);
            self.client.write.truncate(due);
        }
        self.client.flush().await.map_err(|_| Failure::Gone)
    }

    /// Writes what is due. Inside a pipeline answers wait for Flush or Sync, or until there are many; an error is told
    /// at once, as PostgreSQL does.
    async fn answers_due(&mut self) -> Outcome {
        if self.client.write.is_empty() {
            self.told = 0;
            return Ok(());
        }
        // What came before the pipeline does not wait for its end.
        let due = !self.pipeline.is_open() || self.pipeline.skipping || self.told > self.client.sent;
        if due || self.client.write.len() >= limits::WRITE_BURST_BYTES {
            self.client.flush().await.map_err(|_| Failure::Gone)?;
            self.client.shrink();
            measure::count_bytes(&mut self.client);
            self.told = 0;
        }
        Ok(())
    }

    /// Waits for the client, and for the drain where the session is `idle`; false when the client has gone.
    async fn wait(&mut self, idle: bool) -> bool {
        let _resting = idle.then(|| self.shared.registry.rest());
        tokio::select! {
            biased;
            got = self.client.fill() => matches!(got, Ok(n) if n > 0),
            () = self.seat.drained(), if idle => true,
            () = self.listening.arrival(), if idle => true,
        }
    }

    /// The same, and for what pinned server connections have to say.
    async fn wait_beside_pins(&mut self, idle: bool) -> Outcome<bool> {
        let pins = self.backends.held.iter_mut().filter(|h| is_quiet_pin(h)).map(|h| Box::pin(h.lease.io.fill()));
        let pins = futures::future::select_all(pins);
        let _resting = idle.then(|| self.shared.registry.rest());
        tokio::select! {
            biased;
            got = self.client.fill() => Ok(matches!(got, Ok(n) if n > 0)),
            (got, ..) = pins => match got {
                Ok(n) if n > 0 => Ok(true),
                _ => Err(state_lost()),
            },
            () = self.seat.drained(), if idle => Ok(true),
            () = self.listening.arrival(), if idle => Ok(true),
        }
    }

    /// What pinned server connections have said while nobody asked: notifications are passed on.
    fn take_news(&mut self) -> Outcome {
        let mut changed = Vec::new();
        for held in self.backends.held.iter_mut().filter(|h| is_quiet_pin(h)) {
            while let Some((tag, body)) = held.lease.io.cut()? {
                if held.lease.is_ahead(tag, &body)? {
                    continue;
                }
                match tag {
                    backend::NOTIFICATION | backend::NOTICE => {
                        frontend::frame(&mut held.lease.news, tag, |b| b.extend_from_slice(&body));
                    }
                    backend::PARAMETER_STATUS => held.lease.note_parameter(&body),
                    backend::ERROR => return Err(held.lease.ended(&backend::error(&body)).into()),
                    _ => {}
                }
                changed.push(held.shard);
            }
        }
        for shard in changed {
            self.note_changes(shard);
        }
        Ok(())
    }

    async fn message(&mut self, tag: Tag, body: BytesMut) -> Outcome {
        if self.pipeline.skipping && tag != frontend::SYNC {
            return if frontend::is_known(tag) { Ok(()) } else { Err(Box::pin(self.unknown_message(tag)).await) };
        }
        if self.backends.transaction.state == TransactionState::Idle && !self.pipeline.is_open() {
            self.follow_reload()?;
        }
        match tag {
            frontend::QUERY => self.query(&body).await,
            frontend::BIND if self.burst(&body).await? => Ok(()),
            frontend::PARSE
            | frontend::BIND
            | frontend::DESCRIBE
            | frontend::EXECUTE
            | frontend::CLOSE
            | frontend::FLUSH
            | frontend::SYNC => self.extended(tag, &body).await,
            // Left over from a copy that ended early.
            frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL => Ok(()),
            frontend::FUNCTION_CALL => self.function_call(&body).await,
            _ => Err(Box::pin(self.unknown_message(tag)).await),
        }
    }

    /// Tells the client of an error, and counts it.
    fn report(&mut self, error: &Error) {
        measure::count_error(error);
        backend::put_error(&mut self.client.write, error);
    }

    /// A failed statement fails the transaction.
    fn fail_transaction(&mut self) {
        let transaction = &mut self.backends.transaction;
        if transaction.state == TransactionState::Open {
            transaction.state = TransactionState::Failed;
            self.late.clear();
        }
    }

    /// 25P02 in a failed transaction.
    fn refuse_if_failed(&self) -> Result<()> {
        if self.backends.transaction.state == TransactionState::Failed {
            return Err(Error::new(
                codes::IN_FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// A connection is gone that held state of the session.
    fn has_lost_state(&self) -> bool {
        self.backends.held.iter().any(|h| h.pinned.is_some() && h.lease.dead)
    }

    /// After a statement outside a transaction: connections go back, and what lived in it is gone.
    ///
    /// # Errors
    /// Fatal, when a connection was lost that held state of the session: temporary tables, locks.
    async fn end_statement(&mut self) -> Outcome {
        if self.has_lost_state() {
            return Err(state_lost());
        }
        if self.backends.transaction.state == TransactionState::Idle {
            self.portals.clear();
            if self.listening.is_about() {
                Box::pin(self.catch_up()).await;
                self.hear()?;
            }
            self.backends.give_back().await;
        }
        Ok(())
    }

    /// The shard for what any shard can answer: one that is held already, else home.
    fn nearest(&self) -> ShardId {
        self.backends.participants().next().or_else(|| self.backends.held.first().map(|h| h.shard)).unwrap_or(HOME)
    }

    /// ReadyForQuery, and before it what has changed of the reported parameters since the last one (PostgreSQL's
    /// ReportChangedGUCOptions): what was changed back is not told.
    fn ready(&mut self) {
        let mut untold: Vec<_> = std::mem::take(&mut self.untold).into_iter().collect();
        // In the order of PostgreSQL's table of parameters (guc_name_compare).
        untold.sort_by_cached_key(|(name, _)| name.to_ascii_lowercase());
        for (name, known) in untold {
            if let Some(value) = self.reported.get(&name)
                && known.as_ref() != Some(value)
            {
                backend::put_parameter_status(&mut self.client.write, &name, value);
            }
        }
        backend::put_ready(&mut self.client.write, self.backends.transaction.status());
        self.due_so_far();
    }
}
