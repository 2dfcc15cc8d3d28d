//! One text on several shards: schema changes and maintenance.
//!
//! What PostgreSQL allows in a transaction runs in one on every shard; the commits come one after the other (two-phase
//! commit is a later capability). What it forbids there runs shard by shard.

use crate::catalog::ShardId;
use crate::catalog::schema::QUERY;
use crate::error::Error;
use crate::exec::backends::run_on;
use crate::plan::EverywherePlan;
use crate::plan::OnShards;
use crate::pool::Answer;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::wire::backend;
use std::collections::HashSet;

impl Session {
    pub(super) async fn everywhere(&mut self, plan: &EverywherePlan, text: &str) -> Outcome {
        let shards = self.shards_of(plan, text);
        if plan.outside_transaction {
            self.one_after_the_other(&shards, text).await
        } else {
            self.in_one_transaction(plan, &shards, text).await
        }
    }

    fn shards_of(&self, plan: &EverywherePlan, text: &str) -> Vec<ShardId> {
        let shards: Vec<ShardId> = match &plan.shards {
            OnShards::All => self.backends.database.shards().collect(),
            OnShards::Some(shards) => shards.clone(),
        };
        if !is_about_roles(text) {
            return shards;
        }
        let mut servers = HashSet::new();
        let config = &self.backends.database.config.shards;
        shards
            .into_iter()
            .filter(|s| {
                config.get(usize::from(s.0)).is_some_and(|c| servers.insert((c.primary.host.clone(), c.primary.port)))
            })
            .collect()
    }

    /// Runs the text on each shard. The first shard's tag and notices are the client's, once all is done; the others
    /// are silent, unless they fail.
    async fn on_each(&mut self, shards: &[ShardId], text: &str) -> Outcome<Answer> {
        let mut first = None;
        for &shard in shards {
            let answer = self.on_one(shard, text).await?;
            first.get_or_insert(answer);
        }
        first.ok_or_else(|| Error::internal("a statement for no shard").into())
    }

    async fn on_one(&mut self, shard: ShardId, text: &str) -> Outcome<Answer> {
        let held = self.backends.acquire(shard, &self.variables).await?;
        run_on(held, text).await.map_err(|error| {
            self.learn_from(&error);
            Failure::Error(error)
        })
    }

    fn tell(&mut self, answer: &Answer) {
        self.client.write.extend_from_slice(&answer.notices);
        backend::put_command_complete(&mut self.client.write, &answer.tag);
    }

    async fn in_one_transaction(&mut self, plan: &EverywherePlan, shards: &[ShardId], text: &str) -> Outcome {
        let own = self.share_transaction().await?;
        for &shard in shards {
            self.backends.note_write(shard);
        }
        // Every connection first: a shard that is away must not be found out half way.
        let mut outcome = Ok(());
        for &shard in shards {
            if let Err(error) = self.backends.acquire(shard, &self.variables).await {
                outcome = Err(Failure::from(error));
                break;
            }
        }
        let mut answer = None;
        if outcome.is_ok() {
            match self.on_each(shards, text).await {
                Ok(got) => answer = Some(got),
                Err(failure) => outcome = Err(failure),
            }
        }
        if plan.changes_schema && outcome.is_ok() {
            self.backends.transaction.schema_changed = true;
            if !own.ends_here() {
                outcome = self.renew_overlay().await;
            }
        }
        let mut outcome = self.end_writes(own, outcome).await;
        if outcome.is_ok() {
            outcome = self.renew_temporary().await;
        }
        if let (Ok(()), Some(answer)) = (&outcome, &answer) {
            self.tell(answer);
        }
        outcome
    }

    /// The catalog as the transaction sees it now, read over its own connection to the home shard.
    pub(super) async fn renew_overlay(&mut self) -> Outcome {
        let held = self.backends.acquire(HOME, &self.variables).await?;
        // What the query sets for itself must not last to the end of the client's transaction.
        run_on(held, "SAVEPOINT shardway_catalog").await?;
        let answer = run_on(held, QUERY).await?;
        run_on(held, "ROLLBACK TO SAVEPOINT shardway_catalog").await?;
        run_on(held, "RELEASE SAVEPOINT shardway_catalog").await?;
        let text = answer.text().ok_or_else(|| Error::internal("the catalog query gave no row"))?;
        self.backends.transaction.overlay = Some(self.backends.database.overlay(&text).await?);
        Ok(())
    }

    async fn one_after_the_other(&mut self, shards: &[ShardId], text: &str) -> Outcome {
        if self.backends.transaction.is_block() {
            // PostgreSQL says why not.
            let shard = shards.first().copied().unwrap_or(HOME);
            return self.forward(shard, text.as_bytes()).await;
        }
        let mut done: Vec<String> = Vec::new();
        let mut first = None;
        let mut outcome = Ok(());
        for &shard in shards {
            match self.on_one(shard, text).await {
                Ok(answer) => {
                    first.get_or_insert(answer);
                    done.push(self.shard_name(shard));
                }
                Err(Failure::Error(error)) if !done.is_empty() => {
                    outcome = Err(Failure::Error(self.half_done(error, &done, shard)));
                    break;
                }
                Err(failure) => {
                    outcome = Err(failure);
                    break;
                }
            }
        }
        self.backends.database.refresh().await?;
        if let (Ok(()), Some(answer)) = (&outcome, &first) {
            self.tell(answer);
        }
        outcome
    }

    fn shard_name(&self, shard: ShardId) -> String {
        self.backends.database.config.shards.get(usize::from(shard.0)).map_or_else(String::new, |s| s.name.clone())
    }

    /// Such statements cannot be undone: the client is told where it is done and where not.
    fn half_done(&self, error: Error, done: &[String], shard: ShardId) -> Error {
        let failed = self.shard_name(shard);
        Error::new(error.code, error.message.clone())
            .detail(format!("Done on shards {}; failed on shard {failed}.", done.join(", ")))
            .hint(format!("Put it right on shard {failed} (SET shardway.shard = '{failed}'), then go on there."))
    }

    /// For EXPLAIN and the like: rows of text under one column.
    pub(super) fn text_rows(&mut self, column: &str, lines: &[String], tag: &str) {
        let out = &mut self.client.write;
        if !self.pipeline.executing {
            backend::put_row_description(out, &[backend::text_field(column)]);
        }
        for line in lines {
            backend::put_text_row(out, &[Some(line)]);
        }
        backend::put_command_complete(out, tag);
    }
}

/// Roles belong to a server, not to a database: shards that are databases of one server share them.
fn is_about_roles(text: &str) -> bool {
    let tokens = crate::sql::lexer::tokenize(text, true).unwrap_or_default();
    let mut words = tokens.iter().map(|t| text.get(t.start as usize..t.end as usize).unwrap_or_default());
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    ["create", "alter", "drop"].iter().any(|w| first.eq_ignore_ascii_case(w))
        && ["role", "user", "group"].iter().any(|w| second.eq_ignore_ascii_case(w))
        && !words.next().unwrap_or_default().eq_ignore_ascii_case("mapping")
}
