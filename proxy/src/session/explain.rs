//! EXPLAIN: the proxy's plan above the plans of the shards.

use crate::error::Error;
use crate::error::Result;
use crate::exec::backends::run_on;
use crate::exec::cache::Planned;
use crate::plan::Count;
use crate::plan::ExplainPlan;
use crate::plan::ScatterPlan;
use crate::route::Route;
use crate::session::Outcome;
use crate::session::Session;
use crate::sql::lexer::TokenKind;
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
                let sql = with_own_values(scatter, scatter.sql.render(inner, &tokens), self.conforming_strings())?;
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

/// The shards' text with values for the parameters that it has beside the client's: EXPLAIN takes none.
fn with_own_values(scatter: &ScatterPlan, sql: String, conforming: bool) -> Result<String> {
    if scatter.moment.is_none() && !scatter.in_turn {
        return Ok(sql);
    }
    let limit = match scatter.limit {
        Some(Count::Rows(rows)) => rows.to_string(),
        Some(Count::Param(_)) | None => "NULL".to_owned(),
    };
    let mut out = String::with_capacity(sql.len() + 64);
    let mut at = 0;
    for token in crate::sql::lexer::tokenize(&sql, conforming)?.iter().filter(|t| t.kind == TokenKind::Param) {
        let number = token.text(&sql).strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        let value = match scatter.moment {
            Some(moment) if number == Some(moment.transaction) => "pg_catalog.now()",
            Some(moment) if number == Some(moment.statement) => "pg_catalog.statement_timestamp()",
            _ => &limit,
        };
        out.push_str(sql.get(at..token.start as usize).unwrap_or_default());
        out.push_str(value);
        at = token.end as usize;
    }
    out.push_str(sql.get(at..).unwrap_or_default());
    Ok(out)
}
