//! Readers who add all money up, over all shards at once and account by account: never a wrong sum.

use super::ACCOUNTS;
use super::TOTAL;
use super::Terms;
use super::connect;
use super::in_time;
use std::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::Config;
use tokio_postgres::Error;
use tokio_postgres::SimpleQueryMessage;

/// What a reader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// One scattered SELECT, by the simple protocol.
    Sum,
    /// The same by a prepared statement, and all rows in order.
    Rows,
    /// In REPEATABLE READ: all at once, then account by account, then all again.
    Snapshot,
}

pub const READS: [Reads; 3] = [Reads::Sum, Reads::Rows, Reads::Snapshot];

/// Sums that were right, and statements that failed as they may (40001, a lost connection).
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub right: usize,
    pub failed: usize,
}

/// Reads until the end. Panics at a sum that is wrong, and at errors that may not be.
pub async fn watch(config: Config, reads: Reads, terms: Terms) -> Count {
    let mut count = Count::default();
    while let Some(connection) = connect(&config, terms.until).await {
        while Instant::now() < terms.until && !connection.client.is_closed() {
            let outcome = match reads {
                Reads::Sum => in_time("a sum", sum(&connection.client)).await,
                Reads::Rows => in_time("rows", rows(&connection.client)).await,
                Reads::Snapshot => in_time("a snapshot", snapshot(&connection.client)).await,
            };
            match outcome {
                Ok(()) => count.right += 1,
                Err(error) => {
                    let code = error.code().map(|c| c.code().to_string()).unwrap_or_default();
                    let may = ["", "08006", "40001"].contains(&code.as_str());
                    assert!(may, "{reads:?} fails: {error:?}");
                    count.failed += 1;
                }
            }
        }
        if Instant::now() >= terms.until {
            break;
        }
    }
    count
}

async fn sum(client: &Client) -> Result<(), Error> {
    for (sql, right) in [("SELECT sum(balance) FROM accounts", TOTAL), ("SELECT sum(amount) FROM journal", 0)] {
        let messages = client.simple_query(sql).await?;
        let value = messages.iter().find_map(|m| match m {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("0")), // an empty journal has no sum
            _ => None,
        });
        assert_eq!(value, Some(right.to_string().as_str()), "{sql}");
    }
    Ok(())
}

async fn rows(client: &Client) -> Result<(), Error> {
    all(client, "a statement").await?;
    let rows = client.query("SELECT id, balance FROM accounts ORDER BY id", &[]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(ids, (1..=ACCOUNTS).collect::<Vec<_>>());
    let sum: i64 = rows.iter().map(|row| i64::from(row.get::<_, i32>(1))).sum();
    assert_eq!(sum, TOTAL, "the rows of one statement");
    Ok(())
}

async fn all(client: &Client, what: &str) -> Result<(), Error> {
    let row = client.query_one("SELECT count(*), sum(balance) FROM accounts", &[]).await?;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (ACCOUNTS, TOTAL), "the sum of {what}");
    Ok(())
}

async fn snapshot(client: &Client) -> Result<(), Error> {
    let outcome = in_snapshot(client).await;
    let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await;
    outcome.and(ended)
}

async fn in_snapshot(client: &Client) -> Result<(), Error> {
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    all(client, "a snapshot").await?; // all shards join at once: those that join late may have to fail (40001)
    let mut sum = 0;
    for account in 1..=ACCOUNTS {
        let row = client.query_one("SELECT balance FROM accounts WHERE id = $1", &[&account]).await?;
        sum += i64::from(row.get::<_, i32>(0));
    }
    assert_eq!(sum, TOTAL, "accounts one by one in one snapshot");
    all(client, "a snapshot again").await
}
