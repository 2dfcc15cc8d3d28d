//! Text → plan: by the plan cache when the form of the text is known, else by the planner.

use crate::catalog::QualifiedName;
use crate::error::Result;
use crate::exec::cache::Planned;
use crate::exec::cache::next_number;
use crate::exec::database::Snapshot;
use crate::limits;
use crate::plan;
use crate::plan::Context;
use crate::plan::Plan;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::listen::shows_channels;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::normalize;
use crate::sql::normalize::Normalized;
use crate::value::Oid;
use std::sync::Arc;
use std::sync::OnceLock;

/// What a cache key begins with: the kinds of key never meet.
const BY_FORM: u8 = 1;
const BY_TEXT: u8 = 2;

impl Session {
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.backends.snapshot()
    }

    pub(super) fn conforming_strings(&self) -> bool {
        let reported = || self.reported.conforming_strings();
        // A change is reported only at the end.
        let changed = self.backends.transaction.settings_changed;
        changed.then(|| self.variables.standard_conforming_strings()).flatten().unwrap_or_else(reported)
    }

    /// What beside the text decides a plan goes into the key: how names resolve, and for whom.
    fn start_key(&mut self, kind: u8, types: &[Oid]) {
        let now = (self.variables.generation(), self.forced, self.conforming_strings(), self.own_names);
        let local = self.backends.transaction.is_block();
        if self.context_of != Some(now) || local {
            self.make_context_key();
            // SET LOCAL changes what names mean without a new generation.
            self.context_of = (!local).then_some(now);
        }
        self.key.clear();
        self.key.push(kind);
        self.key.extend_from_slice(&self.context_key);
        self.key.extend_from_slice(&(types.len() as u32).to_be_bytes());
        for oid in types {
            self.key.extend_from_slice(&oid.to_be_bytes());
        }
    }

    fn make_context_key(&mut self) {
        let mut key = std::mem::take(&mut self.context_key);
        key.clear();
        key.push(u8::from(self.conforming_strings()));
        key.extend_from_slice(&self.forced.map_or(u16::MAX, |s| s.0).to_be_bytes());
        for part in [
            self.backends.user.name.as_str(),
            self.variables.get("role").unwrap_or(""),
            self.variables.get("session_authorization").unwrap_or(""),
            self.variables.search_path().unwrap_or(""),
        ] {
            key.extend_from_slice(part.as_bytes());
            key.push(0);
        }
        key.extend_from_slice(&self.own_names.to_be_bytes());
        self.context_key = key;
    }

    /// Brings the catalog up to date, if the schema was changed. A session that keeps the connection to its only shard
    /// needs no catalog to tell where a statement goes and what it leaves behind.
    pub(super) async fn settle_catalog(&mut self) -> Outcome {
        if !self.backends.database.is_outdated() || self.is_tied() {
            return Ok(());
        }
        if self.backends.transaction.overlay.is_none() {
            Box::pin(self.backends.database.renew()).await?;
        }
        Ok(())
    }

    /// The schema of the only shard is not what the catalog says any more. In a transaction nobody reads it: reading
    /// takes locks on what others change, and waits for them. What else runs in the transaction keeps its connection
    /// instead (see `pin_after`).
    pub(super) fn note_schema_change(&mut self) {
        if self.backends.transaction.is_block() {
            self.backends.transaction.schema_changed = true;
            self.backends.transaction.overlay = Some(self.backends.database.replanned());
        } else {
            self.backends.database.outdate();
        }
    }

    pub(super) fn has_one_shard(&self) -> bool {
        self.backends.database.config.shards.len() == 1
    }

    /// It keeps the connection to the only shard.
    pub(super) fn is_tied(&self) -> bool {
        self.has_one_shard() && self.backends.held.iter().any(|held| held.shard == HOME && held.pinned.is_some())
    }

    /// The plan of one statement whose text is scanned already (`self.scan`). Only plans whose literals were not read
    /// are shared by form.
    ///
    /// # Errors
    /// What cannot be cut into tokens.
    pub(super) fn plan_scanned(&mut self, text: &str) -> Result<Arc<Planned>> {
        let snapshot = self.snapshot();
        self.start_key(BY_FORM, &[]);
        let scan = std::mem::take(&mut self.scan);
        self.key.extend_from_slice(&scan.key);
        self.scan = scan;
        if let Some(planned) = snapshot.plans.get(&self.key)
            && planned.fixed.iter().all(|(n, fixed)| self.literal(text, *n) == Some(fixed))
        {
            return Ok(planned);
        }
        let form_key = self.key.clone();
        self.start_key(BY_TEXT, &[]);
        self.key.extend_from_slice(text.as_bytes());
        if let Some(planned) = snapshot.plans.get(&self.key) {
            return Ok(planned);
        }
        let planned = Arc::new(self.make_plan(&snapshot, text, &[])?);
        self.keep(&snapshot, &planned, Some(&form_key));
        Ok(planned)
    }

    /// The plan for exactly this text and these parameter types.
    pub(super) fn plan_text(&mut self, text: &str, types: &[Oid]) -> Result<Arc<Planned>> {
        if let Some(planned) = self.known_plan(text, types) {
            return Ok(planned);
        }
        let snapshot = self.snapshot();
        let planned = Arc::new(self.make_plan(&snapshot, text, types)?);
        self.keep(&snapshot, &planned, None);
        Ok(planned)
    }

    /// The plan for exactly this text and these parameter types, if it was planned before.
    pub(super) fn known_plan(&mut self, text: &str, types: &[Oid]) -> Option<Arc<Planned>> {
        self.start_key(BY_TEXT, types);
        self.key.extend_from_slice(text.as_bytes());
        self.snapshot().plans.get(&self.key)
    }

    fn keep(&mut self, snapshot: &Snapshot, planned: &Arc<Planned>, form_key: Option<&[u8]>) {
        if planned.text.len() > limits::PARSED_STATEMENT_BYTES || matches!(planned.plan, Plan::Unknown(_)) {
            return;
        }
        match form_key {
            Some(key) if planned.template => snapshot.plans.put(key, planned),
            _ => snapshot.plans.put(&self.key, planned),
        }
    }

    /// Plans a text again with parameter types as a server has inferred them.
    pub(super) fn plan_with_types(&mut self, text: &str, declared: &[Oid], types: &[Oid]) -> Result<Planned> {
        let snapshot = self.snapshot();
        let mut planned = self.make_plan(&snapshot, text, types)?;
        planned.declared = declared.to_vec();
        Ok(planned)
    }

    /// Puts a better entry in the place of the one for this text.
    pub(super) fn replace_plan(&mut self, text: &str, declared: &[Oid], planned: &Arc<Planned>) {
        let snapshot = self.snapshot();
        self.start_key(BY_TEXT, declared);
        self.key.extend_from_slice(text.as_bytes());
        snapshot.plans.put(&self.key, planned);
    }

    fn make_plan(&mut self, snapshot: &Snapshot, text: &str, types: &[Oid]) -> Result<Planned> {
        let conforming = self.conforming_strings();
        let statement = Statement::new(Arc::from(text), conforming)?;
        let search_path = self.resolved_search_path(snapshot);
        let context = Context {
            catalog: &snapshot.catalog,
            search_path: &search_path,
            temporary: &self.temporary,
            param_types: types,
            standard_conforming_strings: conforming,
            forced_shard: self.forced,
        };
        let plan = plan::plan(&statement, &context);
        let mut fixed = Vec::new();
        let mut shard_text = None;
        let mut literals = Vec::new();
        let mut otherwise = None;
        if let Plan::Rows(rows) = &plan {
            let mut scan = Normalized::default();
            normalize::scan(text, conforming, &mut scan)?;
            literals = scan.literals;
            let written = |n: usize| literals.get(n).and_then(|l| text.get(l.start as usize..l.end as usize));
            fixed = rows.fixed.iter().filter_map(|&n| Some((n, written(n)?.to_owned()))).collect();
            if let Ok(scatter) = &rows.scatter {
                shard_text = Some(scatter.sql.render(text, &statement.tokens));
                otherwise = scatter.otherwise.as_ref().map(|other| {
                    let text = other.sql.render(text, &statement.tokens);
                    Box::new(planned(&statement, Plan::Session, types, Some(text)))
                });
            }
        }
        Ok(Planned {
            fixed,
            literals,
            conforming_strings: conforming,
            template: is_template(&plan, &statement.command),
            otherwise,
            ..planned(&statement, plan, types, shard_text)
        })
    }

    /// The schemas of search_path that exist, `$user` replaced.
    fn resolved_search_path(&self, snapshot: &Snapshot) -> Vec<String> {
        let user = self.backends.user.server_user.as_deref().unwrap_or(&self.backends.user.name);
        let user = self.variables.get("role").filter(|r| *r != "none").unwrap_or(user);
        crate::variables::text::search_path(self.variables.search_path().unwrap_or("\"$user\", public"))
            .unwrap_or_default()
            .into_iter()
            .map(|schema| if schema == "$user" { user.to_owned() } else { schema })
            .filter(|schema| schema == "pg_catalog" || snapshot.catalog.schemas.contains(schema))
            .collect()
    }

    /// Names that nobody knows: the catalog may be old. True when it was read again.
    pub(super) async fn look_again(&mut self, names: &[QualifiedName]) -> bool {
        if self.backends.transaction.overlay.is_some() || names.is_empty() || self.is_tied() {
            return false;
        }
        let before = self.backends.database.snapshot().catalog.version;
        if let Err(error) = self.backends.database.refresh_if_old().await {
            tracing::warn!(%error, "catalog not read");
        }
        self.backends.database.snapshot().catalog.version != before
    }

    fn literal<'a>(&self, text: &'a str, ordinal: usize) -> Option<&'a str> {
        let literal = self.scan.literals.get(ordinal)?;
        text.get(literal.start as usize..literal.end as usize)
    }

    /// Scans a text into `self.scan`.
    pub(super) fn scan_text(&mut self, text: &str) -> Result<()> {
        let conforming = self.conforming_strings();
        normalize::scan(text, conforming, &mut self.scan)
    }
}

/// A statement of which no server has told anything yet.
fn planned(statement: &Statement, plan: Plan, types: &[Oid], shard_text: Option<String>) -> Planned {
    Planned {
        text: Arc::clone(&statement.text),
        command: statement.command.clone(),
        plan,
        number: next_number(),
        scatter_number: next_number(),
        description: OnceLock::new(),
        shard_types: OnceLock::new(),
        final_statement: OnceLock::new(),
        otherwise: None,
        template: false,
        literals: Vec::new(),
        shows_channels: shows_channels(&statement.text),
        conforming_strings: true,
        fixed: Vec::new(),
        shard_text,
        declared: types.to_vec(),
        types: types.to_vec(),
    }
}

/// A plan may serve other texts of the same form only if the planner has read no literal but those that it names
/// (`RowsPlan::fixed`), and the statement leaves nothing behind on its connection.
fn is_template(plan: &Plan, command: &Command) -> bool {
    let Plan::Rows(rows) = plan else { return false };
    matches!(command, Command::Select | Command::Insert | Command::Update | Command::Delete)
        && !rows.opaque
        && rows.set_config.is_empty()
        && rows.pins.is_none()
        && rows.copy.is_none()
}
