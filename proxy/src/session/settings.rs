//! SET, RESET, SHOW, DISCARD and what they do to the session's settings.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::backends::quote_identifier;
use crate::exec::backends::run_on;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::everywhere::not_in_pipeline;
use crate::sql::command::TransactionModes;
use crate::wire::backend;

/// Settings of the transaction, not of the session.
const OF_TRANSACTION: &[&str] = &["transaction_isolation", "transaction_read_only", "transaction_deferrable"];

impl Session {
    pub(super) async fn set(&mut self, local: bool, name: &str, value: Option<&str>, text: &str) -> Outcome {
        if name.starts_with("shardway.") {
            self.set_own(name, value)?;
            backend::put_command_complete(&mut self.client.write, "SET");
            return Ok(());
        }
        if OF_TRANSACTION.contains(&name) {
            return self.on_participants(text, "SET").await;
        }
        let shard = self.nearest();
        if value.is_none() && !local {
            return self.reset(name, text).await;
        }
        self.forward(shard, text.as_bytes()).await?;
        if local && !self.backends.transaction.is_block() {
            return Ok(()); // PostgreSQL has warned that it does nothing
        }
        self.keep_setting(shard, name, local).await?;
        if local {
            self.repeat_on_others(shard, text).await?;
            if name.contains('.') {
                self.backends.held.iter_mut().filter(|held| held.joined).for_each(|held| held.lease.retired = true);
            }
        }
        Ok(())
    }

    /// Our own variables.
    fn set_own(&mut self, name: &str, value: Option<&str>) -> Outcome {
        let value = value.map(|v| v.trim().trim_matches('\'').to_owned());
        match (name, value.as_deref()) {
            ("shardway.shard", None | Some("")) => self.forced = None,
            ("shardway.shard", Some(shard)) => {
                let shards = &self.backends.database.config.shards;
                let Some(index) = shards.iter().position(|s| s.name == shard) else {
                    let names: Vec<&str> = shards.iter().map(|s| s.name.as_str()).collect();
                    return Err(Error::new(codes::INVALID_PARAMETER_VALUE, format!("there is no shard \"{shard}\""))
                        .hint(format!("The shards are: {}.", names.join(", ")))
                        .into());
                };
                self.forced = Some(ShardId(u16::try_from(index).unwrap_or(0)));
            }
            ("shardway.run_on", None | Some("")) => self.forced = None,
            ("shardway.run_on", Some("home")) => self.forced = Some(HOME),
            ("shardway.run_on", Some(other)) => {
                return Err(Error::unsupported(format!("shardway.run_on = '{other}' is not supported yet"))
                    .hint("Use 'home', or SET shardway.shard.")
                    .into());
            }
            _ => {
                return Err(Error::new(
                    codes::UNDEFINED_OBJECT,
                    format!("unrecognized configuration parameter \"{name}\""),
                )
                .into());
            }
        }
        Ok(())
    }

    /// The value that a setting has now on a connection becomes the session's.
    pub(super) async fn keep_setting(&mut self, shard: ShardId, name: &str, local: bool) -> Outcome {
        let undone = self.backends.transaction.is_block() || self.pipeline.is_open();
        let Some(held) = self.backends.find(shard) else { return Ok(()) };
        // A variable of the client's own, once made, outlives a rollback or SET LOCAL, as an empty one.
        held.lease.retired |= (undone || local) && name.contains('.');
        // SHOW takes no snapshot: SET TRANSACTION ISOLATION LEVEL must still be possible behind it.
        let parts: Vec<String> = name.split('.').map(quote_identifier).collect();
        let answer = run_on(held, &format!("SHOW {}", parts.join("."))).await?;
        let Some(value) = answer.text() else { return Ok(()) };
        self.note_settings_changed();
        if local {
            self.variables.set_local(name, Some(&value));
        } else {
            self.variables.set(name, &value);
            if let Some(held) = self.backends.find(shard) {
                held.lease.applied.adopt(&self.variables);
            }
        }
        Ok(())
    }

    /// Settings that a rollback would bring back.
    fn note_settings_changed(&mut self) {
        if self.backends.transaction.is_block() || self.pipeline.is_open() {
            self.backends.transaction.settings_changed = true;
        }
    }

    /// The same on the other shards of the transaction, silently.
    async fn repeat_on_others(&mut self, shard: ShardId, text: &str) -> Outcome {
        for held in &mut self.backends.held {
            if held.shard != shard && held.joined {
                run_on(held, text).await?;
            }
        }
        Ok(())
    }

    /// RESET name, and SET name TO DEFAULT: back to what the session began with.
    pub(super) async fn reset(&mut self, name: &str, text: &str) -> Outcome {
        if name.starts_with("shardway.") {
            self.set_own(name, None)?;
            backend::put_command_complete(&mut self.client.write, "RESET");
            return Ok(());
        }
        let shard = self.nearest();
        // The server says whether there is such a setting.
        self.forward(shard, text.as_bytes()).await?;
        self.variables.reset(name);
        self.settle_again(shard).await
    }

