//! What all sessions share: the configuration in force, the databases, and who is connected.

use crate::auth::logins::Logins;
use crate::config::Config;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::database::Database;
use crate::limits;
use crate::pool::CancelSlot;
use arc_swap::ArcSwap;
use futures::task::AtomicWaker;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::task::Poll;
use tokio::sync::Semaphore;
use tokio::sync::watch;

/// The configuration in force and what was built from it; replaced as a whole by a reload.
pub struct State {
    pub config: Config,
    pub databases: HashMap<String, Arc<Database>>,
    pub logins: Arc<Logins>,
    pub tls: Option<crate::tls::Acceptor>,
}

/// Shared by all sessions.
pub struct Shared {
    pub state: ArcSwap<State>,
    pub registry: Registry,
    /// True once the proxy drains: idle sessions end, busy ones end after their transaction.
    pub draining: watch::Sender<bool>,
    /// Places for clients that are too many while they are told so.
    pub turned_away: Arc<Semaphore>,
    /// Places for cancel requests that are passed on to other proxies.
    pub passed_on: Semaphore,
}

impl Shared {
    pub fn new(state: State) -> Self {
        Shared {
            state: ArcSwap::from_pointee(state),
            registry: Registry::default(),
            draining: watch::Sender::new(false),
            turned_away: Arc::new(Semaphore::new(limits::TURNED_AWAY)),
            passed_on: Semaphore::new(limits::CANCELS_PASSED_ON),
        }
    }

    /// The proxy drains from now on, and every session hears of it.
    pub fn drain(&self) {
        self.draining.send_replace(true);
        self.registry.wake();
    }

    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}

/// A session's entry in the registry, given up when it is dropped: a cancel request must never find the connections of
/// a session that is no more.
pub struct Seat {
    shared: Arc<Shared>,
    pub number: i32,
    waker: Arc<AtomicWaker>,
}

impl Seat {
    /// Takes a session in, and gives it a secret of `secret_bytes` bytes.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn take(shared: &Arc<Shared>, cancel: &CancelSlot, secret_bytes: usize) -> Result<(Seat, Vec<u8>)> {
        let waker = Arc::new(AtomicWaker::new());
        let (number, secret) = shared.registry.enter(cancel, &waker, secret_bytes)?;
        Ok((Seat { shared: Arc::clone(shared), number, waker }, secret))
    }

    /// Ends when the proxy drains. A watch channel would do, but at ten times the price, which every wait for a client
    /// would pay. Cancel-safe; for one task at a time.
    pub async fn drained(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.shared.is_draining() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.registry.leave(self.number);
    }
}

/// Who is connected, by process number: for cancel requests and for counting.
#[derive(Default)]
pub struct Registry {
    sessions: Mutex<HashMap<i32, Entry>>,
    clients: AtomicUsize,
    idle: AtomicUsize,
}

/// A session that waits for its client outside a transaction.
pub struct Rest<'a>(&'a AtomicUsize);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Entry {
    secret: Vec<u8>,
    cancel: CancelSlot,
    waker: Arc<AtomicWaker>,
}

impl Registry {
    /// Takes a session in: its number and secret, of `secret_bytes` bytes.
    ///
    /// # Errors
    /// The system gives no random bytes.
    fn enter(&self, cancel: &CancelSlot, waker: &Arc<AtomicWaker>, secret_bytes: usize) -> Result<(i32, Vec<u8>)> {
        let mut sessions = self.sessions.lock().map_err(|_| Error::internal("the registry is poisoned"))?;
        loop {
            let mut bytes = vec![0u8; 4 + secret_bytes];
            getrandom::fill(&mut bytes)
                .map_err(|e| Error::fatal(codes::INTERNAL, format!("no random bytes for a cancel key: {e}")))?;
            let secret = bytes.split_off(4);
            let number = bytes.first_chunk::<4>().map_or(0, |b| i32::from_be_bytes(*b)) & 0x7fff_ffff;
            if number > 0 && !sessions.contains_key(&number) {
                let waker = Arc::clone(waker);
                sessions.insert(number, Entry { secret: secret.clone(), cancel: cancel.clone(), waker });
                return Ok((number, secret));
            }
        }
    }

    fn leave(&self, number: i32) {
        if let Ok(mut sessions) = self.sessions.lock() {
            sessions.remove(&number);
        }
    }

    fn wake(&self) {
        if let Ok(sessions) = self.sessions.lock() {
            sessions.values().for_each(|entry| entry.waker.wake());
        }
    }

    /// The slot to cancel, if number and secret are those of a session.
    pub fn find(&self, number: i32, secret: &[u8]) -> Option<CancelSlot> {
        let secret = crate::session::peers::original(secret);
        let sessions = self.sessions.lock().ok()?;
        let entry = sessions.get(&number)?;
        bool::from(subtle::ConstantTimeEq::ct_eq(entry.secret.as_slice(), secret)).then(|| entry.cancel.clone())
    }

    /// Counts a client in; `None` when there are too many already.
    pub fn admit(&self, max: usize) -> bool {
        self.clients.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < max).then_some(n + 1)).is_ok()
    }

    pub fn dismiss(&self) {
        self.clients.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts a session as idle until the guard goes.
    pub fn rest(&self) -> Rest<'_> {
        self.idle.fetch_add(1, Ordering::Relaxed);
        Rest(&self.idle)
    }

    pub fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }

    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Acquire)
    }
}
