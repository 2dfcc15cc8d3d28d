//! What keeps a statement over several shards from seeing half of a commit: second phases of commits and the taking of
//! snapshots exclude each other, those of one kind run together, and who waits longest comes first.
//!
//! As long as nothing is committed over several shards, taking snapshots costs a counter. The commits that ended last
//! are remembered, for transactions that keep the snapshot of one shard and join another later.

use crate::catalog::ShardId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;
use tokio::sync::oneshot;

/// How long after a commit readers go on to wait for each other's end: commits come in bursts.
const WARM: Duration = Duration::from_secs(10);
/// How long the first commit waits for readers that have not been told to care: their snapshots are taken long before.
const FLIP: Duration = Duration::from_secs(2);
/// Commits remembered; who is older than that is told that it cannot be serialized.
const REMEMBERED: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Commit,
    Snapshot,
}

/// One database's.
#[derive(Debug)]
pub struct Room {
    started: Instant,
    /// Until when readers care, in milliseconds since `started`; 0: never yet.
    warm_until: AtomicU64,
    /// When readers were told to care, likewise.
    flipped: AtomicU64,
    /// Readers that were not told.
    free: AtomicUsize,
    inside: Arc<Mutex<Inside>>,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Inside {
    class: Option<Class>,
    count: usize,
    queue: VecDeque<(Class, oneshot::Sender<Place>)>,
}

/// A place in the room, until it is dropped.
#[derive(Debug)]
struct Place(Arc<Mutex<Inside>>);

/// Second phases and snapshots wait for each other while this is held.
#[derive(Debug)]
pub struct Guard<'a> {
    place: Option<Place>,
    free: Option<&'a AtomicUsize>,
}

#[derive(Debug, Default)]
struct Log {
    /// How many commits have ended.
    count: u64,
    recent: VecDeque<Vec<ShardId>>,
}

impl Default for Room {
    fn default() -> Self {
        Room {
            started: Instant::now(),
            warm_until: AtomicU64::new(0),
            flipped: AtomicU64::new(0),
            free: AtomicUsize::new(0),
            inside: Arc::default(),
            log: Mutex::default(),
        }
    }
}

impl Guard<'_> {
    /// Readers care: the snapshots must be known to be taken before this is dropped.
    pub fn matters(&self) -> bool {
        self.place.is_some()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(free) = self.free {
            free.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut called = Vec::new();
        if let Ok(mut inside) = self.0.lock() {
            inside.count = inside.count.saturating_sub(1);
            if inside.count == 0 {
                inside.class = None;
                while let Some((class, _)) = inside.queue.front()
                    && inside.class.is_none_or(|now| now == *class)
                    && let Some((class, waiter)) = inside.queue.pop_front()
                {
                    inside.class = Some(class);
                    inside.count += 1;
                    called.push(waiter);
                }
            }
        }
        // Who has stopped waiting gives the place back as it is dropped, outside the lock.
        for waiter in called {
            let _ = waiter.send(Place(Arc::clone(&self.0)));
        }
    }
}

impl Room {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn is_warm(&self) -> bool {
        self.now() < self.warm_until.load(Ordering::SeqCst)
    }

    /// For the second phase of a commit, from its decision to its last answer. Cancel-safe.
    pub async fn commit(&self) -> Guard<'_> {
        let now = self.now();
        let warm = now + u64::try_from(WARM.as_millis()).unwrap_or(0);
        if self.warm_until.swap(warm, Ordering::SeqCst) <= now {
            self.flipped.store(now, Ordering::SeqCst);
        }
        let place = self.enter(Class::Commit).await;
        let patience = self.flipped.load(Ordering::SeqCst) + u64::try_from(FLIP.as_millis()).unwrap_or(0);
        while self.free.load(Ordering::SeqCst) > 0 && self.now() < patience {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Guard { place, free: None }
    }

    /// For taking snapshots on several shards. Cancel-safe.
    pub async fn snapshot(&self) -> Guard<'_> {
        // Counted first: a commit looks at the counter after it has told readers to care.
        self.free.fetch_add(1, Ordering::SeqCst);
        let mut guard = Guard { place: None, free: Some(&self.free) };
        if self.is_warm() {
            drop(guard);
            guard = Guard { place: self.enter(Class::Snapshot).await, free: None };
        }
        guard
    }

    async fn enter(&self, class: Class) -> Option<Place> {
        let waiting = {
            let Ok(mut inside) = self.inside.lock() else { return None };
            if inside.queue.is_empty() && inside.class.is_none_or(|now| now == class) {
                inside.class = Some(class);
                inside.count += 1;
                return Some(Place(Arc::clone(&self.inside)));
            }
            let (sender, receiver) = oneshot::channel();
            inside.queue.push_back((class, sender));
            receiver
        };
        waiting.await.ok()
    }

    /// A commit over these shards has ended; called before its guard is dropped.
    pub fn remember(&self, shards: Vec<ShardId>) {
        if let Ok(mut log) = self.log.lock() {
            log.count += 1;
            log.recent.push_back(shards);
            if log.recent.len() > REMEMBERED {
                log.recent.pop_front();
            }
        }
    }

    /// How many commits over several shards have ended.
    pub fn count(&self) -> u64 {
        self.log.lock().map_or(0, |log| log.count)
    }

    /// Whether a commit that ended after the first `count` ones was over two of these shards, or may have been.
    pub fn has_changed(&self, count: u64, shards: &[ShardId]) -> bool {
        let Ok(log) = self.log.lock() else { return true };
        let new = usize::try_from(log.count.saturating_sub(count)).unwrap_or(usize::MAX);
        let over_two = |commit: &Vec<ShardId>| commit.iter().filter(|s| shards.contains(s)).count() > 1;
        new > log.recent.len() || log.recent.iter().rev().take(new).any(over_two)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn snapshots_are_free_until_something_commits() {
        let room = Room::default();
        assert!(!room.snapshot().await.matters());
        drop(room.commit().await);
        assert!(room.snapshot().await.matters());
    }

    #[tokio::test]
    async fn the_classes_exclude_each_other_in_turn() {
        let room = Room::default();
        let (first, second) = (room.commit().await, room.commit().now_or_never().unwrap());
        let mut reader = Box::pin(room.snapshot());
        assert!((&mut reader).now_or_never().is_none());
        // A commit that comes later waits behind the reader.
        let mut third = Box::pin(room.commit());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        assert!((&mut reader).now_or_never().is_none());
        drop(second);
        let reading = (&mut reader).now_or_never().unwrap();
        assert!((&mut third).now_or_never().is_none());
        drop(reading);
        assert!((&mut third).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_stops_waiting_holds_up_nobody() {
        let room = Room::default();
        let commit = room.commit().await;
        let mut reader = Box::pin(room.snapshot());
        assert!((&mut reader).now_or_never().is_none());
        let mut second = Box::pin(room.commit());
        assert!((&mut second).now_or_never().is_none());
        drop(reader);
        drop(commit);
        assert!((&mut second).now_or_never().is_some());
    }

    #[test]
    fn commits_are_remembered_for_late_joins() {
        let room = Room::default();
        room.remember(vec![ShardId(0), ShardId(1)]);
        let count = room.count();
        assert!(!room.has_changed(count, &[ShardId(0), ShardId(1)]));
        assert!(room.has_changed(count - 1, &[ShardId(0), ShardId(1)]));
        assert!(!room.has_changed(count - 1, &[ShardId(1), ShardId(2)]));
        (0..2000).for_each(|_| room.remember(vec![ShardId(5)]));
        assert!(room.has_changed(count, &[ShardId(0), ShardId(1)]));
    }
}
