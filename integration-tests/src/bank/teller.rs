//! A client that moves money, transfer after transfer, by either protocol.

use super::ACCOUNTS;
use super::Fate;
use super::Terms;
use super::connect;
use super::in_time;
use crate::random::rng::Rng;
use std::collections::BTreeMap;
use std::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::Config;
use tokio_postgres::Error;

/// Waits for locks end, where several shards wait for one another.
const SETTINGS: &str = "SET lock_timeout = '2s'";

/// Transfers of one client are numbered from here on.
const STRIDE: i64 = 1_000_000;

struct Transfer {
    number: i64,
    /// Account and what it gets, in the order in which they are locked.
    halves: [(i64, i32); 2],
    /// Given up at the end, as an application does.
    given_up: bool,
}

/// Moves money until the end; what became of each transfer.
pub async fn work(config: Config, client: usize, terms: Terms) -> BTreeMap<i64, Fate> {
    let mut rng = Rng::new(terms.seed.wrapping_mul(1000).wrapping_add(client as u64));
    let mut fates = BTreeMap::new();
    let mut number = STRIDE * client as i64;
    while let Some(connection) = connect(&config, terms.until).await {
        if in_time("SET", connection.client.batch_execute(SETTINGS)).await.is_err() {
            continue;
        }
        while Instant::now() < terms.until && !connection.client.is_closed() {
            number += 1;
            let transfer = draw(&mut rng, number, terms.ordered);
            let simple = rng.chance(50);
            let fate = in_time("a transfer", run(&connection.client, &transfer, simple)).await;
            fates.insert(number, fate);
        }
        if Instant::now() >= terms.until {
            break;
        }
    }
    fates
}

fn draw(rng: &mut Rng, number: i64, ordered: bool) -> Transfer {
    let from = rng.below(ACCOUNTS as usize) as i64 + 1;
    let to = (from + rng.below(ACCOUNTS as usize - 1) as i64) % ACCOUNTS + 1;
    let amount = rng.below(100) as i32 + 1;
    let mut halves = [(from, -amount), (to, amount)];
    if ordered {
        halves.sort();
    }
    Transfer { number, halves, given_up: rng.chance(10) }
}

async fn run(client: &Client, transfer: &Transfer, simple: bool) -> Fate {
    if let Err(error) = write(client, transfer, simple).await {
        let _ = client.batch_execute("ROLLBACK").await;
        return Fate::Failed(state(&error));
    }
    if transfer.given_up {
        let _ = client.batch_execute("ROLLBACK").await;
        return Fate::Failed("given up".into());
    }
    let committed = if simple { client.batch_execute("COMMIT").await } else { commit(client).await };
    match committed {
        Ok(()) => Fate::Done,
        Err(error) if error.code().is_none_or(|code| code.code() == "08007") => Fate::Unknown,
        Err(error) => Fate::Failed(state(&error)),
    }
}

async fn commit(client: &Client) -> Result<(), Error> {
    client.execute("COMMIT", &[]).await.map(|_| ())
}

async fn write(client: &Client, transfer: &Transfer, simple: bool) -> Result<(), Error> {
    if !simple {
        return write_with_parameters(client, transfer).await;
    }
    client.batch_execute("BEGIN").await?;
    for (account, amount) in transfer.halves {
        let number = transfer.number;
        client.batch_execute(&format!("UPDATE accounts SET balance = balance + {amount} WHERE id = {account}")).await?;
        client.batch_execute(&format!("INSERT INTO journal VALUES ({account}, {number}, {amount})")).await?;
    }
    Ok(())
}

async fn write_with_parameters(client: &Client, transfer: &Transfer) -> Result<(), Error> {
    client.execute("BEGIN", &[]).await?;
    for (account, amount) in transfer.halves {
        client.execute("UPDATE accounts SET balance = balance + $2 WHERE id = $1", &[&account, &amount]).await?;
        let insert = "INSERT INTO journal VALUES ($1, $2, $3)";
        client.execute(insert, &[&account, &transfer.number, &amount]).await?;
    }
    Ok(())
}

fn state(error: &Error) -> String {
    error.as_db_error().map(|e| format!("{} {}", e.code().code(), e.message())).unwrap_or_else(|| error.to_string())
}
