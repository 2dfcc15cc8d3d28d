//! `shardway check`: what is wrong with a configuration and with the shards that it names. Nothing is written anywhere.

use crate::app::describe;
use crate::app::load;
use crate::auth::logins::Logins;
use crate::catalog::ShardId;
use crate::config;
use crate::config::CommitMode;
use crate::config::Config;
use crate::config::Login;
use crate::control::PlacementVerdict;
use crate::error::Error;
use crate::exec::database::Database;
use futures::future::join_all;
use std::path::Path;

/// How far a check goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The file only.
    File,
    /// The shards too: are they there, may everyone log in, are the tables as the file says.
    Shards,
    /// And every row, whether it is in its place.
    Rows,
}

/// What was found. Problems fail the check; remarks do not.
#[derive(Default)]
struct Findings {
    problems: Vec<String>,
    remarks: Vec<String>,
    summaries: Vec<String>,
}

/// # Errors
/// All problems, one to a line.
pub async fn check(path: &Path, depth: Depth) -> Result<(), String> {
    let config = load(path)?;
    let mut found = Findings::default();
    if depth != Depth::File {
        let logins = Logins::new(&config.users).map_err(|e| e.to_string())?;
        for database in &config.databases {
            found.look_at(&config, database, &logins, depth).await;
        }
    }
    for remark in &found.remarks {
        eprintln!("warning: {remark}");
    }
    if !found.problems.is_empty() {
        return Err(found.problems.join("\n"));
    }
    found.summaries.iter().for_each(|line| println!("{line}"));
    println!("{}: in order", path.display());
    Ok(())
}

impl Findings {
    async fn look_at(&mut self, config: &Config, database: &config::Database, logins: &Logins, depth: Depth) {
        let built = match Database::new(database, &config.pool) {
            Ok(built) => built,
            Err(error) => return self.problems.push(describe(&database.name, &error)),
        };
        let answers = built.control().read_all("SELECT 1::text").await;
        let reached: Vec<ShardId> =
            built.shards().zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(shard, _)| shard).collect();
        let away = answers.iter().filter_map(|answer| answer.as_ref().err());
        self.problems.extend(away.map(|error| describe(&database.name, error)));
        if reached.is_empty() {
            return;
        }
        match built.look().await {
            Ok(()) => {
                let problems = built.problems().await;
                self.problems.extend(problems.iter().map(|problem| format!("database {}: {problem}", database.name)));
            }
            Err(error) => self.problems.push(describe(&database.name, &error)),
        }
        self.placement(&built, reached.len() == answers.len(), depth).await;
        self.commits(config, &built, logins, &reached).await;
        let refused = refused_logins(config, &built, logins, &reached).await;
        let logged_in = config.users.len();
        self.problems.extend(refused);
        let tables = built.snapshot().catalog.relations.len();
        self.summaries.push(format!(
            "database {}: {} shards, {tables} tables and views, {logged_in} users",
            database.name,
            database.shards.len()
        ));
    }

    /// Whether writes on several shards can commit atomically, and recovery can end what is left prepared.
    async fn commits(&mut self, config: &Config, built: &Database, logins: &Logins, reached: &[ShardId]) {
        let database = &built.config;
        if database.shards.len() < 2 || database.commit == CommitMode::OnePhase {
            return;
        }
        for &shard in reached {
            let at = usize::from(shard.0);
            match built.control().commit_facts(at, &database.name).await {
                // The proxy makes what is its own when it starts.
                Ok(facts) if facts.max_prepared_transactions > 0 => {}
                Ok(facts) => self.remarks.extend(built.lacks(shard, &facts).map(|e| describe(&database.name, &e))),
                Err(error) => self.problems.push(describe(&database.name, &error)),
            }
            let users = config.users.iter().map(|u| logins.server_login(&u.name, built.url_login(shard)).user);
            let users: Vec<String> = users.collect();
            let users: Vec<&str> = users.iter().map(String::as_str).collect();
            match built.control().foreign_roles(at, &users).await {
                Ok(foreign) if foreign.is_empty() => {}
                Ok(foreign) => self.remarks.push(format!(
                    "database {}: the control login may not act for {} on shard {}\n  After a crash it could not end \
                     their prepared transactions: GRANT these roles to it.",
                    database.name,
                    foreign.join(", "),
                    built.shard_name(shard)
                )),
                Err(error) => self.problems.push(describe(&database.name, &error)),
            }
        }
    }

    /// Whether the configuration would find every row.
    async fn placement(&mut self, built: &Database, complete: bool, depth: Depth) {
        let name = &built.config.name;
        match built.control().judge_placement(&built.config).await {
            Ok(PlacementVerdict::Accepted { warnings, .. }) => {
                self.remarks.extend(warnings.iter().map(|warning| describe(name, warning)));
            }
            Ok(PlacementVerdict::Undecided { reason, .. }) => self.problems.push(describe(name, &reason)),
            Ok(PlacementVerdict::Refused(error)) | Err(error) => self.problems.push(describe(name, &error)),
        }
        if depth == Depth::Rows && complete {
            match built.control().verify_placement(&built.config).await {
                Ok(errors) => self.problems.extend(errors.iter().map(|error| describe(name, error))),
                Err(error) => self.problems.push(describe(name, &error)),
            }
        }
    }
}

/// One line for each login that a shard refuses. Users who share a login are named together.
async fn refused_logins(config: &Config, built: &Database, logins: &Logins, shards: &[ShardId]) -> Vec<String> {
    let mut tried: Vec<(Login, ShardId, Vec<&str>)> = Vec::new();
    for user in &config.users {
        for &shard in shards {
            let login = logins.server_login(&user.name, built.url_login(shard));
            match tried.iter_mut().find(|(known, at, _)| *at == shard && *known == login) {
                Some((_, _, users)) => users.push(&user.name),
                None => tried.push((login, shard, vec![&user.name])),
            }
        }
    }
    let outcomes = join_all(tried.iter().map(|(login, shard, _)| log_in(built, *shard, login))).await;
    let refused = tried.iter().zip(outcomes).filter_map(|((login, _, users), outcome)| {
        let error = outcome.err()?;
        let as_whom = format!("user {} logs in to servers as \"{}\"", users.join(", "), login.user);
        Some(format!("{}\n  {as_whom}", describe(&built.config.name, &error)))
    });
    refused.collect()
}

async fn log_in(built: &Database, shard: ShardId, login: &Login) -> Result<(), Error> {
    built.pool(shard, login)?.lease().await.map(drop)
}
