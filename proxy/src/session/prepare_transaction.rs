//! Prepared transactions of the client's own: PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
//!
//! A transaction of one shard is prepared there. Its name belongs to that PostgreSQL server, and a later session finds
//! it by asking every shard, unless `SET shardway.shard` names one.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::backends::run_on;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::sql::lexer::tokenize;
use crate::sql::literal;
use crate::sql::normalize::string_value;
use crate::wire::backend;

/// Our own two-phase commits are named so; recovery acts on what begins with it.
const RESERVED: &str = "shardway:";

impl Session {
    /// PREPARE TRANSACTION 'gid': ends the transaction of this session, whatever comes of it (PrepareTransactionBlock in
    /// xact.c). Without a block there is nothing to prepare, except what came before it in the same Query.
    pub(super) async fn prepare_transaction(&mut self, text: &str) -> Outcome {
        let state = self.backends.transaction.state;
        if matches!(state, State::Idle | State::Implicit) {
            self.warn(codes::NO_ACTIVE_TRANSACTION, "there is no transaction in progress");
        }
        if matches!(state, State::Idle | State::Failed) {
            if state == State::Failed {
                self.end_transaction(false).await?;
            }
            backend::put_command_complete(&mut self.client.write, "ROLLBACK");
            return Ok(());
        }
        let prepared = self.prepare_on_one(text).await;
        let ended = Box::pin(self.end_transaction(prepared.is_ok())).await;
        if self.several && self.backends.transaction.state == State::Idle {
            self.begin_implicit();
        }
        prepared?;
        ended.map(|_| ())
    }

    async fn prepare_on_one(&mut self, text: &str) -> Outcome {
        self.own_gid(text)?;
        let first = self.backends.participants().next();
        let shard = self.forced.or(first).unwrap_or(HOME);
        if self.listening.has_changes() {
            let message = "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY";
            return Err(Error::new(codes::NOT_SUPPORTED, message).into());
        }
        if self.backends.participants().any(|participant| participant != shard) {
            return Err(Error::unsupported(
                "PREPARE TRANSACTION of a transaction over several shards is not supported",
            )
            .hint("Use COMMIT: a transaction over several shards is committed in two phases.")
            .into());
        }
        let outcome = self.forward(shard, text.as_bytes()).await;
        // The server is out of the block, prepared or rolled back.
        if let Some(held) = self.backends.find(shard) {
            held.joined = false;
        }
        outcome
    }

    /// COMMIT PREPARED 'gid', ROLLBACK PREPARED 'gid': on the shard that has it. PostgreSQL itself says that it is not
    /// there, or that a transaction block is the wrong place.
    pub(super) async fn finish_prepared(&mut self, text: &str) -> Outcome {
        let gid = self.own_gid(text)?;
        let shard = match self.forced {
            Some(shard) => shard,
            None if self.backends.transaction.is_block() => self.nearest(),
            None => self.shard_of_prepared(&gid).await?.unwrap_or(HOME),
        };
        self.forward(shard, text.as_bytes()).await
    }

    /// The name that a statement gives.
    ///
    /// # Errors
    /// 42939 for a name that is ours.
    fn own_gid(&self, text: &str) -> Result<String, Error> {
        let conforming = self.conforming_strings();
        let tokens = tokenize(text, conforming).unwrap_or_default();
        let gid = tokens.iter().find_map(|t| string_value(text, t.start as usize..t.end as usize, conforming));
        gid.map(|gid| gid.to_string()).filter(|gid| !gid.starts_with(RESERVED)).ok_or_else(|| {
            Error::new(codes::RESERVED_NAME, "this name of a prepared transaction is reserved")
                .detail("Names that begin with \"shardway:\" belong to commits over several shards.")
        })
    }

    /// The shard that has a prepared transaction of this name; `None` where none has.
    ///
    /// # Errors
    /// 0A000 where several have; 08006 where a shard is away.
    async fn shard_of_prepared(&mut self, gid: &str) -> Outcome<Option<ShardId>> {
        let count = self.backends.database.config.shards.len();
        if count == 1 {
            return Ok(None);
        }
        let gid = literal::quote(gid);
        let sql = format!(
            "SELECT 1 FROM pg_catalog.pg_prepared_xacts WHERE gid = {gid} AND database = pg_catalog.current_database()"
        );
        let mut found = None;
        for shard in (0..count).filter_map(|n| u16::try_from(n).ok()).map(ShardId) {
            let held = self.backends.acquire(shard, &self.variables).await?;
            if run_on(held, &sql).await?.rows.is_empty() {
                continue;
            }
            if found.replace(shard).is_some() {
                return Err(Error::unsupported(format!("several shards have a prepared transaction named {gid}"))
                    .hint("SET shardway.shard to the shard that is meant.")
                    .into());
            }
        }
        Ok(found)
    }
}
