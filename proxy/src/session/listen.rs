//! LISTEN, UNLISTEN and NOTIFY of a session.
//!
//! A session listens without a server connection of its own (`exec::listen`). As in PostgreSQL (async.c), LISTEN and
//! UNLISTEN take effect when their transaction commits, and notifications are given between transactions.

use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::listen::Listener;
use crate::exec::listen::Mailbox;
use crate::plan::PinReason;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::sql::lexer;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use crate::sql::literal;
use crate::wire::backend;
use std::sync::Arc;

/// What a session listens on, and what its transaction changes of that.
#[derive(Default)]
pub struct Listening {
    /// In the order of their LISTEN.
    channels: Vec<String>,
    /// Of the open transaction, in their order.
    changes: Vec<Change>,
    /// How many changes there were when each of the open savepoints was made.
    savepoints: Vec<usize>,
    subscription: Option<Subscription>,
    /// The open transaction has notified.
    notifies: bool,
    announced: Option<Announced>,
}

enum Change {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

/// A mailbox in which a listener puts what comes; given up when dropped.
struct Subscription {
    listener: Arc<Listener>,
    mailbox: Arc<Mailbox>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listener.keep_only(&self.mailbox, &[]);
    }
}

/// What comes from a server process is said to be this client's; taken back when dropped.
struct Announced {
    listener: Arc<Listener>,
    process: i32,
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.listener.take_back(self.process);
    }
}

impl Listening {
    pub fn savepoint(&mut self) {
        self.savepoints.push(self.changes.len());
    }

    /// RELEASE of the savepoint at a position: its changes are those of the one around it.
    pub fn release(&mut self, at: usize) {
        self.savepoints.truncate(at);
    }

    /// ROLLBACK TO the savepoint at a position, which stays.
    pub fn rollback_to(&mut self, at: usize) {
        if let Some(&count) = self.savepoints.get(at) {
            self.changes.truncate(count);
        }
        self.savepoints.truncate(at + 1);
    }

    /// It listens, or has notified.
    pub fn is_about(&self) -> bool {
        self.subscription.is_some() || self.notifies || self.announced.is_some()
    }

    /// Something is to be done before the open transaction commits.
    pub fn awaits_commit(&self) -> bool {
        self.notifies || self.has_changes()
    }

    /// LISTEN or UNLISTEN has run in the open transaction.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The channels once the transaction has committed.
    fn after_commit(&self) -> Vec<String> {
        let mut channels = self.channels.clone();
        for change in &self.changes {
            match change {
                Change::Listen(channel) if channels.contains(channel) => {}
                Change::Listen(channel) => channels.push(channel.clone()),
                Change::Unlisten(channel) => channels.retain(|c| c != channel),
                Change::UnlistenAll => channels.clear(),
            }
        }
        channels
    }

    /// Waits until a notification may have come; forever where there is no subscription. Cancel-safe.
    pub async fn arrival(&self) {
        match &self.subscription {
            Some(subscription) => subscription.mailbox.arrival().await,
            None => std::future::pending().await,
        }
    }
}

impl Session {
    pub(super) async fn listen(&mut self, channel: &str, text: &str) -> Outcome {
        if self.is_foreign() {
            // Channels and payloads are converted for a connection, not for a client: it needs one of its own.
            self.note_bound(HOME);
            self.forward(HOME, text.as_bytes()).await?;
            self.pin(HOME, PinReason::Listen);
            return Ok(());
        }
        self.change_listening(Change::Listen(channel.to_owned())).await?;
        backend::put_command_complete(&mut self.client.write, "LISTEN");
        Ok(())
    }

