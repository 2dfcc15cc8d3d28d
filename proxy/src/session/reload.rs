//! A reload reaches the sessions that are connected: between two transactions they take over what was built anew.

use crate::catalog::ShardId;
use crate::config;
use crate::error::Error;
use crate::error::codes;
use crate::session::Failure;
use crate::session::Outcome;
use crate::session::Session;
use std::sync::Arc;

impl Session {
    /// Called before a message when no transaction is open. What was removed from the configuration goes on as it was
    /// for those who are connected.
    ///
    /// # Errors
    /// FATAL 57P01: the shards have changed, and a server connection holds state of this session.
    pub(super) fn follow_reload(&mut self) -> Outcome {
        let state = self.shared.state.load();
        if Arc::ptr_eq(&state, &self.state) {
            return Ok(());
        }
        let state = Arc::clone(&state);
        let name = &self.backends.database.config.name;
        if let Some(database) = state.databases.get(name)
            && !Arc::ptr_eq(database, &self.backends.database)
        {
            if !same_shards(&database.config, &self.backends.database.config) {
                if !self.backends.held.is_empty() || self.listening.is_about() {
                    return Err(Failure::Fatal(Error::fatal(
                        codes::ADMIN_SHUTDOWN,
                        "terminating connection because its shards were configured anew",
                    )));
                }
                self.forced =
                    self.forced.and_then(|shard| renumbered(shard, &self.backends.database.config, &database.config));
            }
            let database = Arc::clone(database);
            self.backends.take_over(database);
        }
        if let Some(user) = state.config.users.iter().find(|user| user.name == self.backends.user.name) {
            self.backends.log_in_as(user.clone(), Arc::clone(&state.logins));
        }
        self.state = state;
        Ok(())
    }
}

/// The same servers in the same order: connections that are held stay good.
fn same_shards(new: &config::Database, old: &config::Database) -> bool {
    new.shards == old.shards
}

fn renumbered(shard: ShardId, old: &config::Database, new: &config::Database) -> Option<ShardId> {
    let name = &old.shards.get(usize::from(shard.0))?.name;
    let position = new.shards.iter().position(|s| s.name == *name)?;
    u16::try_from(position).ok().map(ShardId)
}
