//! One connection to one PostgreSQL, logged in.

use crate::catalog::oids::ShardOids;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::net::Connection;
use crate::net::lost;
use crate::pool::CancelTarget;
use crate::pool::CopiedNumbers;
use crate::pool::RowNumbers;
use crate::variables::applied::Applied;
use crate::wire::Status;
use crate::wire::Tag;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::BytesMut;
use lru::LruCache;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// A server connection. `broken` is true from the first byte that is sent until ReadyForQuery says idle and nothing is
/// owed, so that dropping it at any point is safe: the pool closes what is broken.
#[derive(Debug)]
pub struct ServerConnection {
    pub io: Connection,
    pub cancel: Arc<CancelTarget>,
    /// What sessions have set on it.
    pub applied: Applied,
    /// Statements that are prepared on it, by number; the name is `shardway_<number>`.
    pub statements: LruCache<u64, ()>,
    pub status: Status,
    pub broken: bool,
    /// It was lost, or what it owes cannot be told: it is never used again.
    pub dead: bool,
    /// Not to be used by another session: it is closed when it is given back.
    pub retired: bool,
    /// A BEGIN of ours was sent ahead of what comes next: its answer, up to ReadyForQuery, is nobody's.
    pub begun_ahead: bool,
    /// What the server reported last of each parameter.
    pub parameters: BTreeMap<String, String>,
    /// Reported parameters that changed since the session looked.
    pub changed: Vec<String>,
    /// Whole frames that are the client's although they came beside an answer of our own: notifications.
    pub news: BytesMut,
    /// Its object identifiers against the home shard's, unless it is the home shard.
    pub oids: Option<Arc<ShardOids>>,
    /// What is looked into in the rows that come.
    pub rows: Option<Arc<RowNumbers>>,
    /// What is looked into in the data of a COPY that come.
    pub copied: Option<CopiedNumbers>,
    /// It has described something with a type that is not known on the home shard.
    pub unknown_type: bool,
    /// Parse and Close messages whose answers are still to come, outside a client's pipeline.
    unconfirmed: VecDeque<Unconfirmed>,
    /// A frame to forward in place of the one that was just looked at.
    pub instead: Option<BytesMut>,
    /// Characters of the client's text that stand before the part that the server is given.
    pub before: u32,
}

/// A change to the statements prepared on a server that it has not confirmed yet.
#[derive(Debug)]
enum Unconfirmed {
    Parse(u64),
    Close(u64),
}

/// Numbers for portals of our own: a name is never used twice, so that one that an error left open is in nobody's way.
static PORTALS: AtomicU64 = AtomicU64::new(1);

/// The name of a portal of our own. The client's unnamed portal must survive what we run in its transaction.
pub fn own_portal() -> String {
    format!("shardway_{}", PORTALS.fetch_add(1, Ordering::Relaxed))
}

/// What an exchange of our own brought.
#[derive(Debug, Default)]
pub struct Answer {
    /// Text or binary values as the server sent them, row by row.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    pub tag: String,
    /// Whole frames of notices that came meanwhile.
    pub notices: BytesMut,
}

impl ServerConnection {
    /// The error that an ErrorResponse tells. A statement that was cancelled to end a deadlock over several shards is told
    /// as PostgreSQL tells its own (DeadLockReport in deadlock.c).
    pub fn error(&self, body: &[u8]) -> Error {
        let error = backend::error(body);
        if error.code == codes::QUERY_CANCELED && self.cancel.deadlocked.swap(false, Ordering::AcqRel) {
            return Error::new(codes::DEADLOCK_DETECTED, "deadlock detected")
                .detail("Transactions that hold locks on different shards wait for each other.");
        }
        error
    }

    /// As [`ServerConnection::error`], for a frame that goes to the client as it is: where it is told otherwise, that is
    /// what goes.
    ///
    /// # Errors
    /// The server's last words: it has ended the connection with them.
    pub fn relayed_error(&mut self, body: &[u8]) -> Result<Error> {
        let error = self.error(body);
        if error.is_fatal() {
            return Err(self.ended(&error));
        }
        let moves = self.before > 0 && error.position.is_some();
        if error.code != codes::DEADLOCK_DETECTED && !moves {
            return Ok(error);
        }
        let error = backend::moved(error, self.before);
        let mut own = BytesMut::new();
        backend::put_error(&mut own, &error);
        self.instead = Some(own);
        Ok(error)
    }

