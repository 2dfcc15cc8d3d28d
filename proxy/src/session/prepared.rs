//! Prepared statements: one namespace for SQL and protocol, per client; on servers they are named by their content.

use crate::error::Error;
use crate::error::Routine;
use crate::error::codes;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::cache::next_number;
use crate::limits;
use crate::plan::Plan;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::pipeline::CHANGED_RESULT;
use crate::session::simple::characters;
use crate::session::simple::is_data;
use crate::sql::command::Command;
use crate::value::Oid;
use crate::wire::backend;
use std::sync::Arc;

/// A client's prepared statement.
pub struct Prepared {
    pub text: Arc<str>,
    /// It asks what the session listens on: it is planned anew each time.
    pub shows_channels: bool,
    /// Types that the client declared.
    pub declared: Vec<Oid>,
    /// The plan when it was parsed, and the version of the catalog then: an older plan is made anew.
    pub planned: Arc<Planned>,
    pub version: u64,
    /// `None` for what the session leads itself.
    pub description: Option<Arc<Description>>,
    /// The settings under which its names were resolved, and the temporary things that were there.
    pub path: String,
    pub own_names: u64,
    /// The text of SQL's PREPARE, if it was prepared by that.
    pub definition: Option<Arc<str>>,
    /// Under its own name it is prepared on the connection that the session keeps.
    pub on_server: bool,
}

impl Session {
    /// Parse: plans a text and lets a server check it. What servers say is kept with the plan, so that it is asked
    /// once for each text.
    ///
    /// # Errors
    /// What the text has wrong, as a server says it.
    pub(super) async fn prepare(&mut self, text: &str, declared: &[Oid]) -> Outcome<Prepared> {
        if let Some(shown) = self.with_channels(text) {
            let prepared = Box::pin(self.prepare(&shown, declared)).await?;
            return Ok(Prepared { text: Arc::from(text), shows_channels: true, ..prepared });
        }
        self.settle_catalog().await?;
        let mut planned = self.plan_text(text, declared)?;
        let mut unknown_to_us = None;
        if let Plan::Unknown(unknown) = &planned.plan {
            if self.look_again(&unknown.names).await {
                planned = self.plan_text(text, declared)?;
            }
            if let Plan::Unknown(unknown) = &planned.plan
                && self.backends.database.config.shards.len() > 1
                && let Some(again) =
                    Box::pin(self.known_to_servers(&planned.command, &unknown.names, text, declared)).await?
            {
                planned = again;
            }
            if let Plan::Unknown(_) = &planned.plan {
                // The home shard says what is wrong with it, or knows better.
                unknown_to_us = Some(Arc::new(self.ask(HOME, next_number(), text, declared).await?));
            }
        }
        match &planned.plan {
            Plan::AskFirst(refusal) => self.ask_first(text, declared, refusal).await?,
            Plan::Refuse(refusal) if is_data(&planned.command) && refusal.code == codes::NOT_SUPPORTED => {
                self.ask_first(text, declared, refusal).await?;
            }
            _ => {}
        }
        let description = match &planned.plan {
            Plan::Unknown(_) => unknown_to_us,
            Plan::Refuse(error) => return Err(Box::pin(self.mistake_first(text, declared, error)).await),
            Plan::Rows(_) | Plan::Explain(_) => {
                let description = self.description(&planned).await?;
                if description.params != planned.types {
                    planned = self.with_types(text, declared, &description)?;
                }
                Some(description)
            }
            Plan::Session if matches!(planned.command, Command::Show(_) | Command::Fetch { .. }) => {
                self.describe_session(&planned).await?
            }
            Plan::Session => match &planned.command {
                Command::Execute { .. } => self.describe_execute(&planned.command),
                Command::Declare { body, .. } if text.contains('$') => {
                    self.describe_declare(body.clone(), text, declared).await?
                }
                _ => None,
            },
            _ => None,
        };
        Ok(self.prepared_as(planned, declared, description))
    }

