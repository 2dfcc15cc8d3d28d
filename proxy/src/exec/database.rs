//! One database as it runs: pools by shard and user, and the catalog's current snapshot with its plan cache.

use crate::catalog::Catalog;
use crate::catalog::ShardId;
use crate::catalog::schema::BUILTINS_QUERY;
use crate::catalog::schema::QUERY;
use crate::catalog::schema::ShardSchema;
use crate::config;
use crate::config::Login;
use crate::control::Control;
use crate::control::PlacementVerdict;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::cache::PlanCache;
use crate::exec::deadlock::Deadlocks;
use crate::exec::listen::Listener;
use crate::exec::room::Room;
use crate::exec::settle::Settlement;
use crate::limits;
use crate::pool::Connector;
use crate::pool::Pool;
use crate::pool::PoolCounts;
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A catalog and the plans made with it: one is never used with the other's successor.
#[derive(Debug)]
pub struct Snapshot {
    pub catalog: Arc<Catalog>,
    pub plans: PlanCache,
}

/// Shard, user and password.
type PoolKey = (ShardId, String, Option<String>);

pub struct Database {
    pub config: config::Database,
    pub pool: config::Pool,
    /// By shard, user and password: who gives another password must not get a connection that was opened with the right
    /// one.
    pools: Mutex<HashMap<PoolKey, Arc<Pool>>>,
    snapshot: ArcSwap<Snapshot>,
    control: Control,
    reading: tokio::sync::Mutex<Reading>,
    /// What a server reports at login, by user: good for clients that set nothing unusual.
    greetings: Mutex<HashMap<String, Arc<BTreeMap<String, String>>>>,
    ready: AtomicBool,
    /// The schema has been changed since the catalog was read; and how often it has been.
    outdated: AtomicBool,
    changes: AtomicU64,
    gate: Mutex<Gate>,
    /// Prepared transactions, and which shards wait for their end.
    pub settlement: Settlement,
    pub room: Room,
    pub deadlocks: Deadlocks,
    /// See [`Pool::lease_further`].
    pub spares: Arc<tokio::sync::Semaphore>,
    pub listener: Arc<Listener>,
}

/// Which shards may not be used, as long as not all of them have been checked.
enum Gate {
    Shut(Error),
    Unchecked(Vec<usize>),
}

/// What the last reading of the shards' catalogs brought.
struct Reading {
    /// When it was begun, and ended.
    at: Option<Instant>,
    ended: Option<Instant>,
    schemas: Vec<Option<ShardSchema>>,
    /// What the shards said, as they said it: a reading that brings nothing new costs nobody their plans.
    texts: Vec<Option<String>>,
    builtins: Option<Arc<HashMap<String, crate::catalog::BuiltinFunction>>>,
    /// The placement record agrees with the configuration.
    placed: bool,
    warnings: Vec<String>,
}

impl Reading {
    fn is_recent(&self) -> bool {
        self.ended.is_some_and(|at| at.elapsed() < limits::CATALOG_REFRESH_PAUSE)
    }
}

static VERSIONS: AtomicU64 = AtomicU64::new(1);