    pub(super) async fn reset_all(&mut self, text: &str) -> Outcome {
        let shard = self.nearest();
        self.forward(shard, text.as_bytes()).await?;
        self.variables.reset_all();
        self.settle_again(shard).await
    }

    /// The connection's own defaults are not the session's: what it began with is put back, and reported.
    async fn settle_again(&mut self, shard: ShardId) -> Outcome {
        self.note_settings_changed();
        if let Some(held) = self.backends.find(shard) {
            held.lease.applied.forget();
        }
        self.backends.acquire(shard, &self.variables).await?;
        self.report_all(shard);
        Ok(())
    }

    /// Every reported parameter that differs from what the client knows.
    pub(super) fn report_all(&mut self, shard: ShardId) {
        if let Some(held) = self.backends.find(shard) {
            held.lease.changed = held.lease.parameters.keys().cloned().collect();
        }
        self.note_changes(shard);
    }

    pub(super) async fn show(&mut self, name: &str, text: &str) -> Outcome {
        if !name.starts_with("shardway.") {
            let shard = self.nearest();
            return self.forward(shard, text.as_bytes()).await;
        }
        let value = match name {
            "shardway.shard" => self
                .forced
                .and_then(|s| self.backends.database.config.shards.get(usize::from(s.0)))
                .map_or("", |s| s.name.as_str()),
            "shardway.run_on" => "",
            _ => {
                return Err(Error::new(
                    codes::UNDEFINED_OBJECT,
                    format!("unrecognized configuration parameter \"{name}\""),
                )
                .into());
            }
        };
        let value = value.to_owned();
        self.text_rows(name, &[value], "SHOW");
        Ok(())
    }

    pub(super) async fn discard(&mut self, what: &str) -> Outcome {
        if what == "ALL" {
            if self.backends.transaction.is_block() || self.several {
                return Err(
                    Error::new(codes::ACTIVE_TRANSACTION, "DISCARD ALL cannot run inside a transaction block").into()
                );
            }
            if self.pipeline.executing && self.pipeline.ran {
                return Err(not_in_pipeline("DISCARD ALL").into());
            }
            self.prepared.clear();
            self.portals.clear();
            self.cursors.clear();
            self.forced = None;
            let settings = !self.variables.desired().is_empty();
            self.variables.discard_all();
            self.unlisten_all().await?;
            self.discard_pinned("DISCARD ALL").await?;
            self.forget_temporary();
            if settings {
                let shard = self.nearest();
                self.backends.acquire(shard, &self.variables).await?;
                self.report_all(shard);
            }
        } else {
            self.discard_pinned(&format!("DISCARD {what}")).await?;
            if matches!(what, "TEMP" | "TEMPORARY") {
                self.forget_temporary();
            }
        }
        let tag = if what == "TEMPORARY" { "DISCARD TEMP".to_owned() } else { format!("DISCARD {what}") };
        backend::put_command_complete(&mut self.client.write, &tag);
        Ok(())
    }

    /// What is pinned holds state: the server throws it away.
    async fn discard_pinned(&mut self, text: &str) -> Outcome {
        let all = text == "DISCARD ALL";
        for held in &mut self.backends.held {
            if held.pinned.is_none() && !self.backends.keep_all {
                continue;
            }
            run_on(held, text).await?;
            if all {
                held.lease.statements.clear();
                held.lease.applied = crate::variables::applied::Applied::default();
                held.pinned = None;
            }
        }
        Ok(())
    }

    /// SET TRANSACTION: before anything ran it is a property of the BEGIN that shards will get.
    pub(super) async fn set_transaction(&mut self, modes: &TransactionModes, text: &str) -> Outcome {
        if modes.snapshot.is_some() && self.backends.database.config.shards.len() > 1 {
            return Err(Error::unsupported("SET TRANSACTION SNAPSHOT is not supported over several shards").into());
        }
        let transaction = &mut self.backends.transaction;
        if !transaction.is_block()
            || transaction.state == State::Implicit
            || !transaction.savepoints.is_empty()
            || self.backends.held.iter().any(|h| h.joined)
        {
            return self.on_participants(text, "SET").await;
        }
        merge_modes(&mut self.backends.transaction.modes, modes);
        backend::put_command_complete(&mut self.client.write, "SET");
        Ok(())
    }

    /// A command for every shard of the transaction (or one that says what is wrong outside of one).
    pub(super) async fn on_participants(&mut self, text: &str, _tag: &str) -> Outcome {
        let shard = self.nearest();
        self.forward(shard, text.as_bytes()).await?;
        self.repeat_on_others(shard, text).await
    }
}

pub fn merge_modes(into: &mut TransactionModes, from: &TransactionModes) {
    if from.isolation.is_some() {
        into.isolation.clone_from(&from.isolation);
    }
    into.read_only = from.read_only.or(into.read_only);
    into.deferrable = from.deferrable.or(into.deferrable);
}
