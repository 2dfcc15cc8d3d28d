//! `shardway prepared`: what transactions over several shards have prepared, and how it is decided.

use crate::app::describe;
use crate::app::load;
use crate::control::decision::Outcome;
use crate::exec::commit::PreparedReport;
use crate::exec::database::Database;
use std::path::Path;

/// Prints a line for each: shard, name, age in seconds, decision.
///
/// # Errors
/// A mistake in the configuration; a shard that is away.
pub async fn print(path: &Path) -> Result<(), String> {
    let config = load(path)?;
    println!("database\tshard\tgid\tage\tdecision");
    for database in &config.databases {
        let built = Database::new(database, &config.pool).map_err(|error| describe(&database.name, &error))?;
        let reports = built.prepared_transactions().await.map_err(|error| describe(&database.name, &error))?;
        for report in &reports {
            let PreparedReport { shard, prepared, .. } = report;
            println!("{}\t{shard}\t{}\t{:.0}s\t{}", database.name, prepared.gid, prepared.age, decision(report));
        }
    }
    Ok(())
}

fn decision(report: &PreparedReport) -> String {
    match &report.decision {
        Ok(Some(Outcome::Commit)) => "commit".to_owned(),
        Ok(Some(Outcome::Abort)) => "abort".to_owned(),
        Ok(None) => "undecided".to_owned(),
        Err(error) => format!("unknown: {error}"),
    }
}