    /// What `prepare` would give for a plan of the present snapshot, where no server need be asked: its rows are
    /// described already, and its parameters have the types that it was planned with.
    pub(super) fn prepared_before(&self, planned: &Arc<Planned>, declared: &[Oid]) -> Option<Prepared> {
        let (Plan::Rows(_), Some(description)) = (&planned.plan, planned.description.get()) else { return None };
        let settled = description.params == planned.types;
        settled.then(|| self.prepared_as(Arc::clone(planned), declared, Some(Arc::clone(description))))
    }

    fn prepared_as(&self, planned: Arc<Planned>, declared: &[Oid], description: Option<Arc<Description>>) -> Prepared {
        Prepared {
            text: Arc::clone(&planned.text),
            shows_channels: planned.shows_channels,
            declared: declared.to_vec(),
            version: self.snapshot().catalog.version,
            path: self.variables.search_path().unwrap_or("").to_owned(),
            own_names: self.own_names,
            planned,
            description,
            definition: None,
            on_server: false,
        }
    }

    /// The plan made again now that the servers have told the parameters' types.
    fn with_types(&mut self, text: &str, declared: &[Oid], description: &Arc<Description>) -> Outcome<Arc<Planned>> {
        let planned = self.plan_with_types(text, declared, &description.params)?;
        let _ = planned.description.set(Arc::clone(description));
        let planned = Arc::new(planned);
        self.replace_plan(text, declared, &planned);
        Ok(planned)
    }

    /// SHOW and FETCH give rows, which only the connection that runs them can describe.
    async fn describe_session(&mut self, planned: &Arc<Planned>) -> Outcome<Option<Arc<Description>>> {
        let shard = match &planned.command {
            Command::Fetch { cursor } => self.shard_of_cursor(cursor),
            Command::Show(name) if name.starts_with("shardway.") => {
                let fields = Some(vec![backend::text_field(name)]);
                return Ok(Some(Arc::new(Description { params: Vec::new(), fields })));
            }
            _ => self.nearest(),
        };
        // Under a number of its own: a cursor's columns are not those of the next cursor with its name.
        let described = self.ask(shard, next_number(), &planned.text, &[]).await?;
        Ok(Some(Arc::new(described)))
    }

    fn describe_execute(&self, command: &Command) -> Option<Arc<Description>> {
        let Command::Execute { name, .. } = command else { return None };
        let inner = self.prepared.get(name.as_bytes())?.description.clone()?;
        Some(Arc::new(Description { params: Vec::new(), fields: inner.fields.clone() }))
    }

    /// Keeps a statement under a client's name; the unnamed one is replaced, a named one must be new.
    pub(super) fn keep_prepared(&mut self, name: &[u8], prepared: Prepared) -> Outcome {
        if !name.is_empty() {
            self.refuse_duplicate(name)?;
            if self.prepared.len() >= limits::CLIENT_STATEMENTS {
                return Err(Error::new(codes::PROGRAM_LIMIT, "too many prepared statements")
                    .hint("Close those that are not used any more.")
                    .into());
            }
        }
        self.prepared.insert(kept_name(name).to_vec(), Arc::new(prepared));
        Ok(())
    }

