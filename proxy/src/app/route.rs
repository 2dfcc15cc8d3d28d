//! `shardway route`: the plan of a statement and, for the values in it, the shards.

use crate::app::describe;
use crate::app::load;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::config::Database as DatabaseConfig;
use crate::exec::database::Database;
use crate::plan;
use crate::plan::Context;
use crate::plan::Effect;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::route;
use crate::route::Route;
use crate::route::Values;
use crate::sql::Statement;
use crate::sql::lexer;
use crate::sql::lexer::TokenKind;
use crate::sql::normalize;
use std::path::Path;
use std::sync::Arc;

/// # Errors
/// A mistake in the configuration; no shard answers; a statement that cannot be planned.
pub async fn print(path: &Path, database: Option<&str>, sql: &str) -> Result<(), String> {
    let config = load(path)?;
    let chosen = choose(&config, database)?;
    let catalog = catalog(&config, chosen).await?;
    let ranges = lexer::split(sql, true).map_err(|e| e.to_string())?;
    let texts: Vec<&str> = ranges.into_iter().filter_map(|range| sql.get(range)).map(str::trim).collect();
    for (n, text) in texts.iter().enumerate() {
        if texts.len() > 1 {
            println!("{}-- {text}", if n > 0 { "\n" } else { "" });
        }
        println!("{}", explain(&catalog, text)?);
    }
    Ok(())
}

fn choose<'a>(config: &'a Config, name: Option<&str>) -> Result<&'a DatabaseConfig, String> {
    let names = || config.databases.iter().map(|d| d.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, config.databases.as_slice()) {
        (Some(name), all) => all
            .iter()
            .find(|d| d.name == name)
            .ok_or_else(|| format!("there is no database {name} in the configuration; choices: {}", names())),
        (None, [only]) => Ok(only),
        (None, _) => Err(format!("the configuration has several databases: choose one with --database: {}", names())),
    }
}

/// What the shards that answer have. Plans need columns, types and constraints, which only they know.
async fn catalog(config: &Config, database: &DatabaseConfig) -> Result<Arc<Catalog>, String> {
    let built = Database::new(database, &config.pool).map_err(|e| e.to_string())?;
    let answers = built.control().read_all("SELECT 1::text").await;
    let away: Vec<String> =
        answers.iter().filter_map(|a| a.as_ref().err()).map(|e| describe(&database.name, e)).collect();
    if away.len() == answers.len() {
        let reason = "a plan needs the columns and types of the tables, and no shard answers";
        return Err(format!("{}\n{reason}", away.join("\n")));
    }
    for line in &away {
        eprintln!("{line}\n  planned with what the other shards have");
    }
    built.look().await.map_err(|e| describe(&database.name, &e))?;
    Ok(Arc::clone(&built.snapshot().catalog))
}

fn explain(catalog: &Catalog, text: &str) -> Result<String, String> {
    let statement = Statement::new(Arc::from(text), true).map_err(|e| e.to_string())?;
    let search_path = ["public".to_owned()];
    let context = Context {
        catalog,
        search_path: &search_path,
        temporary: &[],
        param_types: &[],
        standard_conforming_strings: true,
        forced_shard: None,
    };
    let plan = plan::plan(&statement, &context);
    let printed = plan.display(catalog, Some(&statement)).to_string();
    match &plan {
        Plan::Unknown(unknown) => {
            let names: Vec<String> = unknown.names.iter().map(ToString::to_string).collect();
            Err(format!("no shard that answers has {}", names.join(", ")))
        }
        Plan::Rows(rows) => Ok(format!("{printed}\n{}", shards(rows, text, catalog)?)),
        _ => Ok(printed),
    }
}

/// Where the statement runs with the values that are written in it.
fn shards(rows: &RowsPlan, text: &str, catalog: &Catalog) -> Result<String, String> {
    let mut scan = normalize::Normalized::default();
    normalize::scan(text, true, &mut scan).map_err(|e| e.to_string())?;
    let tokens = lexer::tokenize(text, true).map_err(|e| e.to_string())?;
    if tokens.iter().any(|token| token.kind == TokenKind::Param) {
        return Ok("shards: as the parameters say".to_owned());
    }
    let values = Values { text, literals: &scan.literals, params: &[], standard_conforming_strings: true, drawn: &[] };
    let route = route::shards(&rows.target, &values, catalog, rows.effect == Effect::Write);
    Ok(match route {
        Ok(Route::One(shard)) => format!("shard: {}", catalog.shard_name(shard)),
        Ok(Route::Several(shards)) => {
            let names: Vec<&str> = shards.iter().map(|s| catalog.shard_name(*s)).collect();
            format!("shards: {}", names.join(", "))
        }
        Ok(Route::Any) => "shard: any".to_owned(),
        Ok(Route::Home) => format!("shard: {} (home)", catalog.shard_name(Catalog::HOME)),
        Ok(Route::Nowhere) => "shards: none can have a row; one of them says so".to_owned(),
        Err(error) => format!("shards: {error}"),
    })
}
