//! LISTEN for all clients of a database over one server connection to the home shard.
//!
//! One task owns the connection and gives what it hears to the mailboxes of the clients that listen on the channel. What
//! clients ask of it is done in rounds, a Query each: PostgreSQL tells an idle connection what it has to hear before
//! ReadyForQuery, so that a round brings everything that was committed before it began (PostgresMain).

use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::limits;
use crate::pool::Connector;
use crate::pool::ServerConnection;
use crate::sql::names;
use crate::wire::backend;
use crate::wire::frontend;
use crate::wire::read::Reader;
use bytes::Bytes;
use bytes::BytesMut;
use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The clients that listen, and their common server connection while there are any.
#[derive(Default)]
pub struct Listener {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// To the task that owns the connection, while it runs.
    requests: Option<UnboundedSender<Request>>,
    /// Who listens on what.
    channels: HashMap<String, Vec<Arc<Mailbox>>>,
    /// Server processes that are about to notify, and the clients at work on them.
    notifiers: HashMap<i32, i32>,
}

enum Request {
    /// From the end of the round on the mailbox gets what comes on the channels.
    Listen { channels: Vec<String>, mailbox: Arc<Mailbox>, done: oneshot::Sender<Result<()>> },
    /// Everything that was committed before is in the mailboxes.
    CatchUp(oneshot::Sender<()>),
    /// Some channel may have nobody left who listens.
    Tidy,
}

/// What one client has yet to hear.
#[derive(Default)]
pub struct Mailbox {
    mail: Mutex<Mail>,
    arrived: Notify,
}

#[derive(Default)]
struct Mail {
    heard: VecDeque<Heard>,
    bytes: usize,
    /// Some of it is lost, and why.
    lost: Option<Error>,
}

/// A notification: its channel, and the whole frame for the client.
#[derive(Clone)]
pub struct Heard {
    pub channel: String,
    pub frame: Bytes,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    /// The oldest notification.
    ///
    /// # Errors
    /// Why some were lost: the session cannot go on as if it had heard everything.
    pub fn take(&self) -> Result<Option<Heard>> {
        let mut mail = locked(&self.mail);
        if let Some(error) = &mail.lost {
            return Err(error.clone());
        }
        let heard = mail.heard.pop_front();
        mail.bytes -= heard.as_ref().map_or(0, |h| h.frame.len());
        Ok(heard)
    }

    /// Waits until something may have come. Cancel-safe; for one task.
    pub async fn arrival(&self) {
        self.arrived.notified().await;
    }

    fn put(&self, heard: Heard) {
        let mut mail = locked(&self.mail);
        mail.bytes += heard.frame.len();
        mail.heard.push_back(heard);
        if mail.bytes > limits::UNHEARD_BYTES && mail.lost.is_none() {
            mail.lost = Some(
                Error::fatal(codes::PROGRAM_LIMIT, "too many notifications wait for this session")
                    .hint("Keep transactions short in sessions that listen."),
            );
        }
        if mail.lost.is_some() {
            mail.heard.clear();
        }
        self.arrived.notify_one();
    }

    fn lose(&self, error: &Error) {
        locked(&self.mail).lost.get_or_insert_with(|| error.clone());
        self.arrived.notify_one();
    }
}

