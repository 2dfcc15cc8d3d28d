//! SQL's PREPARE where the session keeps the connection to its only shard: the server's own statements, under the
//! client's own names, so that EXPLAIN EXECUTE, CREATE TABLE AS EXECUTE and pg_prepared_statements see them.

use crate::exec::backends::run_on;
use crate::plan::PinReason;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::prepared::Prepared;
use std::sync::Arc;

impl Session {
    /// Whether a statement is prepared on the kept connection under its own name.
    pub(super) fn is_on_server(&self, name: &str) -> bool {
        self.prepared.get(name.as_bytes()).is_some_and(|prepared| prepared.on_server)
    }

    /// PREPARE as the client wrote it.
    ///
    /// # Errors
    /// The server's, which the client has; or that there is such a statement, which may be the protocol's.
    pub(super) async fn prepare_on_server(&mut self, name: &str, inner: &str, text: &str) -> Outcome {
        if !self.is_on_server(name) {
            self.refuse_duplicate(name.as_bytes())?;
        }
        self.forward(HOME, text.as_bytes()).await?;
        let planned = self.plan_text(inner, &[])?;
        let prepared = Prepared {
            text: Arc::clone(&planned.text),
            declared: Vec::new(),
            planned,
            version: self.snapshot().catalog.version,
            description: None,
            path: self.variables.search_path().unwrap_or("").to_owned(),
            own_names: self.own_names,
            shows_channels: false,
            definition: Some(Arc::from(text)),
            on_server: true,
        };
        self.keep_prepared(name.as_bytes(), prepared)
    }

    /// Keeps the connection, takes from it what this proxy and other clients have prepared on it, and prepares on it
    /// what the session has prepared by SQL: the next statement looks at them.
    ///
    /// # Errors
    /// The server's.
    pub(super) async fn move_prepared(&mut self) -> Outcome {
        if !self.has_one_shard() {
            return Ok(());
        }
        self.drain(false).await?;
        let moved: Vec<(Vec<u8>, Arc<Prepared>)> = self
            .prepared
            .iter()
            .filter(|(_, prepared)| !prepared.on_server && prepared.definition.is_some())
            .map(|(name, prepared)| (name.clone(), Arc::clone(prepared)))
            .collect();
        let held = self.backends.acquire_for_statement(HOME, &self.variables).await?;
        for (number, ()) in std::mem::replace(&mut held.lease.statements, lru::LruCache::unbounded()) {
            run_on(held, &format!("DEALLOCATE shardway_{number}")).await?;
        }
        for (_, prepared) in &moved {
            if let Some(definition) = &prepared.definition {
                run_on(held, definition).await?;
            }
        }
        for (name, prepared) in moved {
            let on_server = Prepared {
                text: Arc::clone(&prepared.text),
                declared: prepared.declared.clone(),
                planned: Arc::clone(&prepared.planned),
                version: prepared.version,
                description: prepared.description.clone(),
                path: prepared.path.clone(),
                own_names: prepared.own_names,
                shows_channels: prepared.shows_channels,
                definition: prepared.definition.clone(),
                on_server: true,
            };
            self.prepared.insert(name, Arc::new(on_server));
        }
        self.pin(HOME, PinReason::Opaque);
        Ok(())
    }
}