    pub(super) fn refuse_duplicate(&self, name: &[u8]) -> Outcome {
        if self.prepared.contains_key(kept_name(name)) {
            let name = String::from_utf8_lossy(name);
            return Err(Error::new(
                codes::DUPLICATE_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        Ok(())
    }

    /// A client's statement, planned again when the catalog or the search path has changed since.
    pub(super) async fn find_prepared(&mut self, name: &[u8]) -> Outcome<Arc<Prepared>> {
        let Some(prepared) = self.prepared.get(kept_name(name)).cloned() else {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_owned()
            } else {
                format!("prepared statement \"{}\" does not exist", String::from_utf8_lossy(name))
            };
            return Err(Error::new(codes::INVALID_STATEMENT_NAME, message).into());
        };
        self.settle_catalog().await?;
        if self.is_current(&prepared) {
            return Ok(prepared);
        }
        let described = is_described(&prepared);
        let mut again = Box::pin(self.prepare(&prepared.text, &prepared.declared)).await?;
        again.definition.clone_from(&prepared.definition);
        again.on_server = prepared.on_server;
        let fields = |d: &Option<Arc<Description>>| {
            d.as_ref().and_then(|d| {
                d.fields.as_ref().map(|f| f.iter().map(|c| (c.name.clone(), c.type_oid)).collect::<Vec<_>>())
            })
        };
        if described && fields(&again.description) != fields(&prepared.description) {
            // As PostgreSQL says it, and as drivers know it: pgjdbc and asyncpg prepare again by the routine's name.
            return Err(Error::unsupported(CHANGED_RESULT).from_routine(Routine::RevalidateCachedQuery).into());
        }
        let again = Arc::new(again);
        self.prepared.insert(kept_name(name).to_vec(), Arc::clone(&again));
        Ok(again)
    }

    /// Its plan is what it would be if it were made now.
    pub(super) fn is_current(&self, prepared: &Prepared) -> bool {
        is_described(prepared)
            && prepared.version == self.backends.look(|catalog| catalog.version)
            && prepared.path == self.variables.search_path().unwrap_or("")
            && prepared.own_names == self.own_names
            && !prepared.shows_channels
    }

    /// PREPARE name (types) AS …
    pub(super) async fn sql_prepare(&mut self, name: &str, types: &[String], inner: &str, text: &str) -> Outcome {
        if self.is_tied() {
            return self.prepare_on_server(name, inner, text).await;
        }
        self.refuse_duplicate(name.as_bytes())?;
        let mut declared = Vec::new();
        if !types.is_empty() {
            let columns: Vec<String> = types
                .iter()
                .map(|t| format!("'{}'::pg_catalog.regtype::pg_catalog.oid", t.replace('\'', "''")))
                .collect();
            let shard = self.nearest();
            let held = self.backends.acquire(shard, &self.variables).await?;
            let answer = crate::exec::backends::run_on(held, &format!("SELECT {}", columns.join(", "))).await?;
            for value in answer.rows.first().map(Vec::as_slice).unwrap_or_default() {
                let text = value.as_deref().and_then(|v| std::str::from_utf8(v).ok()).unwrap_or("0");
                let held = self.backends.acquire(shard, &self.variables).await?;
                let own = text.parse().unwrap_or(0);
                match held.lease.home_type(own) {
                    0 if own != 0 => return Err(held.lease.lacks_type().into()),
                    oid => declared.push(oid),
                }
            }
        }
        let before = text.find(inner).map_or(0, |at| characters(text, 0..at));
        let mut prepared = self.prepare(inner, &declared).await.map_err(|failure| shifted(failure, before))?;
        prepared.definition = Some(Arc::from(text));
        self.keep_prepared(name.as_bytes(), prepared)?;
        backend::put_command_complete(&mut self.client.write, "PREPARE");
        Ok(())
    }
}

/// The part of a statement's or portal's name that counts: PostgreSQL's tables of them have keys of NAMEDATALEN.
pub(super) fn kept_name(name: &[u8]) -> &[u8] {
    name.get(..63).unwrap_or(name)
}

/// An error in a part of the client's text that begins behind `before` characters.
pub(super) fn shifted(failure: Failure, before: u32) -> Failure {
    match failure {
        Failure::Error(error) => Failure::Error(backend::moved(error, before)),
        other => other,
    }
}

/// False for one that only its own connection knows, and has not been asked yet.
fn is_described(prepared: &Prepared) -> bool {
    !prepared.on_server || prepared.description.is_some()
}
