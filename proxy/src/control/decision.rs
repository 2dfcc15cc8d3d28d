//! Decisions of transactions over several shards, as the control login keeps and reads them.
//!
//! Each shard has a table `shardway.decision`: the outcome of every transaction that has chosen this shard to decide, in
//! a row that is part of the transaction itself. It is written through the function `shardway.decide`, which runs as the
//! table's owner and demands the secret whose hash is in the transaction's name: names can be seen in pg_prepared_xacts,
//! so without it anybody could forge a decision.

use crate::control::Connection;
use crate::control::Control;
use crate::control::READ_TIMEOUT;
use crate::control::record::literal;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;

/// What every name of ours begins with.
pub const PREFIX: &str = "shardway";

/// What a shard can do for a commit over several shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFacts {
    /// PostgreSQL's setting.
    pub max_prepared_transactions: u32,
    /// As the placement record says, if there is one.
    pub installation: Option<String>,
    /// The table and the function of decisions are there.
    pub has_decisions: bool,
}

/// A prepared transaction of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pub gid: String,
    /// The role that has prepared it: it or a superuser may end it.
    pub owner: String,
    /// Seconds since it was prepared, by the server's clock.
    pub age: f64,
}

/// What a transaction's decision shard says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Commit,
    Abort,
}

/// The row that `abort` makes is only there when nobody else can decide any more: it waits for a coordinator's own row
/// that is not committed yet.
const OBJECTS: &str = "CREATE TABLE IF NOT EXISTS shardway.decision (\
         gid text PRIMARY KEY, outcome text NOT NULL CHECK (outcome IN ('commit', 'abort')), \
         made timestamptz NOT NULL DEFAULT clock_timestamp(), settled timestamptz);\n\
     CREATE OR REPLACE FUNCTION shardway.decide(gid text, secret text) RETURNS text \
         LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ \
         INSERT INTO shardway.decision (gid, outcome) SELECT $1, 'commit' \
         WHERE split_part($1, ':', 5) = left(encode(sha256(convert_to($2, 'UTF8')), 'hex'), 32) \
         RETURNING CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') \
             THEN set_config('synchronous_commit', 'on', true) ELSE 'unchanged' END $$;\n\
     REVOKE ALL ON shardway.decision FROM PUBLIC;\n\
     GRANT USAGE ON SCHEMA shardway TO PUBLIC;\n\
     GRANT EXECUTE ON FUNCTION shardway.decide(text, text) TO PUBLIC;";

const HAS_DECISIONS: &str =
    "to_regclass('shardway.decision') IS NOT NULL AND to_regprocedure('shardway.decide(text,text)') IS NOT NULL";

impl Control {
    /// # Errors
    /// 08006 where the shard is away.
    pub async fn commit_facts(&self, shard: usize, database: &str) -> Result<CommitFacts> {
        let connection = self.connection(shard)?;
        let sql = format!(
            "SELECT current_setting('max_prepared_transactions'), \
             to_regclass('shardway.installation') IS NOT NULL, {HAS_DECISIONS}"
        );
        let row = connection.rows(&sql, READ_TIMEOUT).await?.into_iter().next().unwrap_or_default();
        let cell = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
        let installation = match cell(1) {
            "t" => {
                let sql =
                    format!("SELECT installation FROM shardway.installation WHERE database = {}", literal(database));
                connection.rows(&sql, READ_TIMEOUT).await?.into_iter().flatten().flatten().next()
            }
            _ => None,
        };
        Ok(CommitFacts {
            max_prepared_transactions: cell(0).parse().unwrap_or(0),
            installation,
            has_decisions: cell(2) == "t",
        })
    }

    /// Makes the table and the function of decisions where the placement record is.
    ///
    /// # Errors
    /// The server's: the control login may not.
    pub async fn make_decisions(&self, shard: usize) -> Result<()> {
        self.connection(shard)?.rows(OBJECTS, READ_TIMEOUT).await.map(drop)
    }

