//! Prepared transactions of the client's own: PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
//!
//! Their names belong to a PostgreSQL server, and a later session must find them again: the shard is the only one, or
//! the one that `SET shardway.shard` names.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::simple::needs_block;
use crate::sql::lexer::tokenize;
use crate::sql::normalize::string_value;
use crate::wire::backend;

/// Our own two-phase commits are named so; recovery acts on what begins with it.
const RESERVED: &str = "shardway:";

impl Session {
    /// PREPARE TRANSACTION 'gid': ends the transaction of this session, whatever comes of it (PrepareTransactionBlock in
    /// xact.c).
    pub(super) async fn prepare_transaction(&mut self, text: &str) -> Outcome {
        match self.backends.transaction.state {
            State::Idle | State::Implicit => return Err(needs_block("PREPARE TRANSACTION").into()),
            State::Failed => {
                self.end_transaction(false).await?;
                backend::put_command_complete(&mut self.client.write, "ROLLBACK");
                return Ok(());
            }
            State::Open => {}
        }
        let prepared = self.prepare_on_one(text).await;
        let ended = Box::pin(self.end_transaction(prepared.is_ok())).await;
        prepared?;
        ended.map(|_| ())
    }

    async fn prepare_on_one(&mut self, text: &str) -> Outcome {
        let shard = self.shard_of_prepared(text)?;
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

    /// Where a prepared transaction that the client names is, or will be.
    ///
    /// # Errors
    /// 42939 for a name that is ours; 0A000 where no shard is certain.
    pub(super) fn shard_of_prepared(&self, text: &str) -> Result<ShardId, Error> {
        let conforming = self.conforming_strings();
        let tokens = tokenize(text, conforming).unwrap_or_default();
        let gid = tokens.iter().find_map(|t| string_value(text, t.start as usize..t.end as usize, conforming));
        if gid.is_none_or(|gid| gid.starts_with(RESERVED)) {
            return Err(Error::new(codes::RESERVED_NAME, "this name of a prepared transaction is reserved")
                .detail("Names that begin with \"shardway:\" belong to commits over several shards."));
        }
        match self.forced {
            Some(shard) => Ok(shard),
            None if self.backends.database.config.shards.len() == 1 => Ok(HOME),
            None => Err(Error::unsupported("prepared transactions of the client's own need a shard")
                .hint("SET shardway.shard to the shard of the transaction; COMMIT alone is atomic over all shards.")),
        }
    }
}
