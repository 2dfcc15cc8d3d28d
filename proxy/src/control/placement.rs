//! The check of design promise "never make rows unfindable": a configuration is compared with the placement on record on
//! the shards, and what is new in it is proven by the rows themselves, before it is used and recorded.
//!
//! look (connections, records, tables) → [`decide`] (pure) → verify (statements on the shards) → write, if the records
//! are still those that were looked at. Proxies that start at once take turns in the last step only, by an advisory
//! lock on the first shard that is held for a few milliseconds.

use crate::config::Database;
use crate::config::placement::Entries;
use crate::config::placement::entries;
use crate::config::placement::placement_hash;
use crate::control::Control;
use crate::control::Rows;
use crate::control::connect::Target;
use crate::control::decide::Decision;
use crate::control::decide::Problem;
use crate::control::decide::ShardFacts;
use crate::control::decide::Task;
use crate::control::decide::decide;
use crate::control::decide::refusal;
use crate::control::record;
use crate::control::record::Objects;
use crate::control::record::Record;
use crate::control::rows_of;
use crate::control::verify;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use futures::future::join_all;
use tokio_postgres::Client;

/// How often another proxy may write its record between our look and our turn.
const ATTEMPTS: usize = 5;
/// First half of the advisory lock's key ("shar"); the second is the database name's hash.
const LOCK_CLASS: i32 = 0x7368_6172;

/// What a check found.
#[derive(Clone, Debug)]
pub enum PlacementVerdict {
    /// The configuration may be used on all shards but `unchecked`, which were away: check again before one of them is
    /// used. `warnings` are to be logged.
    Accepted { unchecked: Vec<usize>, warnings: Vec<Error> },
    /// Whether rows are where this configuration looks for them cannot be known while the shards `away` cannot be
    /// asked: use no shard, and check again when they are back. The error is what clients and the log are told.
    Undecided { away: Vec<usize>, reason: Error },
    /// The configuration would make rows unfindable, and why.
    Refused(Error),
}

/// Whether a placement that was found good goes on record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recording {
    Write,
    Leave,
}

/// One connection of a check, its own so that long scans delay nobody.
struct Session<'a> {
    target: &'a Target,
    client: Client,
}

impl Session<'_> {
    async fn rows(&self, sql: &str) -> Result<Rows> {
        self.client.simple_query(sql).await.map(rows_of).map_err(|error| self.target.error(&error))
    }

    async fn cell(&self, sql: &str) -> Result<Option<String>> {
        Ok(self.rows(sql).await?.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
    }
}

impl Control {
    /// Compares `database` (the configuration that this control plane was made for) with the placement on record, proves
    /// what differs, and writes the new record. With one shard nothing is written; a record of several is minded.
    /// Not cancel safe in one respect: a record may be written for a check whose verdict is lost, which is harmless.
    ///
    /// # Errors
    /// A shard fails in the middle of the check (08006 and others), or a record cannot be read. Nothing is decided then.
    pub async fn check_placement(&self, database: &Database) -> Result<PlacementVerdict> {
        self.check(database, Recording::Write).await
    }

    /// The same verdict, and nothing is written: what `shardway check` asks.
    ///
    /// # Errors
    /// As [`Control::check_placement`].
    pub async fn judge_placement(&self, database: &Database) -> Result<PlacementVerdict> {
        self.check(database, Recording::Leave).await
    }

    async fn check(&self, database: &Database, recording: Recording) -> Result<PlacementVerdict> {
        let sessions = self.sessions().await;
        let wanted = Wanted::of(database);
        for _ in 0..ATTEMPTS {
            let facts = look(&sessions, database).await?;
            let (tasks, unchecked) = match decide(database, &wanted.entries, &wanted.hash, &facts) {
                Decision::Refused(error) => return Ok(PlacementVerdict::Refused(error)),
                Decision::Undecided { away, reason } => return Ok(PlacementVerdict::Undecided { away, reason }),
                Decision::OnRecord { away } => {
                    return Ok(PlacementVerdict::Accepted { unchecked: away, warnings: Vec::new() });
                }
                Decision::Verify { tasks, away } => (tasks, away),
            };
            let problems = verify_rows(&sessions, database, &tasks).await;
            if !problems.is_empty() {
                return Ok(PlacementVerdict::Refused(refusal(database, &facts, &wanted.entries, &problems)));
            }
            if !unchecked.is_empty() {
                let warnings = vec![first_start_incomplete(&unchecked, database)];
                return Ok(PlacementVerdict::Accepted { unchecked, warnings });
            }
            let has_record = facts.iter().flatten().any(|fact| fact.record.is_some());
            if recording == Recording::Leave || (database.shards.len() == 1 && !has_record) {
                return Ok(PlacementVerdict::Accepted { unchecked, warnings: Vec::new() });
            }
            match write(&sessions, database, &wanted, &facts).await {
                Ok(true) => return Ok(PlacementVerdict::Accepted { unchecked, warnings: Vec::new() }),
                Ok(false) => {}
                // An old record that stays would let the old configuration pass later, over rows written under this one.
                Err(error) if has_record => return Ok(PlacementVerdict::Refused(unrecorded(error))),
                Err(error) => return Ok(PlacementVerdict::Accepted { unchecked, warnings: vec![unrecorded(error)] }),
            }
        }
        Err(Error::new(codes::CANNOT_CONNECT_NOW, "other proxies keep changing the placement on record"))
    }

