//! One PostgreSQL of the demo: its data directory, its process, its end.

use super::CONTROL;
use super::install::Programs;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Child;
use tokio::process::Command;
use tokio::time::Instant;
use tokio::time::sleep;
use tokio::time::timeout;

/// A server that does not answer in this time has failed to start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A fast shutdown that takes longer is ended the hard way.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The account that the servers run as where we are root, since initdb refuses root.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    uid: u32,
    gid: u32,
}

/// A running PostgreSQL.
pub struct Cluster {
    pub port: u16,
    process: Child,
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    // The owner of a process's entry is its effective user; where there is no /proc (macOS), nobody runs this as root.
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// `None` when we are not root: then the servers run as we do.
pub fn server_account() -> Result<Option<Account>, String> {
    if !is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").map_err(|e| format!("/etc/passwd: {e}"))?;
    let find = |name: &str| passwd.lines().find_map(|line| account_of(line, name));
    let account = find("postgres").or_else(|| find("nobody"));
    account
        .map(Some)
        .ok_or_else(|| "as root the servers need a user postgres or nobody to run as; there is neither".into())
}

fn account_of(line: &str, name: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let found = fields.next()? == name;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    found.then_some(Account { uid, gid })
}

/// Gives a directory to the account.
pub fn own(path: &Path, account: Option<Account>) -> Result<(), String> {
    let Some(account) = account else { return Ok(()) };
    std::os::unix::fs::chown(path, Some(account.uid), Some(account.gid))
        .map_err(|e| format!("cannot give {} to the servers' user: {e}", path.display()))
}

/// `2 * bytes` hexadecimal digits.
pub fn random_hex(bytes: usize) -> Result<String, String> {
    let mut random = vec![0u8; bytes];
    getrandom::fill(&mut random).map_err(|e| format!("no random numbers: {e}"))?;
    Ok(random.iter().map(|b| format!("{b:02x}")).collect())
}

/// The superuser's password: the one kept in the directory, else a new one.
pub fn secret(directory: &Path) -> Result<String, String> {
    let path = directory.join("control-password");
    let told = |e: std::io::Error| format!("{}: {e}", path.display());
    if let Ok(text) = fs::read_to_string(&path) {
        return Ok(text.trim().to_string());
    }
    let secret = random_hex(16)?;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(told)?;
    writeln!(file, "{secret}").map_err(told)?;
    Ok(secret)
}

/// A loopback port on which nothing listens now.
pub fn free_port() -> Result<u16, String> {
    let told = |e: std::io::Error| format!("no free port: {e}");
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(told)?;
    Ok(listener.local_addr().map_err(told)?.port())
}

/// Initialises what is not there yet, starts every shard, and waits until each answers.
pub async fn start_all(
    programs: &Programs,
    directory: &Path,
    shards: usize,
    secret: &str,
    account: Option<Account>,
) -> Result<Vec<Cluster>, String> {
    let data = |shard: usize| directory.join(format!("s{shard}"));
    check_shards(directory, shards)?;
    if !data(0).exists() {
        initialise(programs, directory, &data(0), secret, account).await?;
    }
    for shard in 1..shards {
        if !data(shard).exists() {
            let mut copy = Command::new("cp");
            copy.arg("-a").arg(data(0)).arg(data(shard));
            run(copy, account, directory).await?;
        }
    }
    let mut clusters = Vec::new();
    for shard in 0..shards {
        clusters.push(spawn(programs, directory, &data(shard), account)?);
    }
    for (shard, cluster) in clusters.iter_mut().enumerate() {
        cluster.wait_until_ready(&log(&data(shard)), secret).await?;
    }
    Ok(clusters)
}

/// A kept directory belongs to one number of shards: rows were placed by it.
fn check_shards(directory: &Path, shards: usize) -> Result<(), String> {
    let path = directory.join("shards");
    match fs::read_to_string(&path) {
        Ok(text) if text.trim() == shards.to_string() => Ok(()),
        Ok(text) => Err(format!(
            "{} holds a demo of {} shards; say --shards {} or choose another directory",
            directory.display(),
            text.trim(),
            text.trim()
        )),
        Err(_) => fs::write(&path, format!("{shards}\n")).map_err(|e| format!("{}: {e}", path.display())),
    }
}

async fn initialise(
    programs: &Programs,
    directory: &Path,
    data: &Path,
    secret: &str,
    account: Option<Account>,
) -> Result<(), String> {
    let password = directory.join("initdb-password");
    fs::write(&password, secret).map_err(|e| format!("{}: {e}", password.display()))?;
    own(&password, account)?;
    let attempt = |locale: &str| {
        let mut initdb = Command::new(programs.0.join("initdb"));
        initdb.arg("-D").arg(data).args(["-U", CONTROL, "-A", "scram-sha-256", "-E", "UTF8", "-N"]);
        initdb.arg(format!("--locale={locale}")).arg("--pwfile").arg(&password);
        run(initdb, account, directory)
    };
    // Not every system has C.UTF-8; C compares text in the same way.
    let mut made = attempt("C.UTF-8").await;
    if made.is_err() {
        made = attempt("C").await;
    }
    let _ = fs::remove_file(&password);
    made
}

fn spawn(programs: &Programs, directory: &Path, data: &Path, account: Option<Account>) -> Result<Cluster, String> {
    let port = free_port()?;
    let log = fs::File::create(log(data)).map_err(|e| format!("{}: {e}", data.display()))?;
    let also = log.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new(programs.0.join("postgres"));
    command.arg("-D").arg(data).arg("-p").arg(port.to_string());
    let settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_prepared_transactions=100"];
    let more = ["max_connections=200", "shared_buffers=64MB", "wal_level=logical", "synchronous_commit=off"];
    for setting in settings.into_iter().chain(more) {
        command.arg("-c").arg(setting);
    }
    command.stdin(Stdio::null()).stdout(log).stderr(also).current_dir(directory).kill_on_drop(true);
    // A group of its own: Ctrl-C is for the proxy, which drains first and stops the shards then.
    command.process_group(0);
    as_account(&mut command, account);
    let process = command.spawn().map_err(|e| format!("cannot start postgres: {e}"))?;
    Ok(Cluster { port, process })
}

fn log(data: &Path) -> PathBuf {
    data.with_extension("log")
}

impl Cluster {
    async fn wait_until_ready(&mut self, log: &Path, secret: &str) -> Result<(), String> {
        let end = Instant::now() + START_LIMIT;
        loop {
            if let Ok((_client, connection)) = login(self.port, CONTROL, secret, "postgres").await {
                drop(connection);
                return Ok(());
            }
            let ended = self.process.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || Instant::now() > end {
                let text = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("PostgreSQL on port {} does not start; it says:\n{text}", self.port));
            }
            sleep(Duration::from_millis(30)).await;
        }
    }