    /// The prepared transactions of an installation in a shard's own database; of any, without one.
    ///
    /// # Errors
    /// 08006 where the shard is away.
    pub async fn prepared(&self, shard: usize, installation: Option<&str>) -> Result<Vec<Prepared>> {
        let prefix = match installation {
            Some(installation) => format!("{PREFIX}:{installation}:"),
            None => format!("{PREFIX}:"),
        };
        let sql = format!(
            "SELECT gid, owner, extract(epoch FROM clock_timestamp() - prepared) FROM pg_prepared_xacts \
             WHERE database = current_database() AND starts_with(gid, {}) ORDER BY prepared",
            literal(&prefix)
        );
        let rows = self.connection(shard)?.rows(&sql, READ_TIMEOUT).await?;
        let read = |row: Vec<Option<String>>| {
            let mut cells = row.into_iter().flatten();
            let (gid, owner) = (cells.next()?, cells.next()?);
            Some(Prepared { gid, owner, age: cells.next()?.parse().unwrap_or(0.0) })
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// What is on record of a transaction, without deciding it.
    ///
    /// # Errors
    /// 08006 where the shard is away.
    pub async fn decision(&self, shard: usize, key: &str) -> Result<Option<Outcome>> {
        let sql = format!("SELECT outcome FROM shardway.decision WHERE gid = {}", literal(key));
        let rows = self.connection(shard)?.rows(&sql, READ_TIMEOUT).await?;
        Ok(rows.into_iter().flatten().flatten().next().map(|word| outcome(&word)))
    }

    /// Decides a transaction that nobody has decided: abort. Waits for a coordinator that is about to decide, as long as
    /// lock_timeout says.
    ///
    /// # Errors
    /// 55P03 while the coordinator's own transaction is open; 08006 where the shard is away.
    pub async fn compete(&self, shard: usize, key: &str) -> Result<Outcome> {
        let key = literal(key);
        let insert = format!(
            "INSERT INTO shardway.decision (gid, outcome) VALUES ({key}, 'abort') ON CONFLICT (gid) DO NOTHING"
        );
        let connection = self.connection(shard)?;
        connection.rows(&insert, READ_TIMEOUT).await?;
        let read = format!("SELECT outcome FROM shardway.decision WHERE gid = {key}");
        let rows = connection.rows(&read, READ_TIMEOUT).await?;
        let word = rows.into_iter().flatten().flatten().next();
        word.map(|word| outcome(&word)).ok_or_else(|| Error::internal("a decision is gone"))
    }

    /// Ends a prepared transaction, as the role that has prepared it where the control login is no superuser. One that
    /// is not there any more is no error.
    ///
    /// # Errors
    /// 42501 where the control login may not; 08006 where the shard is away.
    pub async fn resolve(&self, shard: usize, prepared: &Prepared, outcome: Outcome) -> Result<()> {
        let target = &self.connection(shard)?.target;
        // Its own connection, because its role is changed.
        let client = target.connect().await?;
        let verb = match outcome {
            Outcome::Commit => "COMMIT",
            Outcome::Abort => "ROLLBACK",
        };
        let run = async |sql: &str| client.simple_query(sql).await.map_err(|error| target.error(&error));
        let superuser = run("SELECT 1 FROM pg_roles WHERE rolname = current_user AND rolsuper").await?;
        let superuser = superuser.iter().any(|m| matches!(m, tokio_postgres::SimpleQueryMessage::Row(_)));
        if !superuser {
            run(&format!("SET ROLE {}", crate::config::name::quoted(&prepared.owner))).await?;
        }
        match run(&format!("{verb} PREPARED {}", literal(&prepared.gid))).await {
            Err(error) if error.code != codes::UNDEFINED_OBJECT => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes decisions off the record of which nothing is prepared any more.
    ///
    /// # Errors
    /// 08006 where the shard is away.
    pub async fn forget_decisions(&self, shard: usize, keys: &[String]) -> Result<()> {
        let keys: Vec<String> = keys.iter().map(|key| literal(key)).collect();
        let sql = format!("DELETE FROM shardway.decision WHERE gid IN ({})", keys.join(", "));
        self.connection(shard)?.rows(&sql, READ_TIMEOUT).await.map(drop)
    }

    /// Decisions of an installation on record; those that were settled for long are taken off.
    ///
    /// # Errors
    /// 08006 where the shard is away.
    pub async fn sweep_decisions(&self, shard: usize, installation: &str) -> Result<Vec<String>> {
        let connection = self.connection(shard)?;
        let sweep = "DELETE FROM shardway.decision WHERE settled < clock_timestamp() - interval '10 minutes'";
        connection.rows(sweep, READ_TIMEOUT).await?;
        let sql = format!(
            "SELECT gid FROM shardway.decision WHERE settled IS NULL AND starts_with(gid, {}) LIMIT 10000",
            literal(&format!("{PREFIX}:{installation}:"))
        );
        Ok(connection.rows(&sql, READ_TIMEOUT).await?.into_iter().flatten().flatten().collect())
    }

    /// Notes that nothing is prepared of these any more. They stay on record for a while: a coordinator that has lost its
    /// connection may still ask.
    ///
    /// # Errors
    /// 08006 where the shard is away.
    pub async fn settle_decisions(&self, shard: usize, keys: &[String]) -> Result<()> {
        let keys: Vec<String> = keys.iter().map(|key| literal(key)).collect();
        let sql = format!(
            "UPDATE shardway.decision SET settled = clock_timestamp() WHERE settled IS NULL AND gid IN ({})",
            keys.join(", ")
        );
        self.connection(shard)?.rows(&sql, READ_TIMEOUT).await.map(drop)
    }

    /// Which of these roles the control login may not act for; it needs that to end what they have prepared.
    ///
    /// # Errors
    /// 08006 where the shard is away.
    pub async fn foreign_roles(&self, shard: usize, roles: &[&str]) -> Result<Vec<String>> {
        let roles: Vec<String> = roles.iter().map(|role| literal(role)).collect();
        let sql = format!(
            "SELECT rolname FROM pg_roles WHERE rolname IN ({}) AND NOT pg_has_role(current_user, oid, 'MEMBER')",
            roles.join(", ")
        );
        let connection: &Connection = self.connection(shard)?;
        Ok(connection.rows(&sql, READ_TIMEOUT).await?.into_iter().flatten().flatten().collect())
    }
}

fn outcome(word: &str) -> Outcome {
    if word == "commit" { Outcome::Commit } else { Outcome::Abort }
}
