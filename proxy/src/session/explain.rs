//! EXPLAIN: the proxy's plan above the plans of the shards.

use crate::error::Error;
use crate::exec::backends::run_on;
use crate::exec::cache::Planned;
use crate::plan::ExplainPlan;
use crate::route::Route;
use crate::session::Outcome;
use crate::session::Session;
use std::sync::Arc;

impl Session {
    pub(super) async fn explain_simple(
        &mut self,
        _planned: &Arc<Planned>,
        explain: &ExplainPlan,
        text: &str,
    ) -> Outcome {
        if explain.analyze && explain.inner.writes.as_ref().is_some_and(|plan| plan.always_draws()) {
            return Err(analyze_refused().into());
        }
        // The inner plan knows the inner statement's text only.
        let inner = text.get(explain.body..).unwrap_or_default();
        self.scan_text(inner)?;
        let literals = std::mem::take(&mut self.scan.literals);
        let values = self.values(inner, &literals);
        let route = self.choose(&explain.inner, &values);
        let texts = match (&route, &explain.inner.writes) {
            (Ok(Route::Several(shards)), Some(plan)) => Some(self.explained_texts(plan, &values, shards)),
            _ => None,
        };
        self.scan.literals = literals;
        let shards = match route? {
            // One shard: PostgreSQL's own answer.
            Route::One(shard) => {
                self.before_whole(&explain.inner, shard).await?;
                return self.forward(shard, text.as_bytes()).await;
            }
            Route::Several(shards) => shards,
            Route::Any | Route::Home | Route::Nowhere => return Err(Error::internal("a route was not resolved").into()),
        };
        if let Some(error) = explain.inner.refused_over_several() {
            return Err(error.clone().into());
        }
        let texts = match (texts, &explain.inner.scatter) {
            (Some(_), _) if explain.analyze => return Err(analyze_refused().into()),
            (Some(texts), _) => texts?,
            (None, Ok(scatter)) => {
                let tokens = crate::sql::lexer::tokenize(inner, self.conforming_strings())?;
                let sql = scatter.sql.render(inner, &tokens);
                shards.into_iter().map(|shard| (shard, sql.clone())).collect()
            }
            (None, Err(error)) => return Err(error.clone().into()),
        };
        if !explain.text {
            return Err(Error::unsupported(
                "EXPLAIN of a scattered statement in a format other than TEXT is not supported yet",
            )
            .hint("Use EXPLAIN (FORMAT TEXT).")
            .into());
        }
        let mut lines = explain.lines.clone();
        for (shard, sql) in texts {
            let name = self
                .backends
                .database
                .config
                .shards
                .get(usize::from(shard.0))
                .map_or_else(String::new, |s| s.name.clone());
            let held = self.backends.acquire(shard, &self.variables).await?;
            let answer = run_on(held, &format!("{}{sql}", explain.prefix)).await?;
            lines.push(format!("  on shard {name}:"));
            for row in &answer.rows {
                let cell = row.first().and_then(|v| v.as_deref()).unwrap_or_default();
                lines.push(format!("    {}", String::from_utf8_lossy(cell)));
            }
        }
        self.text_rows("QUERY PLAN", &lines, "EXPLAIN");
        Ok(())
    }
}

fn analyze_refused() -> Error {
    Error::unsupported("EXPLAIN ANALYZE of a write over several shards, or one that draws from a sequence")
        .hint("Use EXPLAIN without ANALYZE.")
}
