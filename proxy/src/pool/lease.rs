//! A pool of server connections to one endpoint as one user, and the lease of one of them.
//!
//! bb8 keeps the connections; a semaphore of the same size stands before it, because bb8 wakes waiters without giving
//! them their turn.
//!
//! Sessions that hold a connection to one shard and wait for another's pool could wait for each other for ever. So each
//! pool has one place more than its size, and one session at a time, the holder of the database's [`Spare`], may use these
//! places: it never waits for a place, and its end frees others.

use crate::config;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::limits;
use crate::pool::Connector;
use crate::pool::ServerConnection;
use bb8::QueueStrategy;
use futures::FutureExt;
use std::ops::Deref;
use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Server connections of one (endpoint, database, user).
#[derive(Debug)]
pub struct Pool {
    connector: Connector,
    connections: bb8::Pool<Connector>,
    places: Arc<Semaphore>,
    size: u32,
    wait_timeout: Duration,
    waiting: AtomicUsize,
    /// The last failure to connect: within a short pause nobody tries again.
    down: Mutex<Option<(Instant, Error)>>,
}

/// How a pool stands, for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolCounts {
    pub idle: usize,
    pub used: usize,
    pub waiting: usize,
    pub size: usize,
}

/// A server connection in use; dropped, it goes back to its pool if it is clean, and is closed otherwise.
pub struct Lease {
    // Dropped in this order: the connection goes back before its place is given to the next.
    connection: bb8::PooledConnection<'static, Connector>,
    /// None for the place beyond the pool's size.
    place: Option<OwnedSemaphorePermit>,
}

/// The right to the places beyond the pools' sizes: one for each database.
pub type Spare = OwnedSemaphorePermit;

impl Deref for Lease {
    type Target = ServerConnection;
    fn deref(&self) -> &ServerConnection {
        &self.connection
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut ServerConnection {
        &mut self.connection
    }
}

impl Lease {
    /// Whether it is on the place beyond its pool's size.
    pub fn is_spare(&self) -> bool {
        self.place.is_none()
    }
}

impl Pool {
    pub fn new(connector: Connector, config: &config::Pool) -> Self {
        let connections = bb8::Pool::builder()
            .max_size(config.size + 1)
            .min_idle((config.min_idle > 0).then_some(config.min_idle))
            .idle_timeout(config.idle_timeout)
            .max_lifetime(config.max_lifetime)
            .connection_timeout(config.connect_timeout)
            .queue_strategy(QueueStrategy::Lifo)
            .retry_connection(false)
            .test_on_check_out(true)
            .build_unchecked(connector.clone());
        Pool {
            connector,
            connections,
            places: Arc::new(Semaphore::new(config.size as usize)),
            size: config.size,
            wait_timeout: config.wait_timeout,
            waiting: AtomicUsize::new(0),
            down: Mutex::new(None),
        }
    }

    /// A connection, waited for in turn.
    ///
    /// # Errors
    /// 53300 when none became free in time; 08006 at once when the endpoint cannot be reached; what the server says
    /// when it refuses the login.
    pub async fn lease(&self) -> Result<Lease> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => self.wait().await?,
        };
        self.lease_at(Some(place)).await
    }

    /// A connection for a session that holds others already. `spare` is what it holds of the database's `spares`; it may
    /// get it here.
    ///
    /// # Errors
    /// As [`Pool::lease`].
    pub async fn lease_further(&self, spare: &mut Option<Spare>, spares: &Arc<Semaphore>) -> Result<Lease> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return self.lease_at(Some(place)).await;
        }
        if spare.is_none() {
            let turn = async {
                tokio::time::sleep(limits::SPARE_PAUSE).await;
                Arc::clone(spares).acquire_owned().await
            };
            tokio::select! {
                biased;
                place = self.wait() => return self.lease_at(Some(place?)).await,
                turn = turn => *spare = turn.ok(),
            }
        }
        self.lease_at(None).await
    }

    async fn lease_at(&self, place: Option<OwnedSemaphorePermit>) -> Result<Lease> {
        self.ask_breaker()?;
        let failed = self.connector.failed();
        let mut getting = std::pin::pin!(self.connections.get_owned());
        // An idle connection is there at once; only who waits for one to be opened needs to hear of failures.
        let connection = match getting.as_mut().now_or_never() {
            Some(got) => got.map_err(|error| self.told(error)),
            None => self.opened(getting, failed).await,
        };
        match connection {
            Ok(connection) => Ok(Lease { connection, place }),
            Err(error) => {
                self.trip(&error);
                Err(error)
            }
        }
    }

    /// Waits for a connection that is being opened; `failed`: how many attempts had failed before it was asked for.
    async fn opened<T>(
        &self,
        getting: impl Future<Output = std::result::Result<T, bb8::RunError<Error>>>,
        failed: u64,
    ) -> Result<T> {
        let mut failures = self.connector.failures();
        failures.mark_unchanged();
        let has_failed = async {
            if self.connector.failed() == failed {
                let _ = failures.changed().await;
            }
            let cause = failures.borrow().clone();
            cause.unwrap_or_else(|| Error::new(codes::CONNECTION_FAILURE, "could not connect"))
        };
        tokio::select! {
            biased;
            got = getting => got.map_err(|error| self.told(error)),
            error = has_failed => Err(error),
        }
    }

    fn told(&self, error: bb8::RunError<Error>) -> Error {
        match error {
            bb8::RunError::User(error) => error,
            bb8::RunError::TimedOut => {
                Error::new(codes::CONNECTION_FAILURE, format!("could not connect to {}: timed out", self.connector))
            }
        }
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let waited = timeout(self.wait_timeout, Arc::clone(&self.places).acquire_owned()).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        metrics::histogram!(crate::telemetry::POOL_WAIT_SECONDS, "shard" => self.connector.shard().to_owned())
            .record(started.elapsed());
        match waited {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Error::new(
                codes::TOO_MANY_CONNECTIONS,
                format!("no server connection to {} became free in {:?}", self.connector, self.wait_timeout),
            )
            .detail(format!("All {} connections of user \"{}\" are in use.", self.size, self.connector.user()))
            .hint("Raise pool.size or pool.wait_timeout, or keep transactions short.")),
        }
    }

    fn ask_breaker(&self) -> Result<()> {
        let Ok(mut down) = self.down.lock() else { return Ok(()) };
        match &*down {
            Some((since, error))
                if since.elapsed() < limits::BREAKER_PAUSE && self.connections.state().idle_connections == 0 =>
            {
                Err(error.clone())
            }
            Some(_) => {
                *down = None;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn trip(&self, error: &Error) {
        if let Ok(mut down) = self.down.lock() {
            *down = Some((Instant::now(), error.clone()));
        }
    }

    pub fn counts(&self) -> PoolCounts {
        let state = self.connections.state();
        let idle = state.idle_connections as usize;
        PoolCounts {
            idle,
            used: (state.connections as usize).saturating_sub(idle),
            waiting: self.waiting.load(Ordering::Relaxed),
            size: self.size as usize,
        }
    }

    pub fn connector(&self) -> &Connector {
        &self.connector
    }
}