    /// The process's id; `None` once it has ended.
    fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// A fast shutdown, bounded.
    pub async fn stop(mut self) {
        if let Some(id) = self.id() {
            let _ = Command::new("kill").arg("-INT").arg(id.to_string()).stderr(Stdio::null()).status().await;
        }
        if timeout(STOP_LIMIT, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }
}

/// The connection of a plain client to a shard.
pub type Connection = tokio_postgres::Connection<tokio_postgres::Socket, tokio_postgres::tls::NoTlsStream>;

/// Logs in to a shard of the demo.
pub async fn login(
    port: u16,
    user: &str,
    password: &str,
    database: &str,
) -> Result<(tokio_postgres::Client, Connection), tokio_postgres::Error> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user(user).password(password).dbname(database);
    config.connect(tokio_postgres::NoTls).await
}

/// Runs a program to its end; what it said is the error.
async fn run(mut command: Command, account: Option<Account>, directory: &Path) -> Result<(), String> {
    command.stdin(Stdio::null()).current_dir(directory);
    as_account(&mut command, account);
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let output =
        command.kill_on_drop(true).output().await.map_err(|e| {
            format!("cannot run {name} in {} (can the servers' user enter it?): {e}", directory.display())
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name} failed in {}: {}", directory.display(), String::from_utf8_lossy(&output.stderr).trim()))
}

fn as_account(command: &mut Command, account: Option<Account>) {
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
}

/// A shell that ends the servers when this process dies without doing so: it waits for the end of its input.
pub struct Guard(std::process::Child);

const GUARD: &str = r#"read -r done && exit 0
directory=$1; shift
kill -INT "$@" 2>/dev/null; sleep 3; kill -QUIT "$@" 2>/dev/null
[ -z "$directory" ] || rm -rf "$directory""#;

impl Guard {
    /// `directory` is removed at the end.
    pub fn new(clusters: &[Cluster], directory: Option<&Path>) -> Result<Guard, String> {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("sh");
        command.args(["-c", GUARD, "shardway-demo"]).arg(directory.unwrap_or(Path::new("")));
        command.args(clusters.iter().filter_map(Cluster::id).map(|id| id.to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Guard).map_err(|e| format!("cannot start sh: {e}"))
    }

    /// Nothing is left to end.
    pub fn dismiss(mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(b"done\n");
        }
        let _ = self.0.wait();
    }
}
