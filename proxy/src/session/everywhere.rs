//! One text on several shards: schema changes and maintenance.
//!
//! What PostgreSQL allows in a transaction runs in one over all shards, so that it happens everywhere or nowhere. What it
//! forbids there runs shard by shard, and the client is told where it was done.

use crate::catalog::QualifiedName;
use crate::catalog::ShardId;
use crate::catalog::schema::QUERY;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::Held;
use crate::exec::backends::run_on;
use crate::limits;
use crate::plan::EverywherePlan;
use crate::plan::MARKS;
use crate::plan::OnShards;
use crate::plan::writes::moment::Moment;
use crate::plan::writes::moment::moments;
use crate::pool::Answer;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::sql::literal;
use crate::wire::backend;
use std::collections::HashSet;

/// A shard's number stands above these bits of the numbers that its own sequences give.
const NUMBER_BITS: u32 = 48;

impl Session {
    pub(super) async fn everywhere(&mut self, plan: &EverywherePlan, text: &str) -> Outcome {
        if self.has_one_shard() && !self.pipeline.executing {
            return self.on_only_shard(plan, text).await;
        }
        let shards = self.shards_of(plan);
        if plan.outside_transaction {
            self.one_after_the_other(plan, &shards, text).await
        } else {
            self.in_one_transaction(plan, &shards, text).await
        }
    }

    /// There is nothing to keep together: PostgreSQL itself says all that there is to say.
    async fn on_only_shard(&mut self, plan: &EverywherePlan, text: &str) -> Outcome {
        self.backends.note_write(HOME);
        let outcome = self.forward(HOME, text.as_bytes()).await;
        // What runs outside of transactions may have changed something although it failed.
        if plan.outside_transaction || (plan.changes_schema && outcome.is_ok()) {
            self.note_schema_change();
        }
        outcome?;
        self.renew_temporary().await
    }

