//! The one place that builds the application, and rebuilds it on reload; and the command line.

mod check;
mod prepared;
mod route;

use crate::admin;
use crate::app::check::Depth;
use crate::auth::logins::Logins;
use crate::config;
use crate::config::Config;
use crate::demo;
use crate::demo::DemoOptions;
use crate::exec::database::Database;
use crate::limits;
use crate::server;
use crate::session::registry::Shared;
use crate::session::registry::State;
use crate::tls;
use clap::Parser;
use clap::Subcommand;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::net::TcpSocket;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

#[derive(Parser)]
#[command(
    name = "shardway",
    version,
    about = "A PostgreSQL wire-protocol sharding proxy: many PostgreSQL servers answer as one database"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the proxy.
    Run {
        /// The configuration file (TOML).
        #[arg(long)]
        config: PathBuf,
    },
    /// Tell every mistake of a configuration, and look whether the shards are as it says; changes nothing.
    Check {
        /// The configuration file (TOML).
        #[arg(long)]
        config: PathBuf,
        /// Read the file only; do not connect to the shards.
        #[arg(long)]
        offline: bool,
        /// Look at every row, whether it is in its place; this takes time.
        #[arg(long, conflicts_with = "offline")]
        verify: bool,
    },
    /// Start local PostgreSQL shards with sample data and the proxy before them.
    Demo {
        /// How many PostgreSQL servers to start.
        #[arg(long, default_value_t = 4)]
        shards: usize,
        /// Where clients connect.
        #[arg(long, default_value_t = 6432)]
        port: u16,
        /// Where /metrics and health are; another one is taken where it is not free.
        #[arg(long, default_value_t = 9632)]
        http_port: u16,
        /// Keep the data here; a temporary directory without it.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// List the prepared transactions of commits over several shards, with what is decided of each.
    Prepared {
        /// The configuration file (TOML).
        #[arg(long)]
        config: PathBuf,
    },
    /// Print the plan of a statement and, for the values in it, the shards.
    Route {
        /// The configuration file (TOML).
        #[arg(long)]
        config: PathBuf,
        /// The database, where the configuration has several.
        #[arg(long)]
        database: Option<String>,
        /// One statement, or several with semicolons between them.
        sql: String,
    },
}

/// The program: arguments in, exit status out.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no runtime: {error}")),
    };
    let result = runtime.block_on(async {
        match arguments.command {
            Command::Run { config } => run(&config).await,
            Command::Check { config, offline, verify } => check::check(&config, depth(offline, verify)).await,
            Command::Demo { shards, port, http_port, dir } => {
                run_demo(DemoOptions { shards, port, http_port, dir }).await
            }
            Command::Prepared { config } => prepared::print(&config).await,
            Command::Route { config, database, sql } => route::print(&config, database.as_deref(), &sql).await,
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(500));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

fn depth(offline: bool, verify: bool) -> Depth {
    match (offline, verify) {
        (true, _) => Depth::File,
        (false, true) => Depth::Rows,
        (false, false) => Depth::Shards,
    }
}

/// One thread does without the multi-threaded scheduler and what it costs.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    match workers() {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        threads => tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

/// Threads that serve clients. On one or two processors a second thread costs more in wake-ups than it gives, since
/// PostgreSQL or the clients need the other one.
fn workers() -> usize {
    let set = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    set.unwrap_or(if processors <= 2 { 1 } else { processors })
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{}", message.trim_end());
    ExitCode::FAILURE
}

fn load(path: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    load_text(&text, &path.display().to_string())
}

fn load_text(text: &str, name: &str) -> Result<Config, String> {
    let env = |name: &str| std::env::var(name).ok();
    let read = |path: &Path| std::fs::read_to_string(path);
    config::load(text, name, &env, &read).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

/// Everything that a configuration asks for. Databases whose shards and tables did not change are kept with their
/// pools.
async fn build(config: Config, old: Option<&State>) -> Result<State, String> {
    let tls = match &config.listen.tls {
        Some(files) => Some(tls::acceptor(&files.certificate, &files.key).map_err(|e| e.to_string())?),
        None => None,
    };
    let logins = match old {
        Some(old) => old.logins.with_users(&config.users),
        None => Logins::new(&config.users).map_err(|e| e.to_string())?,
    };
    let mut databases = HashMap::new();
    for database in &config.databases {
        let kept = old.and_then(|o| {
            o.databases.get(&database.name).filter(|d| d.config == *database && o.config.pool == config.pool)
        });
        let built = match kept {
            Some(kept) => Arc::clone(kept),
            None => {
                let built = Arc::new(Database::new(database, &config.pool).map_err(|e| e.to_string())?);
                built.refresh().await.map_err(|e| describe(&database.name, &e))?;
                built.settle_all().await;
                // At a start the shards may come later. At a reload what serves now must not give way to what cannot.
                if let (Some(_), Some(reason)) = (old, built.shut()) {
                    return Err(describe(&database.name, &reason));
                }
                built
            }
        };
        databases.insert(database.name.clone(), built);
    }
    Ok(State { config, databases, logins: Arc::new(logins), tls })
}

fn describe(database: &str, error: &crate::error::Error) -> String {
    let mut text = format!("database {database}: {}", error.message);
    for more in [&error.detail, &error.hint].into_iter().flatten() {
        text.push('\n');
        text.push_str("  ");
        text.push_str(more);
    }
    text
}

fn start_log(log: &config::Log) {
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let started = if log.json { builder.json().try_init() } else { builder.with_ansi(false).try_init() };
    if let Err(error) = started {
        eprintln!("no log: {error}");
    }
}

async fn run(path: &Path) -> Result<(), String> {
    let config = load(path)?;
    start_log(&config.log);
    serve(config, Some(path), || ()).await
}

/// Runs the proxy until a signal. `ready` is called when it listens.
async fn serve(config: Config, path: Option<&Path>, ready: impl FnOnce()) -> Result<(), String> {
    let handle = admin::install_metrics()?;
    let listen = config.listen.clone();
    // Addresses are taken first, so that a taken one is told at once; but nobody gets in before the configuration has
    // been found good.
    let socket = take(listen.address)?;
    let http = listen.http.map(take).transpose()?;
    let shared = Arc::new(Shared::new(build(config, None).await?));
    let listener = open(socket, listen.address)?;
    let http = match (http, listen.http) {
        (Some(socket), Some(address)) => Some(open(socket, address)?),
        _ => None,
    };
    if let Some(http) = http {
        tokio::spawn(admin::serve(http, Arc::clone(&shared), handle));
    }
    tokio::spawn(keep(Arc::clone(&shared)));
    tokio::spawn(recover(Arc::clone(&shared)));
    tokio::spawn(server::accept(listener, Arc::clone(&shared)));
    tracing::info!(address = %listen.address, version = env!("CARGO_PKG_VERSION"), "listening");
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| e.to_string())?;
    let mut hangup = signal(SignalKind::hangup()).map_err(|e| e.to_string())?;
    ready();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => if let Some(path) = path { reload(&shared, path).await },
        }
    }
    let patience = shared.state.load().config.listen.drain_timeout;
    tracing::info!(clients = shared.registry.clients(), "draining");
    let (again, second) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        again.send_replace(true);
    });
    if !server::drain(&shared, patience, second).await {
        tracing::warn!(clients = shared.registry.clients(), "clients are left; ending all the same");
    }
    tracing::info!("stopped");
    Ok(())
}