    pub(super) async fn unlisten(&mut self, channel: Option<&str>, text: &str) -> Outcome {
        self.change_listening(match channel {
            Some(channel) => Change::Unlisten(channel.to_owned()),
            None => Change::UnlistenAll,
        })
        .await?;
        // It may listen itself: a function can, and a session in another encoding.
        if self.backends.held.iter().any(|held| held.pinned.is_some()) {
            return self.forward(HOME, text.as_bytes()).await;
        }
        backend::put_command_complete(&mut self.client.write, "UNLISTEN");
        Ok(())
    }

    /// DISCARD ALL.
    pub(super) async fn unlisten_all(&mut self) -> Outcome {
        if self.listening.channels.is_empty() && !self.listening.has_changes() {
            return Ok(());
        }
        self.change_listening(Change::UnlistenAll).await
    }

    async fn change_listening(&mut self, change: Change) -> Outcome {
        self.listening.changes.push(change);
        if self.backends.transaction.state == State::Idle && !self.pipeline.is_open() {
            let ready = self.before_commit().await;
            self.settle_listening(ready.is_ok());
            ready?;
        }
        Ok(())
    }

    pub(super) async fn notify(&mut self, text: &str) -> Outcome {
        self.before_notify().await?;
        self.forward(HOME, text.as_bytes()).await
    }

    /// A statement will notify on the home shard.
    pub(super) async fn before_notify(&mut self) -> Outcome {
        self.note_bound(HOME);
        self.listening.notifies = true;
        // Outside a transaction its end is the commit; else `before_commit` does this.
        if !self.pipeline.is_open() {
            self.backends.acquire(HOME, &self.variables).await?;
            self.announce();
        }
        Ok(())
    }

    /// What comes from the server process at work is this client's, by the number that the client knows itself by.
    fn announce(&mut self) {
        let listener = Arc::clone(&self.backends.database.listener);
        let client = self.seat.number;
        let Some(held) = self.backends.find(HOME) else { return };
        let process = held.lease.cancel.pid;
        if self.listening.announced.is_none() && listener.announce(process, client) {
            self.listening.announced = Some(Announced { listener, process });
        }
    }

    /// What LISTEN needs must be there before its transaction commits, so that nothing committed afterwards is missed.
    ///
    /// # Errors
    /// The connection that listens could not be had: the transaction cannot commit.
    pub(super) async fn before_commit(&mut self) -> Outcome {
        if self.listening.notifies {
            self.announce();
        }
        if !self.listening.has_changes() {
            return Ok(());
        }
        let mut channels = self.listening.after_commit();
        channels.retain(|channel| !self.listening.channels.contains(channel));
        if channels.is_empty() {
            return Ok(());
        }
        let connector = self.backends.connector(HOME)?;
        let database = &self.backends.database;
        let subscription = self
            .listening
            .subscription
            .get_or_insert_with(|| Subscription { listener: Arc::clone(&database.listener), mailbox: Arc::default() });
        subscription.listener.listen(connector, &subscription.mailbox, channels).await?;
        Ok(())
    }

    /// The transaction has ended.
    pub(super) fn settle_listening(&mut self, committed: bool) {
        let listening = &mut self.listening;
        listening.savepoints.clear();
        if listening.changes.is_empty() {
            return;
        }
        if committed {
            listening.channels = listening.after_commit();
        }
        listening.changes.clear();
        if let Some(subscription) = &listening.subscription {
            subscription.listener.keep_only(&subscription.mailbox, &listening.channels);
        }
        if listening.channels.is_empty() {
            listening.subscription = None;
        }
    }

    /// After a statement, before its connections go back: what was notified is heard, so that a client has its own
    /// notifications before ReadyForQuery, and nobody takes them for the next client's.
    pub(super) async fn catch_up(&mut self) {
        let notified = std::mem::take(&mut self.listening.notifies);
        let announced = self.listening.announced.take();
        match &self.listening.subscription {
            Some(subscription) if notified || !self.backends.held.is_empty() => subscription.listener.catch_up().await,
            _ if announced.is_some() => self.backends.database.listener.catch_up().await,
            _ => {}
        }
    }