impl Listener {
    /// Gives a mailbox what comes on these channels from now on. `connector`: how the connection is opened, if there
    /// is none.
    ///
    /// # Errors
    /// The connection could not be opened, or was lost meanwhile; what the server says to LISTEN.
    pub async fn listen(
        self: &Arc<Self>,
        connector: Connector,
        mailbox: &Arc<Mailbox>,
        channels: Vec<String>,
    ) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let request = Request::Listen { channels, mailbox: Arc::clone(mailbox), done };
        {
            let mut state = locked(&self.state);
            let sent = match &state.requests {
                Some(requests) => requests.send(request).map_err(|unsent| unsent.0),
                None => Err(request),
            };
            if let Err(request) = sent {
                let (sender, receiver) = mpsc::unbounded_channel();
                let _ = sender.send(request);
                state.requests = Some(sender);
                tokio::spawn(serve(Arc::clone(self), connector, receiver));
            }
        }
        match timeout(limits::LISTEN_PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(lost()),
            Err(_) => Err(Error::new(codes::CONNECTION_FAILURE, "LISTEN was not answered in time")),
        }
    }

    /// A mailbox gets nothing more but what comes on these channels.
    pub fn keep_only(&self, mailbox: &Arc<Mailbox>, channels: &[String]) {
        let mut state = locked(&self.state);
        for (channel, mailboxes) in &mut state.channels {
            if !channels.contains(channel) {
                mailboxes.retain(|m| !Arc::ptr_eq(m, mailbox));
            }
        }
        if let Some(requests) = &state.requests {
            let _ = requests.send(Request::Tidy);
        }
    }

    /// Waits until every notification that was committed before is in the mailboxes; not long, and not at all when
    /// nobody listens.
    pub async fn catch_up(&self) {
        let (done, reached) = oneshot::channel();
        match &locked(&self.state).requests {
            Some(requests) => _ = requests.send(Request::CatchUp(done)),
            None => return,
        }
        let _ = timeout(limits::LISTEN_PATIENCE, reached).await;
    }

    /// What comes from this server process is a client's, until it is taken back after `catch_up`. False when nobody
    /// listens.
    pub fn announce(&self, process: i32, client: i32) -> bool {
        let mut state = locked(&self.state);
        let heard = state.requests.is_some();
        if heard {
            state.notifiers.insert(process, client);
        }
        heard
    }

    pub fn take_back(&self, process: i32) {
        locked(&self.state).notifiers.remove(&process);
    }

    /// Takes a connection's notifications, whole frames, apart and delivers them.
    fn deliver(&self, news: &mut BytesMut) -> Result<()> {
        while let Some(head) = crate::wire::head(news, limits::MESSAGE_BYTES)? {
            if news.len() < head.total {
                break;
            }
            let frame = news.split_to(head.total);
            self.deliver_one(frame.get(crate::wire::HEAD..).unwrap_or_default())?;
        }
        Ok(())
    }

    fn deliver_one(&self, body: &[u8]) -> Result<()> {
        let mut reader = Reader::new(body);
        let process = reader.i32()?;
        let rest = reader.rest();
        let channel = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let channel = String::from_utf8_lossy(channel).into_owned();
        let state = locked(&self.state);
        let Some(mailboxes) = state.channels.get(&channel) else { return Ok(()) };
        let process = state.notifiers.get(&process).copied().unwrap_or(process);
        let mut frame = BytesMut::with_capacity(body.len() + crate::wire::HEAD);
        frontend::frame(&mut frame, backend::NOTIFICATION, |out| {
            out.extend_from_slice(&process.to_be_bytes());
            out.extend_from_slice(rest);
        });
        let heard = Heard { channel, frame: frame.freeze() };
        mailboxes.iter().for_each(|mailbox| mailbox.put(heard.clone()));
        Ok(())
    }

    /// The connection is gone: nobody knows what was not heard.
    fn lose(&self) {
        let mut state = locked(&self.state);
        state.requests = None;
        state.notifiers.clear();
        for mailbox in state.channels.drain().flat_map(|(_, mailboxes)| mailboxes) {
            mailbox.lose(&lost());
        }
    }

    /// The task ends when nobody listens and nobody has asked for anything.
    fn may_end(&self, requests: &mut UnboundedReceiver<Request>) -> Option<Vec<Request>> {
        let mut state = locked(&self.state);
        state.channels.retain(|_, mailboxes| !mailboxes.is_empty());
        let mut waiting = Vec::new();
        while let Ok(request) = requests.try_recv() {
            waiting.push(request);
        }
        if waiting.is_empty() && state.channels.is_empty() {
            state.requests = None;
            return None;
        }
        Some(waiting)
    }

    /// What clients have asked for, done in one Query.
    async fn round(&self, server: &mut ServerConnection, on: &mut HashSet<String>, batch: Vec<Request>) -> Result<()> {
        let (sql, listening) = self.changes(on, &batch);
        if sql.is_empty() && batch.iter().all(|request| matches!(request, Request::Tidy)) {
            return Ok(());
        }
        let answer = server.run(&sql).await;
        let mut news = std::mem::take(&mut server.news);
        self.deliver(&mut news)?;
        match &answer {
            Ok(_) => *on = listening,
            Err(error) if server.dead => {
                refuse(batch, error);
                return Err(error.clone());
            }
            Err(_) => {}
        }
        let refused = answer.err();
        for request in batch {
            match request {
                Request::Listen { channels, mailbox, done } => {
                    let answer = match &refused {
                        Some(error) => Err(error.clone()),
                        None => {
                            self.admit(&channels, &mailbox);
                            Ok(())
                        }
                    };
                    let _ = done.send(answer);
                }
                Request::CatchUp(done) => _ = done.send(()),
                Request::Tidy => {}
            }
        }
        Ok(())
    }

    fn admit(&self, channels: &[String], mailbox: &Arc<Mailbox>) {
        let mut state = locked(&self.state);
        for channel in channels {
            let mailboxes = state.channels.entry(channel.clone()).or_default();
            if !mailboxes.iter().any(|m| Arc::ptr_eq(m, mailbox)) {
                mailboxes.push(Arc::clone(mailbox));
            }
        }
    }

    /// The LISTEN and UNLISTEN that are missing, and the channels that the connection listens on afterwards.
    fn changes(&self, on: &HashSet<String>, batch: &[Request]) -> (String, HashSet<String>) {
        let mut state = locked(&self.state);
        state.channels.retain(|_, mailboxes| !mailboxes.is_empty());
        let mut wanted: HashSet<String> = state.channels.keys().cloned().collect();
        drop(state);
        for request in batch {
            if let Request::Listen { channels, .. } = request {
                wanted.extend(channels.iter().cloned());
            }
        }
        let listen = wanted.difference(on).map(|channel| format!("LISTEN {};", names::quote(channel)));
        let unlisten = on.difference(&wanted).map(|channel| format!("UNLISTEN {};", names::quote(channel)));
        (listen.chain(unlisten).collect(), wanted)
    }
}