    pub fn new(io: Connection, cancel: CancelTarget, parameters: BTreeMap<String, String>) -> Self {
        ServerConnection {
            io,
            cancel: Arc::new(cancel),
            applied: Applied::default(),
            // Bounded by hand: what is evicted must be closed on the server too.
            statements: LruCache::unbounded(),
            status: Status::Idle,
            broken: false,
            dead: false,
            retired: false,
            begun_ahead: false,
            parameters,
            changed: Vec::new(),
            news: BytesMut::new(),
            oids: None,
            rows: None,
            copied: None,
            unknown_type: false,
            unconfirmed: VecDeque::new(),
            instead: None,
            before: 0,
        }
    }

    /// It must not go back to the pool: something is open or owed on it, or may still come.
    pub fn is_spent(&self) -> bool {
        self.broken || self.dead || self.retired || self.cancel.uncertain.load(Ordering::Acquire)
    }

    /// The server's address, for messages.
    pub fn place(&self) -> String {
        self.cancel.connector.to_string()
    }

    pub fn lost(&self, error: &std::io::Error) -> Error {
        lost(&format!("connection to {} lost", self.place()), error)
    }

    /// The error for a connection that the server has ended with a FATAL error.
    pub fn ended(&mut self, last_words: &Error) -> Error {
        self.dead = true;
        let message = format!("connection to {} lost: {}", self.place(), last_words.message);
        Error::new(codes::CONNECTION_FAILURE, message).with_last_words(last_words.clone().without_raw())
    }

    /// A Parse was sent that adds a statement.
    pub fn parsing(&mut self, number: u64) {
        self.unconfirmed.push_back(Unconfirmed::Parse(number));
    }

    /// A Close was sent that removes a statement.
    pub fn closing(&mut self, number: u64) {
        self.unconfirmed.push_back(Unconfirmed::Close(number));
    }

    /// ParseComplete or CloseComplete has come.
    pub fn confirmed(&mut self) {
        self.unconfirmed.pop_front();
    }

    /// Takes a reply for the confirmation that is due next; false when it is something else.
    pub fn confirms(&mut self, tag: Tag) -> bool {
        let due = match self.unconfirmed.front() {
            Some(Unconfirmed::Parse(_)) => backend::PARSE_COMPLETE,
            Some(Unconfirmed::Close(_)) => backend::CLOSE_COMPLETE,
            None => return false,
        };
        let confirms = tag == due;
        if confirms {
            self.confirmed();
        }
        confirms
    }

    /// No confirmation is due.
    pub fn is_confirmed(&self) -> bool {
        self.unconfirmed.is_empty()
    }

    /// An error has come: what was not confirmed before it has not happened.
    pub fn not_confirmed(&mut self) {
        for change in std::mem::take(&mut self.unconfirmed) {
            match change {
                Unconfirmed::Parse(number) => {
                    self.statements.pop(&number);
                }
                Unconfirmed::Close(number) => {
                    self.statements.put(number, ());
                }
            }
        }
    }

    /// Notes an asynchronous ParameterStatus.
    pub fn note_parameter(&mut self, body: &[u8]) {
        if let Ok((name, value)) = backend::parameter_status(body) {
            let name = String::from_utf8_lossy(name).into_owned();
            let value = String::from_utf8_lossy(value).into_owned();
            if self.parameters.insert(name.clone(), value.clone()) != Some(value) {
                self.changed.push(name);
            }
        }
    }

    pub fn note_ready(&mut self, body: &[u8]) -> Result<Status> {
        self.status = backend::ready_status(body)?;
        self.copied = None;
        self.broken = self.status != Status::Idle;
        Ok(self.status)
    }

    /// Puts a BEGIN that cannot fail before whatever is sent next, so that it costs no round trip.
    pub fn begin_ahead(&mut self, text: &str) {
        self.broken = true;
        self.begun_ahead = true;
        frontend::put_query(&mut self.io.write, text.as_bytes());
    }

    /// True when a frame belongs to the answer of a BEGIN that was sent ahead.
    ///
    /// # Errors
    /// The BEGIN has failed: what was sent behind it ran outside the transaction, so the connection is given up.
    pub fn is_ahead(&mut self, tag: u8, body: &[u8]) -> Result<bool> {
        if !self.begun_ahead || backend::is_asynchronous(tag) {
            return Ok(false);
        }
        match tag {
            backend::READY => self.begun_ahead = false,
            backend::ERROR => {
                let error = self.ended(&backend::error(body));
                return Err(error);
            }
            _ => {}
        }
        Ok(true)
    }