    /// Gives the client what it has to hear, between transactions.
    ///
    /// # Errors
    /// Fatal, when some of it was lost.
    pub(super) fn hear(&mut self) -> Outcome {
        let Some(subscription) = &self.listening.subscription else { return Ok(()) };
        while let Some(heard) = subscription.mailbox.take().map_err(Failure::Fatal)? {
            // UNLISTEN may have come between.
            if !self.listening.channels.contains(&heard.channel) {
                continue;
            }
            if heard.frame.get(9..).is_some_and(<[u8]>::is_ascii) || !self.is_foreign() {
                self.client.write.extend_from_slice(&heard.frame);
            } else {
                let message = "a notification could not be given in the client's encoding";
                backend::put_notice(&mut self.client.write, "WARNING", &Error::new(codes::NOT_SUPPORTED, message));
            }
        }
        Ok(())
    }

    /// A text with `pg_listening_channels()` replaced by what this session listens on; `None` where that is not needed.
    pub(super) fn with_channels(&self, text: &str) -> Option<String> {
        if self.listening.channels.is_empty() || !shows_channels(text) {
            return None;
        }
        let tokens = lexer::tokenize(text, self.conforming_strings()).ok()?;
        let quoted: Vec<String> = self
            .listening
            .channels
            .iter()
            .map(|c| format!("\"{}\"", c.replace('\\', "\\\\").replace('"', "\\\"")))
            .collect();
        let array = literal::quote(&format!("{{{}}}", quoted.join(",")));
        let channels = format!("pg_catalog.unnest({array}::pg_catalog.text[])");
        let mut out = String::new();
        let mut done = 0;
        for (at, token) in tokens.iter().enumerate() {
            let Some((start, end)) = call(text, &tokens, at, token) else { continue };
            out.push_str(text.get(done..start)?);
            out.push_str(&channels);
            if ends_item(text, tokens.get(at + 3)) {
                // The name that the column, or the table, has of the function.
                out.push_str(" AS pg_listening_channels");
            }
            done = end;
        }
        out.push_str(text.get(done..)?);
        (done > 0).then_some(out)
    }
}

const FUNCTION: &str = "pg_listening_channels";

/// Whether a text may ask what the session listens on.
pub fn shows_channels(text: &str) -> bool {
    text.as_bytes().windows(FUNCTION.len()).any(|part| part.eq_ignore_ascii_case(FUNCTION.as_bytes()))
}

/// The bytes of a call whose name is the token at a position, with its schema.
fn call(text: &str, tokens: &[Token], at: usize, token: &Token) -> Option<(usize, usize)> {
    let is = |at: usize, what: &str| tokens.get(at).is_some_and(|t| t.text(text) == what);
    let named = token.kind == TokenKind::Word && token.text(text).eq_ignore_ascii_case(FUNCTION);
    if !named || !is(at + 1, "(") || !is(at + 2, ")") {
        return None;
    }
    let end = tokens.get(at + 2)?.end as usize;
    let Some(before) = at.checked_sub(1).filter(|before| is(*before, ".")) else {
        return Some((token.start as usize, end));
    };
    let schema = tokens.get(before.checked_sub(1)?)?;
    schema.text(text).eq_ignore_ascii_case("pg_catalog").then_some((schema.start as usize, end))
}

/// Whether an item of a list ends before a token, so that it has no name of its own.
fn ends_item(text: &str, next: Option<&Token>) -> bool {
    const WORDS: &[&str] = &[
        "from",
        "where",
        "order",
        "group",
        "limit",
        "offset",
        "union",
        "except",
        "intersect",
        "join",
        "left",
        "right",
        "full",
        "inner",
        "cross",
        "on",
        "having",
    ];
    next.is_none_or(|token| {
        let word = token.text(text);
        matches!(word, "," | ")" | ";") || WORDS.iter().any(|w| word.eq_ignore_ascii_case(w))
    })
}