    /// Every row of every table, whatever is on record: what `check --verify` tells. One error for each table that has
    /// a misplaced row, differing copies, or cannot be read; empty if all is well.
    ///
    /// # Errors
    /// A shard cannot be reached.
    pub async fn verify_placement(&self, database: &Database) -> Result<Vec<Error>> {
        let sessions = self.sessions().await;
        let mut facts = look(&sessions, database).await?;
        for (shard, session) in sessions.iter().enumerate() {
            session.as_ref().map_err(Clone::clone)?;
            facts.iter_mut().skip(shard).take(1).flatten().for_each(|fact| fact.record = None);
        }
        let wanted = Wanted::of(database);
        match decide(database, &wanted.entries, &wanted.hash, &facts) {
            Decision::Verify { tasks, .. } => {
                let problems = verify_rows(&sessions, database, &tasks).await;
                Ok(problems.iter().map(Problem::error).collect())
            }
            Decision::Refused(error) => Ok(vec![error]),
            Decision::OnRecord { .. } | Decision::Undecided { .. } => Ok(Vec::new()),
        }
    }

    async fn sessions(&self) -> Vec<Result<Session<'_>>> {
        join_all(self.shards.iter().map(|connection| session(&connection.target))).await
    }
}

async fn session(target: &Target) -> Result<Session<'_>> {
    Ok(Session { target, client: target.connect().await? })
}

/// The placement that the configuration wants.
struct Wanted {
    entries: Entries,
    hash: String,
}

impl Wanted {
    fn of(database: &Database) -> Wanted {
        Wanted { entries: entries(database), hash: placement_hash(database) }
    }
}