impl Database {
    /// Nothing is connected yet: [`Database::refresh`] reads the catalog.
    ///
    /// # Errors
    /// A control login or certificate that cannot be used.
    pub fn new(config: &config::Database, pool: &config::Pool) -> Result<Self> {
        let schemas: Vec<Option<ShardSchema>> = config.shards.iter().map(|_| None).collect();
        let texts = config.shards.iter().map(|_| None).collect();
        let catalog = Catalog::empty(&config.name);
        Ok(Database {
            config: config.clone(),
            pool: pool.clone(),
            pools: Mutex::new(HashMap::new()),
            snapshot: ArcSwap::from_pointee(Snapshot { catalog: Arc::new(catalog), plans: PlanCache::default() }),
            control: Control::new(config)?,
            reading: tokio::sync::Mutex::new(Reading {
                at: None,
                ended: None,
                schemas,
                texts,
                builtins: None,
                placed: false,
                warnings: Vec::new(),
            }),
            greetings: Mutex::new(HashMap::new()),
            ready: AtomicBool::new(false),
            outdated: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            gate: Mutex::new(Gate::Shut(Error::new(codes::CONNECTION_FAILURE, "no shard has been reached yet"))),
            settlement: Settlement::new(config.shards.len()),
            room: Room::default(),
            deadlocks: Deadlocks::default(),
            spares: Arc::new(tokio::sync::Semaphore::new(1)),
            listener: Arc::default(),
        })
    }

    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        (0..u16::try_from(self.config.shards.len()).unwrap_or(u16::MAX)).map(ShardId)
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The same, for a short look.
    pub fn current(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Reads the shards' catalogs again and puts a new snapshot in place. Shards that are away keep what they said
    /// last.
    ///
    /// # Errors
    /// A placement that would make rows unfindable.
    pub async fn refresh(&self) -> Result<()> {
        let asked = Instant::now();
        let mut reading = self.reading.lock().await;
        if reading.at.is_some_and(|at| at > asked) {
            return Ok(()); // another session has read it since we asked
        }
        self.read(&mut reading, true).await
    }

    /// A statement has changed the schema: who plans with the catalog next reads it first. Plans and what servers have
    /// told of them are forgotten at once.
    pub fn outdate(&self) {
        self.snapshot.store(self.replanned());
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.outdated.store(true, Ordering::Release);
    }

    /// The catalog as it was, without the plans made with it: what a transaction goes on with that has changed the
    /// schema of the only shard, where no plan depends on the catalog but for what a statement leaves behind.
    pub fn replanned(&self) -> Arc<Snapshot> {
        let version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        let catalog = Catalog { version, ..Catalog::clone(&self.snapshot.load().catalog) };
        Arc::new(Snapshot { catalog: Arc::new(catalog), plans: PlanCache::default() })
    }

    pub fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Acquire)
    }

    /// Reads the catalog if it is out of date: once, for all who wait for it.
    ///
    /// # Errors
    /// As of [`Database::refresh`].
    pub async fn renew(&self) -> Result<()> {
        let mut reading = self.reading.lock().await;
        if !self.is_outdated() {
            return Ok(());
        }
        let seen = self.changes.load(Ordering::Acquire);
        self.read(&mut reading, true).await?;
        self.outdated.store(false, Ordering::Release);
        if self.changes.load(Ordering::Acquire) != seen {
            self.outdated.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// As `refresh`, but not more often than once in a while: for names that nobody knows.
    pub async fn refresh_if_old(&self) -> Result<()> {
        let mut reading = self.reading.lock().await;
        if reading.is_recent() {
            return Ok(());
        }
        self.read(&mut reading, false).await
    }

    /// As `refresh_if_old`, in the background, unless it is being read already.
    pub fn refresh_soon(self: &Arc<Self>) {
        let Ok(reading) = self.reading.try_lock() else { return };
        if reading.is_recent() {
            return;
        }
        drop(reading);
        let database = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = database.refresh_if_old().await {
                tracing::warn!(%error, "catalog not read");
            }
        });
    }

    /// Tries again for shards that have not been read yet; true when nothing is missing.
    pub async fn complete(&self) -> Result<bool> {
        let mut reading = self.reading.lock().await;
        if reading.placed && reading.schemas.iter().all(Option::is_some) {
            return Ok(true);
        }
        self.read(&mut reading, false).await?;
        Ok(reading.placed && reading.schemas.iter().all(Option::is_some))
    }

    /// Reads the catalogs of the shards that answer, and neither asks for nor makes a placement record: for commands
    /// that look at a database and serve nobody.
    ///
    /// # Errors
    /// What makes it impossible to build a catalog of them.
    pub async fn look(&self) -> Result<()> {
        let mut reading = self.reading.lock().await;
        self.read_catalogs(&mut reading).await?;
        self.publish(&reading.schemas, reading.builtins.clone().unwrap_or_default())
            .map_err(|problems| Error::new(codes::INVALID_PARAMETER_VALUE, problems.join("; ")))
    }

    /// Why no shard of it may be used, if so.
    pub fn shut(&self) -> Option<Error> {
        match self.gate.lock().as_deref() {
            Ok(Gate::Shut(reason)) => Some(reason.clone()),
            Ok(Gate::Unchecked(_)) => None,
            Err(_) => Some(Error::internal("the gate is poisoned")),
        }
    }

    /// `publish`: even if nothing has changed that we read.
    async fn read(&self, reading: &mut Reading, mut publish: bool) -> Result<()> {
        let started = Instant::now();
        publish |= reading.at.is_none() || !reading.placed || reading.builtins.is_none();
        publish |= self.read_catalogs(reading).await?;
        if !reading.placed {
            self.check_placement(reading).await?;
        }
        if publish && let Err(problems) = self.publish(&reading.schemas, reading.builtins.clone().unwrap_or_default()) {
            for problem in problems {
                tracing::warn!(database = %self.config.name, problem, "catalog");
            }
        }
        reading.at = Some(started);
        reading.ended = Some(Instant::now());
        let ready = reading.placed && reading.schemas.iter().all(Option::is_some);
        self.ready.store(ready, Ordering::Release);
        Ok(())
    }

    /// What the shards that answer have; true when it differs from what they said before.
    async fn read_catalogs(&self, reading: &mut Reading) -> Result<bool> {
        let mut differs = false;
        let answers = (0..self.config.shards.len()).map(|shard| self.read_catalog(shard));
        let answers = futures::future::join_all(answers).await;
        let slots = reading.schemas.iter_mut().zip(&mut reading.texts);
        for (((schema, text), answer), shard) in slots.zip(answers).zip(&self.config.shards) {
            match answer {
                Ok((new, said)) => {
                    differs |= text.as_ref() != Some(&said);
                    *schema = Some(new);
                    *text = Some(said);
                }
                Err(error) => {
                    tracing::warn!(database = %self.config.name, shard = %shard.name, %error, "catalog not read")
                }
            }
        }
        if reading.builtins.is_none() {
            for shard in 0..self.config.shards.len() {
                if let Ok(text) = self.control.text(shard, BUILTINS_QUERY).await {
                    reading.builtins = Some(Arc::new(
                        crate::catalog::schema::parse_builtins(&text)
                            .map_err(|e| Error::internal(format!("catalog: {e}")))?,
                    ));
                    break;
                }
            }
        }
        Ok(differs)
    }

    /// What a shard has. What others drop while the query runs can make it fail, or half of an object be missing: it is
    /// asked again.
    async fn read_catalog(&self, shard: usize) -> Result<(ShardSchema, String)> {
        // A client's schema change must not become the victim of a deadlock with the query: the query gives way long
        // before `deadlock_timeout`.
        let query = format!("SET LOCAL lock_timeout = '200ms'; {QUERY}");
        let mut tries = limits::CATALOG_TRIES;
        loop {
            let answer = self.control.text(shard, &query).await.and_then(|text| Ok((parse(&text)?, text)));
            tries -= 1;
            match answer {
                Err(error) if tries > 0 && [codes::INTERNAL, codes::LOCK_NOT_AVAILABLE].contains(&error.code) => {}
                answer => return answer,
            }
        }
    }

    /// Compares the configuration with the placement record on the shards.
    async fn check_placement(&self, reading: &mut Reading) -> Result<()> {
        let verdict = self.control.check_placement(&self.config).await;
        let gate = match verdict {
            Ok(PlacementVerdict::Accepted { unchecked, warnings }) => {
                for warning in warnings {
                    tracing::warn!(database = %self.config.name, error = %warning, "placement");
                    reading.warnings.push(warning.to_string());
                }
                reading.placed = unchecked.is_empty();
                Gate::Unchecked(unchecked)
            }
            Ok(PlacementVerdict::Undecided { reason, .. }) => Gate::Shut(reason),
            Ok(PlacementVerdict::Refused(error)) => {
                self.set_gate(Gate::Shut(error.clone()));
                return Err(error);
            }
            Err(error) => Gate::Shut(error),
        };
        self.set_gate(gate);
        Ok(())
    }

    fn set_gate(&self, gate: Gate) {
        if let Ok(mut current) = self.gate.lock() {
            *current = gate;
        }
    }

    /// A shard may be used only when its placement record is known to agree with the configuration: rows must never be
    /// looked for where they are not.
    ///
    /// # Errors
    /// Why it may not.
    pub async fn admit(&self, shard: ShardId) -> Result<()> {
        if self.is_ready() {
            return Ok(());
        }
        if self.asks(shard).is_ok() {
            return Ok(());
        }
        let completed = Box::pin(self.complete_if_old()).await;
        self.asks(shard)?;
        completed
    }

    /// As `complete`, but not more often than once in a while: a shard that is away must not hold up every statement
    /// that needs it.
    async fn complete_if_old(&self) -> Result<()> {
        if self.reading.lock().await.is_recent() {
            return Ok(());
        }
        self.complete().await.map(|_| ())
    }

    fn asks(&self, shard: ShardId) -> Result<()> {
        let gate = self.gate.lock().map_err(|_| Error::internal("the gate is poisoned"))?;
        match &*gate {
            Gate::Shut(reason) => Err(reason.clone()),
            Gate::Unchecked(shards) if shards.contains(&usize::from(shard.0)) => {
                let name = self.config.shards.get(usize::from(shard.0)).map_or("?", |s| s.name.as_str());
                Err(Error::new(codes::CONNECTION_FAILURE, format!("could not connect to shard {name}: it is away"))
                    .hint("Statements that do not need this shard go on."))
            }
            Gate::Unchecked(_) => Ok(()),
        }
    }

    fn publish(
        &self,
        schemas: &[Option<ShardSchema>],
        builtins: Arc<HashMap<String, crate::catalog::BuiltinFunction>>,
    ) -> std::result::Result<(), Vec<String>> {
        let version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        let catalog = Catalog::build(&self.config, schemas, builtins, version)?;
        for problem in &catalog.problems {
            tracing::debug!(database = %self.config.name, problem, "catalog");
        }
        self.snapshot.store(Arc::new(Snapshot { catalog: Arc::new(catalog), plans: PlanCache::default() }));
        Ok(())
    }

    /// Every shard's catalog has been read, and the placement record agrees.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// What is wrong with the catalog as it was read last.
    pub async fn problems(&self) -> Vec<String> {
        let mut problems = self.snapshot.load().catalog.problems.clone();
        problems.extend(self.reading.lock().await.warnings.iter().cloned());
        problems
    }

    /// A snapshot of what a transaction sees that has changed the schema: the catalogs of the shards that take part,
    /// read over its own connections, the others' as they were.
    pub async fn overlay(&self, texts: &[(ShardId, String)]) -> Result<Arc<Snapshot>> {
        let reading = self.reading.lock().await;
        let mut schemas = reading.schemas.clone();
        for (shard, text) in texts {
            if let Some(schema) = schemas.get_mut(usize::from(shard.0)) {
                *schema = Some(parse(text)?);
            }
        }
        let version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        let builtins = reading.builtins.clone().unwrap_or_default();
        let catalog = Catalog::build(&self.config, &schemas, builtins, version)
            .map_err(|problems| Error::internal(problems.join("; ")))?;
        Ok(Arc::new(Snapshot { catalog: Arc::new(catalog), plans: PlanCache::default() }))
    }

    /// The pool of one shard for one login.
    ///
    /// # Errors
    /// A root certificate that cannot be read.
    pub fn pool(&self, shard: ShardId, login: &Login) -> Result<Arc<Pool>> {
        let mut pools = self.pools.lock().map_err(|_| Error::internal("pools are poisoned"))?;
        let key = (shard, login.user.clone(), login.password.as_ref().map(|p| p.0.clone()));
        if let Some(pool) = pools.get(&key) {
            return Ok(Arc::clone(pool));
        }
        let connector = self.connector(shard, login.clone())?;
        let pool = Arc::new(Pool::new(connector, &self.pool));
        pools.insert(key, Arc::clone(&pool));
        Ok(pool)
    }

    /// How a connection to a shard is opened that belongs to no pool.
    ///
    /// # Errors
    /// A root certificate that cannot be read.
    pub fn connector(&self, shard: ShardId, login: Login) -> Result<Connector> {
        let config = self.config.shards.get(usize::from(shard.0)).ok_or_else(|| Error::internal("no such shard"))?;
        Connector::new(&config.name, &config.primary, login, self.pool.connect_timeout)
    }

    /// The login in a shard's URL.
    pub fn url_login(&self, shard: ShardId) -> Option<&Login> {
        self.config.shards.get(usize::from(shard.0)).and_then(|s| s.primary.login.as_ref())
    }

    /// How the pools stand: (shard, user, counts).
    pub fn pool_counts(&self) -> Vec<(String, String, PoolCounts)> {
        let Ok(pools) = self.pools.lock() else { return Vec::new() };
        pools
            .values()
            .map(|p| (p.connector().shard().to_owned(), p.connector().user().to_owned(), p.counts()))
            .collect()
    }

    pub fn greeting(&self, user: &str) -> Option<Arc<BTreeMap<String, String>>> {
        self.greetings.lock().ok()?.get(user).cloned()
    }

    pub fn keep_greeting(&self, user: &str, parameters: &BTreeMap<String, String>) {
        if let Ok(mut greetings) = self.greetings.lock() {
            greetings.insert(user.to_owned(), Arc::new(parameters.clone()));
        }
    }
}

fn parse(text: &str) -> Result<ShardSchema> {
    serde_json::from_str(text).map_err(|e| Error::internal(format!("the catalog of a shard could not be read: {e}")))
}
