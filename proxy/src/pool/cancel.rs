//! Cancelling what a client runs, and nothing else.
//!
//! A server connection at work for a client stands in the client's slot. A cancel request holds the slot until the server
//! has taken it, and nothing enters or leaves the slot meanwhile; a connection leaves it before it goes back to its
//! pool. So a cancel can never reach the next client's statement.

use crate::limits;
use crate::net::Stream;
use crate::wire::startup::cancel_request;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Where and with which key a server connection's statement is cancelled.
#[derive(Debug)]
pub struct CancelTarget {
    pub connector: super::Connector,
    pub pid: i32,
    pub secret: Vec<u8>,
    /// A request was sent of which it is not known whether the server has taken it: it may still come. The connection
    /// is not used again.
    pub uncertain: AtomicBool,
    /// The cancel that is on its way, or has come, is to end a deadlock.
    pub deadlocked: AtomicBool,
}

/// The server connections at work for one client.
#[derive(Clone, Debug, Default)]
pub struct CancelSlot(Arc<Slot>);

/// Entering and leaving happen with every transaction, cancelling hardly ever: the lock is one of the moment, and who
/// comes while a cancel is on its way waits for its end.
#[derive(Debug, Default)]
struct Slot {
    at_work: Mutex<AtWork>,
    cancelled: Notify,
}

#[derive(Debug, Default)]
struct AtWork {
    targets: Vec<Arc<CancelTarget>>,
    /// A cancel is on its way.
    cancelling: bool,
}

/// A cancel on its way; dropped, it is over.
struct Cancelling<'a>(&'a Slot);

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        self.0.lock().cancelling = false;
        self.0.cancelled.notify_waiters();
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, AtWork> {
        // What it guards is whole at every moment.
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is at work as soon as no cancel is on its way. Cancel-safe.
    async fn change<T>(&self, change: impl FnOnce(&mut AtWork) -> T) -> T {
        loop {
            {
                let mut at_work = self.lock();
                if !at_work.cancelling {
                    return change(&mut at_work);
                }
            }
            let cancelled = self.cancelled.notified();
            if self.lock().cancelling {
                cancelled.await;
            }
        }
    }
}

impl CancelSlot {
    pub async fn enter(&self, target: Arc<CancelTarget>) {
        target.deadlocked.store(false, Ordering::Release);
        self.0.change(|at_work| at_work.targets.push(target)).await;
    }

    pub fn is(&self, other: &CancelSlot) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The shards' names and the process numbers of what is at work.
    pub fn processes(&self) -> Vec<(String, i32)> {
        self.0.lock().targets.iter().map(|t| (t.connector.shard().to_owned(), t.pid)).collect()
    }

    /// Cancels what runs, and has it told as a deadlock.
    pub async fn end_deadlock(&self) {
        self.0.lock().targets.iter().for_each(|t| t.deadlocked.store(true, Ordering::Release));
        self.cancel().await;
    }

    /// Waits while a cancel is on its way.
    pub async fn leave(&self, target: &Arc<CancelTarget>) {
        self.0.change(|at_work| at_work.targets.retain(|t| !Arc::ptr_eq(t, target))).await;
    }

    /// Asks every server at work for this client to cancel, and waits until each has taken it.
    pub async fn cancel(&self) {
        let begin = |at_work: &mut AtWork| {
            at_work.cancelling = true;
            (at_work.targets.clone(), Cancelling(&self.0))
        };
        let (targets, _cancelling) = self.0.change(begin).await;
        let all = targets.iter().map(|target| async move {
            match timeout(limits::CANCEL_TIMEOUT, send(target)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "cancel request failed"),
                Err(_) => tracing::warn!("cancel request timed out"),
            }
        });
        futures::future::join_all(all).await;
    }
}

async fn send(target: &CancelTarget) -> Result<(), crate::error::Error> {
    let mut stream: Stream = target.connector.open().await?;
    let packet = cancel_request(target.pid, &target.secret);
    let lost = |e: std::io::Error| crate::net::lost("cancel request", &e);
    target.uncertain.store(true, Ordering::Release);
    stream.write_all(&packet).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    // The server closes the connection once the signal has been sent.
    let mut rest = [0u8; 16];
    while stream.read(&mut rest).await.map_err(lost)? > 0 {}
    target.uncertain.store(false, Ordering::Release);
    Ok(())
}