/// `None` for a shard that is away.
async fn look(sessions: &[Result<Session<'_>>], database: &Database) -> Result<Vec<Option<ShardFacts>>> {
    let one = |session| async move {
        match session {
            Ok(session) => look_at(session, &database.name).await.map(Some),
            Err(_) => Ok(None),
        }
    };
    join_all(sessions.iter().map(|session| one(session.as_ref()))).await.into_iter().collect()
}

async fn look_at(session: &Session<'_>, database: &str) -> Result<ShardFacts> {
    let (_, record) = read_record(session, database).await?;
    let tables = session.cell(verify::TABLES_QUERY).await?.unwrap_or_default();
    Ok(ShardFacts { record, tables: verify::parse_tables(&tables)? })
}

async fn read_record(session: &Session<'_>, database: &str) -> Result<(Objects, Option<Record>)> {
    let row = session.rows(record::OBJECTS_QUERY).await?.into_iter().next().unwrap_or_default();
    let objects = Objects::of(&row);
    if !objects.all() {
        return Ok((objects, None));
    }
    let cell = session
        .cell(&record::read_query(database))
        .await
        .map_err(|error| error.hint("The control login must be able to read the tables of the schema shardway."))?;
    Ok((objects, cell.map(|json| record::parse(&json)).transpose()?))
}

/// What is not as it should be, one problem for each task at most. Tasks on different shards run at once.
async fn verify_rows(sessions: &[Result<Session<'_>>], database: &Database, tasks: &[Task]) -> Vec<Problem> {
    let per_shard = (0..sessions.len()).map(|shard| async move {
        let mut problems = Vec::new();
        for task in tasks.iter().filter(|task| task.first_shard() == shard) {
            problems.extend(verify_task(sessions, database, task).await);
        }
        problems
    });
    let mut problems: Vec<Problem> = join_all(per_shard).await.into_iter().flatten().collect();
    problems.sort_by(|a, b| a.table.cmp(&b.table));
    problems
}

async fn verify_task(sessions: &[Result<Session<'_>>], database: &Database, task: &Task) -> Option<Problem> {
    let name = |shard: usize| database.shards.get(shard).map_or("?", |shard| shard.name.as_str());
    let session = |shard: usize| sessions.get(shard).and_then(|session| session.as_ref().ok());
    match task {
        Task::Problem(problem) => Some(problem.clone()),
        Task::InPlace { table, shard, map, key } => {
            let map = database.maps.get(*map)?;
            let found = session(*shard)?.rows(&verify::misplaced_query(map, key, table, *shard)).await;
            let row = match found {
                Ok(rows) => rows.into_iter().next()?,
                Err(error) => return Some(Problem::unreadable(table, name(*shard), &error)),
            };
            let mut cells = row.into_iter().flatten();
            let key = cells.next().unwrap_or_default();
            let place = cells.next().and_then(|cell| cell.parse::<usize>().ok());
            let belongs = place.map_or("nowhere".to_owned(), |shard| format!("on shard \"{}\"", name(shard)));
            let what = format!("has a row with key {key} on shard \"{}\", which belongs {belongs}", name(*shard));
            Some(Problem::new(table, what))
        }
        Task::Empty { table, shard, home } => match session(*shard)?.rows(&verify::any_row_query(table)).await {
            Ok(rows) if rows.is_empty() => None,
            Ok(_) => Some(Problem::new(table, format!("has rows on shard \"{}\", but belongs {home}", name(*shard)))),
            Err(error) => Some(Problem::unreadable(table, name(*shard), &error)),
        },
        Task::Equal { table, shards } => {
            let query = verify::contents_query(table);
            let mut first: Option<(usize, String)> = None;
            for shard in shards {
                let contents = match session(*shard)?.cell(&query).await {
                    Ok(contents) => contents.unwrap_or_default(),
                    Err(error) => return Some(Problem::unreadable(table, name(*shard), &error)),
                };
                let (other, expected) = first.get_or_insert_with(|| (*shard, contents.clone()));
                if *expected != contents {
                    let what = format!("has other rows on shard \"{}\" than on \"{}\"", name(*shard), name(*other));
                    return Some(Problem::new(table, format!("is a reference table and {what}")));
                }
            }
            None
        }
    }
}

/// Writes the record on every shard, in order. False if a record is not the one that was looked at any more.
async fn write(
    sessions: &[Result<Session<'_>>],
    database: &Database,
    wanted: &Wanted,
    facts: &[Option<ShardFacts>],
) -> Result<bool> {
    let open: Vec<&Session<'_>> = sessions.iter().filter_map(|session| session.as_ref().ok()).collect();
    let Some(lead) = open.first() else { return Ok(false) };
    let lock = format!("{LOCK_CLASS}, hashtext({})", record::literal(&database.name));
    lead.rows(&format!("SELECT pg_advisory_lock({lock})")).await?;
    let written = write_locked(&open, database, wanted, facts).await;
    // Were this to fail, the end of the connection would free the lock.
    let _: Result<Rows> = lead.rows(&format!("SELECT pg_advisory_unlock({lock})")).await;
    written
}

async fn write_locked(
    sessions: &[&Session<'_>],
    database: &Database,
    wanted: &Wanted,
    facts: &[Option<ShardFacts>],
) -> Result<bool> {
    let mut current = Vec::new();
    for (session, before) in sessions.iter().zip(facts) {
        let (objects, record) = read_record(session, &database.name).await?;
        if before.as_ref().is_none_or(|before| before.record != record) {
            return Ok(false);
        }
        current.push((objects, record));
    }
    let known = current.iter().find_map(|(_, record)| record.as_ref().map(|record| record.installation.clone()));
    let installation = known.map_or_else(new_installation, Ok)?;
    for ((session, (objects, before)), shard) in sessions.iter().zip(current).zip(&database.shards) {
        let record = Record {
            installation: installation.clone(),
            shard: shard.name.clone(),
            hash: wanted.hash.clone(),
            entries: wanted.entries.clone(),
        };
        if before.as_ref() != Some(&record) {
            session.rows(&record::write_statements(objects, &database.name, &record)).await?;
        }
    }
    Ok(true)
}

fn new_installation() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Error::internal("could not generate random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn unrecorded(error: Error) -> Error {
    let cause = &error.message;
    Error::new(error.code, format!("could not write the placement record: {cause}"))
        .detail(
            "Every row was found in its place now, but without the record a later change of the configuration can only \
             be checked by reading all rows again.",
        )
        .hint("Let the control login create the schema: GRANT CREATE ON DATABASE … TO …, on every shard.")
}

fn first_start_incomplete(away: &[usize], database: &Database) -> Error {
    let names: Vec<&str> =
        away.iter().filter_map(|shard| database.shards.get(*shard)).map(|shard| shard.name.as_str()).collect();
    let message = format!("the placement is not on record yet: cannot reach {}", names.join(", "));
    Error::new(codes::CONNECTION_FAILURE, message).detail(
        "The rows of the other shards are in their places; the record is written when all shards can be reached.",
    )
}