fn lost() -> Error {
    Error::fatal(codes::CONNECTION_FAILURE, "the server connection that listens for this session was lost")
        .detail("Notifications may have been missed.")
}

/// The life of the connection.
async fn serve(listener: Arc<Listener>, connector: Connector, mut requests: UnboundedReceiver<Request>) {
    let opened = open(&connector).await;
    let mut waiting = Vec::new();
    let mut on = HashSet::new();
    let mut server = match opened {
        Ok(server) => server,
        Err(error) => {
            end(&listener, &error, waiting, requests);
            return;
        }
    };
    loop {
        if waiting.is_empty() {
            let heard = tokio::select! {
                biased;
                request = requests.recv() => {
                    waiting.extend(request);
                    Ok(1)
                }
                got = server.io.fill() => got,
            };
            if let Err(error) = take_news(&listener, &mut server, heard) {
                end(&listener, &error, waiting, requests);
                return;
            }
        }
        while let Ok(request) = requests.try_recv() {
            waiting.push(request);
        }
        if !waiting.is_empty()
            && let Err(error) = listener.round(&mut server, &mut on, std::mem::take(&mut waiting)).await
        {
            end(&listener, &error, waiting, requests);
            return;
        }
        match listener.may_end(&mut requests) {
            Some(more) => waiting = more,
            None => break,
        }
    }
    frontend::put_empty(&mut server.io.write, frontend::TERMINATE);
    let _ = timeout(Duration::from_secs(1), server.io.flush()).await;
}

fn end(listener: &Listener, error: &Error, waiting: Vec<Request>, mut requests: UnboundedReceiver<Request>) {
    tracing::warn!(%error, "the connection that listens was lost");
    listener.lose();
    refuse(waiting, error);
    // Nobody sends to it any more.
    while let Ok(request) = requests.try_recv() {
        refuse(vec![request], error);
    }
}

fn refuse(requests: Vec<Request>, error: &Error) {
    for request in requests {
        if let Request::Listen { done, .. } = request {
            let _ = done.send(Err(error.clone()));
        }
    }
}

/// Opens the connection. It waits for days: time-outs for idle sessions do not hold for it.
async fn open(connector: &Connector) -> Result<ServerConnection> {
    let mut server = connector.connect().await?;
    server
        .run(
            "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
             WHERE name IN ('idle_session_timeout', 'statement_timeout'); SET client_encoding TO 'UTF8'",
        )
        .await?;
    Ok(server)
}

/// What the server has said although nothing was asked.
fn take_news(listener: &Listener, server: &mut ServerConnection, got: std::io::Result<usize>) -> Result<()> {
    match got {
        Ok(0) => return Err(lost()),
        Ok(_) => {}
        Err(error) => return Err(server.lost(&error)),
    }
    while let Some((tag, body)) = server.io.cut()? {
        match tag {
            backend::NOTIFICATION => listener.deliver_one(&body)?,
            backend::ERROR => return Err(server.ended(&backend::error(&body))),
            _ => {}
        }
    }
    Ok(())
}