    fn shards_of(&self, plan: &EverywherePlan) -> Vec<ShardId> {
        let shards: Vec<ShardId> = match &plan.shards {
            OnShards::All => self.backends.database.shards().collect(),
            OnShards::Some(shards) => shards.clone(),
        };
        if !plan.of_server {
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
    async fn on_each(&mut self, plan: &EverywherePlan, shards: &[ShardId], text: &str) -> Outcome<Answer> {
        if let Some(text) = &plan.marked {
            return self.on_each_alike(shards, text).await;
        }
        let mut first = None;
        let mut stamped = None;
        for &shard in shards {
            match (&plan.stamped, &stamped) {
                (Some(table), Some(text)) => self.on_stamped(shard, table, text).await?,
                (table, _) => {
                    let answer = self.on_one(shard, own_text(plan, shard, text)).await?;
                    first.get_or_insert(answer);
                    if let Some(table) = table {
                        stamped = Some(self.stamp(shard, table, text).await?);
                    }
                }
            }
        }
        first.ok_or_else(|| Error::internal("a statement for no shard").into())
    }

    /// A block whose branches leave marks: it must have gone the same way everywhere.
    async fn on_each_alike(&mut self, shards: &[ShardId], text: &str) -> Outcome<Answer> {
        let marks = format!("SELECT pg_catalog.current_setting('{MARKS}')");
        let mut first: Option<(Answer, Option<String>)> = None;
        for &shard in shards {
            let answer = self.on_one(shard, text).await?;
            let way = self.on_one(shard, &marks).await?.text();
            match &first {
                None => first = Some((answer, way)),
                Some((_, other)) if *other == way => {}
                Some(_) => {
                    let shard = self.shard_name(shard);
                    let error = Error::unsupported("a DO block that goes different ways on different shards");
                    let detail =
                        format!("On shard {shard} other conditions hold, or other errors are met, than on the first.");
                    let hint = "Run it on each shard by itself, chosen with SET shardway.shard = '…'.";
                    return Err(error.detail(detail).hint(hint).into());
                }
            }
        }
        let (answer, _) = first.ok_or_else(|| Error::internal("a block for no shard"))?;
        Ok(answer)
    }

    /// The text for the other shards, with the first one's time in it, and what makes their defaults the first one's.
    async fn stamp(&mut self, shard: ShardId, table: &QualifiedName, text: &str) -> Outcome<Stamped> {
        let tokens = crate::sql::lexer::tokenize(text, self.conforming_strings())?;
        let calls = moments(text, &tokens);
        let range = |call: &Moment| {
            let start = tokens.get(call.first).map_or(0, |t| t.start as usize);
            start..tokens.get(call.last).map_or(start, |t| t.end as usize)
        };
        let columns: Vec<String> = calls
            .iter()
            .map(|call| format!("({})::pg_catalog.text", text.get(range(call)).unwrap_or_default()))
            .collect();
        let answer = self.on_one(shard, &format!("SELECT {}", columns.join(", "))).await?;
        let mut values = answer.rows.into_iter().flatten();
        let (mut own, mut at) = (String::with_capacity(text.len() + 64), 0);
        for call in &calls {
            let value = values.next().flatten().unwrap_or_default();
            let value = literal::quote(&String::from_utf8_lossy(&value));
            own.push_str(text.get(at..range(call).start).unwrap_or_default());
            own.push_str(&format!(" {value}::pg_catalog.{} ", call.type_name));
            at = range(call).end;
        }
        own.push_str(text.get(at..).unwrap_or_default());
        let defaults = self.on_one(shard, &defaults_query(table)).await?.rows;
        Ok(Stamped { text: own, defaults })
    }

    async fn on_stamped(&mut self, shard: ShardId, table: &QualifiedName, stamped: &Stamped) -> Outcome {
        self.on_one(shard, &stamped.text).await?;
        let own = self.on_one(shard, &defaults_query(table)).await?.rows;
        for wanted in stamped.defaults.iter().filter(|row| !own.contains(row)) {
            let [Some(column), Some(default)] = wanted.as_slice() else { continue };
            let (column, default) = (String::from_utf8_lossy(column), String::from_utf8_lossy(default));
            let quote = crate::sql::names::quote;
            let change = format!(
                "ALTER TABLE {}.{} ALTER COLUMN {} SET DEFAULT {default}",
                quote(&table.schema),
                quote(&table.name),
                quote(&column),
            );
            self.on_one(shard, &change).await?;
        }
        Ok(())
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
        if plan.changes_schema {
            self.refuse_torn_writes(shards).await?;
        }
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
            match self.on_each(plan, shards, text).await {
                Ok(got) => answer = Some(got),
                Err(failure) => outcome = Err(failure),
            }
        }
        for table in &plan.numbers {
            if outcome.is_ok() {
                outcome = self.spread_numbers(table, shards).await;
            }
        }
        if plan.changes_schema && outcome.is_ok() {
            self.backends.transaction.schema_changed = true;
            if !own.ends_here() && self.has_one_shard() {
                self.note_schema_change();
            } else if !own.ends_here() {
                outcome = self.renew_overlay().await;
            }
        }
        let mut outcome = self.end_writes(own, outcome).await;
        if outcome.is_ok() {
            outcome = self.changed_temporary().await;
        }
        if let (Ok(()), Some(answer)) = (&outcome, &answer) {
            self.tell(answer);
        }
        outcome
    }

    /// The sequences of a new sharded table begin on each shard at the shard's number in the high bits, so that those
    /// who write past the proxy cannot collide. The lead shard's begin where they were told to: the proxy draws from
    /// them. START as well as RESTART, so that TRUNCATE … RESTART IDENTITY keeps them apart.
    async fn spread_numbers(&mut self, table: &QualifiedName, shards: &[ShardId]) -> Outcome {
        let name = |name: &str| literal::quote(&crate::sql::names::quote(name));
        let query = format!(
            "SELECT s.seqrelid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_sequence s \
             JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass \
                  AND d.objid = s.seqrelid AND d.deptype IN ('a', 'i') \
             WHERE d.refobjid = pg_catalog.to_regclass({} || '.' || {}) AND s.seqtypid = 20 AND s.seqincrement > 0 \
               AND s.seqmax = 9223372036854775807 AND s.seqstart < {}",
            name(&table.schema),
            name(&table.name),
            1_u64 << NUMBER_BITS,
        );
        for &shard in shards.iter().filter(|shard| shard.0 > 0) {
            let answer = self.on_one(shard, &query).await?;
            let first = i64::from(shard.0) << NUMBER_BITS;
            let sequences = answer.rows.into_iter().flatten().flatten();
            let restarts: Vec<String> = sequences
                .map(|sequence| String::from_utf8_lossy(&sequence).into_owned())
                .map(|sequence| format!("ALTER SEQUENCE {sequence} START WITH {first} RESTART"))
                .collect();
            for restart in restarts {
                self.on_one(shard, &restart).await?;
            }
        }
        Ok(())
    }

    /// The catalog as the transaction sees it now, read over its own connection to the home shard.
    pub(super) async fn renew_overlay(&mut self) -> Outcome {
        let mut tries = limits::CATALOG_TRIES;
        loop {
            self.backends.acquire(HOME, &self.variables).await?;
            let taking_part = self.backends.held.iter_mut().filter(|held| held.joined || held.shard == HOME);
            let read = futures::future::join_all(taking_part.map(read_catalog)).await;
            let overlay = match read.into_iter().collect::<Result<Vec<(ShardId, String)>, Error>>() {
                Ok(texts) => self.backends.database.overlay(&texts).await,
                Err(error) => Err(error),
            };
            tries -= 1;
            match overlay {
                // Others drop things while the query reads them.
                Err(error) if error.code == codes::INTERNAL && tries > 0 => {}
                overlay => {
                    self.backends.transaction.overlay = Some(overlay?);
                    return Ok(());
                }
            }
        }
    }

    async fn one_after_the_other(&mut self, plan: &EverywherePlan, shards: &[ShardId], text: &str) -> Outcome {
        if self.backends.transaction.is_block() {
            // PostgreSQL says why not.
            let shard = shards.first().copied().unwrap_or(HOME);
            return self.forward(shard, text.as_bytes()).await;
        }
        if self.pipeline.executing && self.pipeline.ran {
            return Err(not_in_pipeline(&kind_of(text)).into());
        }
        self.pipeline.fresh = true;
        let mut done: Vec<String> = Vec::new();
        let mut first = None;
        let mut outcome = Ok(());
        for &shard in shards {
            match self.on_one(shard, own_text(plan, shard, text)).await {
                Ok(answer) => {
                    first.get_or_insert(answer);
                    done.push(self.shard_name(shard));
                }
                Err(Failure::Error(error)) if shards.len() > 1 => {
                    let left = shards.iter().skip(done.len() + 1).map(|shard| self.shard_name(*shard)).collect();
                    outcome = Err(Failure::Error(self.half_done(error, &done, shard, left)));
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
    fn half_done(&self, error: Error, done: &[String], shard: ShardId, left: Vec<String>) -> Error {
        let failed = self.shard_name(shard);
        let mut told = error.detail.as_deref().map(|detail| format!("{detail} ")).unwrap_or_default();
        match done {
            [] => told += &format!("Failed on shard {failed}; done on no shard."),
            _ => told += &format!("Done on {}; failed on shard {failed}.", shards_text(done)),
        }
        if !left.is_empty() {
            told += &format!(" Not tried on {}.", shards_text(&left));
        }
        let again: Vec<String> = std::iter::once(failed.clone()).chain(left).collect();
        let hint = match done {
            [] => {
                format!("Put it right on shard {failed} (SET shardway.shard = '{failed}'), then repeat the statement.")
            }
            _ => format!(
                "Put it right on shard {failed}, then repeat the statement on {}, each chosen by SET shardway.shard = '{failed}' and so on; RESET shardway.shard afterwards.",
                shards_text(&again)
            ),
        };
        let hint = error.hint.as_deref().map_or_else(|| hint.clone(), |own| format!("{own} {hint}"));
        Error::new(error.code, error.message.clone()).detail(told).hint(hint)
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

/// What a shard runs: the client's text, unless it has only a part of what that names.
fn own_text<'t>(plan: &'t EverywherePlan, shard: ShardId, text: &'t str) -> &'t str {
    plan.texts.iter().find(|(own, _)| *own == shard).map_or(text, |(_, text)| text)
}

/// A text with one shard's time in it, and the defaults of that shard's table: column, expression.
struct Stamped {
    text: String,
    defaults: Vec<Vec<Option<Vec<u8>>>>,
}

fn defaults_query(table: &QualifiedName) -> String {
    let name = |name: &str| literal::quote(&crate::sql::names::quote(name));
    format!(
        "SELECT a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum \
         WHERE d.adrelid = ({} || '.' || {})::pg_catalog.regclass AND a.attgenerated = '' ORDER BY a.attnum",
        name(&table.schema),
        name(&table.name),
    )
}

/// 25001, for what may not run behind other statements of a pipeline (PreventInTransactionBlock in xact.c).
pub(super) fn not_in_pipeline(what: &str) -> Error {
    Error::new(codes::ACTIVE_TRANSACTION, format!("{what} cannot be executed within a pipeline"))
}

/// What PostgreSQL calls a statement that runs outside of transactions.
fn kind_of(text: &str) -> String {
    let tokens = crate::sql::lexer::tokenize(text, true).unwrap_or_default();
    let words: Vec<String> = tokens.iter().take(6).map(|token| token.text(text).to_ascii_uppercase()).collect();
    let first = words.first().map_or("", String::as_str);
    let concurrently = words.iter().any(|word| word == "CONCURRENTLY");
    match first {
        "CREATE" | "DROP" if concurrently => format!("{first} INDEX CONCURRENTLY"),
        "REINDEX" if concurrently => "REINDEX CONCURRENTLY".to_owned(),
        "CREATE" | "DROP" | "ALTER" => words.get(..2).unwrap_or_default().join(" "),
        _ => first.to_owned(),
    }
}

fn shards_text(names: &[String]) -> String {
    format!("shard{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

/// A shard's catalog as the transaction on this connection sees it.
async fn read_catalog(held: &mut Held) -> Result<(ShardId, String), Error> {
    // What the query sets for itself must not last to the end of the client's transaction.
    run_on(held, "SAVEPOINT shardway_catalog").await?;
    let answer = run_on(held, QUERY).await;
    run_on(held, "ROLLBACK TO SAVEPOINT shardway_catalog").await?;
    run_on(held, "RELEASE SAVEPOINT shardway_catalog").await?;
    let text = answer?.text().ok_or_else(|| Error::internal("the catalog query gave no row"))?;
    Ok((held.shard, text))
}
