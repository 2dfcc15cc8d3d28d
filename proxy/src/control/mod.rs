//! The control plane of one database over tokio-postgres: schema reading, probes, the placement record.
//!
//! One connection per shard, made when it is needed, with the control login. What is sent here is read by the proxy,
//! never by a client.

mod connect;
mod decide;
pub mod decision;
pub mod place;
mod placement;
pub mod record;
pub mod verify;

pub use placement::PlacementVerdict;

use crate::config::Database;
use crate::control::connect::Target;
use crate::control::connect::is_lost;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::limits;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_postgres::Client;
use tokio_postgres::SimpleQueryMessage;

/// A catalog read that takes longer than this is taken for a shard that hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The control connections of one database. Dropping it closes them.
pub struct Control {
    shards: Vec<Connection>,
}

struct Connection {
    target: Target,
    /// The connection, if there is one. The lock is held while connecting, so that only one is made.
    client: Mutex<Option<Arc<Client>>>,
}

impl Control {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// A root certificate file cannot be read.
    pub fn new(database: &Database) -> Result<Control> {
        let connection = |shard: &crate::config::Shard| {
            let target = Target::new(&shard.name, &shard.primary, database.control.as_ref())?;
            Ok(Connection { target, client: Mutex::new(None) })
        };
        Ok(Control { shards: database.shards.iter().map(connection).collect::<Result<_>>()? })
    }

    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// The first cell of the first row, as text; empty where it is NULL. The statement must be harmless when it runs
    /// twice: a connection that turns out to be dead is made anew, once. Cancel safe.
    ///
    /// # Errors
    /// 08006 where the shard is away or hangs, or the server's error; XX000 if there is no row.
    pub async fn text(&self, shard: usize, sql: &str) -> Result<String> {
        let connection = self.connection(shard)?;
        let rows = connection.rows(sql, READ_TIMEOUT).await?;
        let first = rows.into_iter().next().and_then(|row| row.into_iter().next());
        let cell = first.ok_or_else(|| Error::internal("a catalog query gave no row"))?;
        Ok(cell.unwrap_or_default())
    }

    /// [`Control::text`] on every shard at once; results in the order of the shards. Cancel safe.
    pub async fn read_all(&self, sql: &str) -> Vec<Result<String>> {
        futures::future::join_all((0..self.shards.len()).map(|shard| self.text(shard, sql))).await
    }

    /// Whether a shard answers. Cancel safe.
    ///
    /// # Errors
    /// 08006 with the cause.
    pub async fn probe(&self, shard: usize) -> Result<()> {
        self.connection(shard)?.rows("SELECT 1", limits::CONNECT_TIMEOUT).await.map(drop)
    }

    fn connection(&self, shard: usize) -> Result<&Connection> {
        self.shards.get(shard).ok_or_else(|| Error::internal(format!("there is no shard number {shard}")))
    }
}

/// Cells as text; `None` is NULL.
type Rows = Vec<Vec<Option<String>>>;

impl Connection {
    /// The rows of one statement, which may run twice.
    async fn rows(&self, sql: &str, timeout: Duration) -> Result<Rows> {
        let (client, was_open) = self.client().await?;
        match self.rows_on(&client, sql, timeout).await {
            Err(error) if was_open && error.code == codes::CONNECTION_FAILURE => {
                let (client, _) = self.client().await?;
                self.rows_on(&client, sql, timeout).await
            }
            done => done,
        }
    }

    async fn rows_on(&self, client: &Arc<Client>, sql: &str, timeout: Duration) -> Result<Rows> {
        match tokio::time::timeout(timeout, client.simple_query(sql)).await {
            Ok(Ok(messages)) => Ok(rows_of(messages)),
            Ok(Err(error)) => {
                if is_lost(&error) {
                    self.forget(client).await;
                }
                Err(self.target.error(&error))
            }
            Err(_) => {
                self.forget(client).await;
                let message =
                    format!("shard \"{}\" gave no answer in {} seconds", self.target.shard, timeout.as_secs());
                Err(Error::new(codes::CONNECTION_FAILURE, message))
            }
        }
    }

    /// The open connection, or a new one; and whether it was open.
    async fn client(&self) -> Result<(Arc<Client>, bool)> {
        let mut slot = self.client.lock().await;
        match slot.as_ref().filter(|client| !client.is_closed()) {
            Some(client) => Ok((client.clone(), true)),
            None => {
                let client = Arc::new(self.target.connect().await?);
                *slot = Some(client.clone());
                Ok((client, false))
            }
        }
    }

    /// Drops a connection that failed, unless another has taken its place.
    async fn forget(&self, failed: &Arc<Client>) {
        let mut slot = self.client.lock().await;
        if slot.as_ref().is_some_and(|client| Arc::ptr_eq(client, failed)) {
            *slot = None;
        }
    }
}

fn rows_of(messages: Vec<SimpleQueryMessage>) -> Rows {
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect()),
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}