    /// Waits for the next frame that is no asynchronous one; notices are handed to `notices`, notifications kept as
    /// `news`. Cancel-safe.
    ///
    /// # Errors
    /// 08006 when the server is gone, or says that it goes; the connection is dead then.
    pub async fn next(&mut self, notices: &mut BytesMut) -> Result<(u8, BytesMut)> {
        if self.dead {
            return Err(Error::new(codes::CONNECTION_FAILURE, format!("connection to {} was lost", self.place())));
        }
        loop {
            let frame = self.io.cut().inspect_err(|_| self.dead = true)?;
            if let Some((tag, mut body)) = frame {
                if !backend::is_whole(tag, &body) {
                    self.dead = true;
                    return Err(backend::malformed(tag));
                }
                if self.is_ahead(tag, &body)? {
                    continue;
                }
                self.translate(tag, &mut body).inspect_err(|_| self.dead = true)?;
                match tag {
                    backend::PARAMETER_STATUS => self.note_parameter(&body),
                    backend::NOTICE => frontend::frame(notices, tag, |b| b.extend_from_slice(&body)),
                    backend::NOTIFICATION => frontend::frame(&mut self.news, tag, |b| b.extend_from_slice(&body)),
                    backend::ERROR => {
                        let error = backend::error(&body);
                        if error.is_fatal() {
                            return Err(self.ended(&error));
                        }
                        return Ok((tag, body));
                    }
                    _ => return Ok((tag, body)),
                }
                continue;
            }
            match self.io.exchange().await {
                Ok(_) => {}
                Err(e) => {
                    self.dead = true;
                    return Err(self.lost(&e));
                }
            }
        }
    }

    /// Runs a text of our own as a simple Query and gives the rows of its last statement.
    ///
    /// # Errors
    /// The first error that the server reports, after ReadyForQuery; 08006 when it is gone.
    pub async fn run(&mut self, sql: &str) -> Result<Answer> {
        self.broken = true;
        frontend::put_query(&mut self.io.write, sql.as_bytes());
        self.answer(backend::READY).await
    }

    /// Runs a statement of our own inside an extended pipeline that must go on: unnamed statement, a portal of our own,
    /// Flush, no Sync.
    ///
    /// # Errors
    /// The server's error; it then skips to the next Sync.
    pub async fn run_in_pipeline(&mut self, sql: &str) -> Result<Answer> {
        self.broken = true;
        let portal = own_portal();
        let out = &mut self.io.write;
        frontend::put_parse(out, b"", sql.as_bytes(), &[]);
        frontend::put_bind(out, portal.as_bytes(), b"", frontend::NO_PARAMETERS);
        frontend::put_execute(out, portal.as_bytes(), 0);
        frontend::put_close_portal(out, portal.as_bytes());
        frontend::put_empty(out, frontend::FLUSH);
        self.answer(backend::CLOSE_COMPLETE).await
    }

    /// Reads up to a message of type `last` (or an error, when `last` is not ReadyForQuery).
    ///
    /// # Errors
    /// The first error that the server reported; 08006 when it is gone, or what it says makes no sense.
    pub async fn answer(&mut self, last: u8) -> Result<Answer> {
        let mut answer = Answer::default();
        let mut failure = None;
        loop {
            let (tag, body) = self.next(&mut answer.notices).await?;
            if tag == backend::ERROR {
                failure.get_or_insert(self.error(&body));
                if last != backend::READY {
                    break;
                }
            }
            // What cannot be read leaves the rest of the answer unread.
            self.take_in(&mut answer, tag, &body).inspect_err(|_| self.dead = true)?;
            if tag == last {
                break;
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    fn take_in(&mut self, answer: &mut Answer, tag: u8, body: &[u8]) -> Result<()> {
        match tag {
            backend::ROW_DESCRIPTION => answer.rows.clear(),
            backend::DATA_ROW => {
                let row = crate::wire::read::row_values(body)?;
                answer.rows.push(row.into_iter().map(|v| v.map(<[u8]>::to_vec)).collect());
            }
            backend::COMMAND_COMPLETE => {
                answer.tag = String::from_utf8_lossy(body).trim_end_matches('\0').to_owned();
            }
            backend::READY => {
                self.note_ready(body)?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Answer {
    /// The first column of the first row as text.
    pub fn text(&self) -> Option<String> {
        let value = self.rows.first()?.first()?.as_ref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}