/// The time between two sweeps over the decisions on record.
const SWEEP_SECONDS: u64 = 60;
/// Clients that have connected and wait to be accepted.
const BACKLOG: u32 = 1024;

fn take(address: SocketAddr) -> Result<TcpSocket, String> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error| cannot_listen(address, &error))
}

fn open(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, String> {
    socket.listen(BACKLOG).map_err(|error| cannot_listen(address, &error))
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> String {
    format!("could not listen on {address}: {error}")
}

/// Takes a changed configuration file into use, or keeps the old one and says why.
async fn reload(shared: &Shared, path: &Path) {
    let old = shared.state.load_full();
    let built = match load(path) {
        Ok(config) => {
            if config.listen.address != old.config.listen.address || config.listen.http != old.config.listen.http {
                tracing::warn!("listen.address and listen.http change only with a restart");
            }
            build(config, Some(&old)).await
        }
        Err(error) => Err(error),
    };
    match built {
        Ok(state) => {
            shared.state.store(Arc::new(state));
            tracing::info!("configuration reloaded");
        }
        Err(error) => tracing::error!(%error, "configuration refused; the old one stays"),
    }
}

/// Looks again, every second, for shards that were away.
async fn keep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let databases: Vec<Arc<Database>> = shared.state.load().databases.values().cloned().collect();
        for database in databases {
            if let Err(error) = database.complete().await {
                tracing::error!(database = %database.config.name, %error, "database not in order");
            }
        }
    }
}

/// Ends what crashes have left prepared, and takes decisions off the record that are not needed any more.
async fn recover(shared: Arc<Shared>) {
    for second in 1_u64.. {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let databases: Vec<Arc<Database>> = shared.state.load().databases.values().cloned().collect();
        let one = async |database: &Arc<Database>| {
            database.forget_finished().await;
            if second.is_multiple_of(limits::RECOVERY_PAUSE.as_secs()) || !database.settlement.is_settled() {
                database.settle_all().await;
            }
            if second.is_multiple_of(SWEEP_SECONDS)
                && let Err(error) = database.sweep().await
            {
                tracing::debug!(database = %database.config.name, %error, "decisions not swept");
            }
        };
        futures::future::join_all(databases.iter().map(one)).await;
    }
}

async fn run_demo(options: DemoOptions) -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| e.to_string())?;
    let demo = tokio::select! {
        started = demo::start(options) => started?,
        _ = terminate.recv() => return Err("stopped before it was ready".to_owned()),
        _ = interrupt.recv() => return Err("stopped before it was ready".to_owned()),
    };
    let config = load_text(&demo.config_text, "demo.toml")?;
    let log = config::Log { level: "warn".to_owned(), ..config.log.clone() };
    start_log(&log);
    let served = serve(config, None, || println!("{}", demo.banner())).await;
    demo.stop().await;
    served
}
