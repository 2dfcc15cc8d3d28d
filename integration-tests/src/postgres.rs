//! PostgreSQL clusters: initdb once per test process, copied for each cluster, run as a process on a loopback port.

use crate::client::Address;
use crate::client::Client;
use crate::process;
use crate::process::Guard;
use crate::process::Owner;
use std::collections::HashMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// The superuser of every test cluster, and the login of the tests themselves; the password is the name.
pub const SUPERUSER: &str = "postgres";
pub const APP: &str = "app";

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(20);

const SETTINGS: [(&str, &str); 12] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
    ("max_connections", "200"),
    ("max_prepared_transactions", "100"),
    ("wal_level", "logical"),
    ("shared_buffers", "32MB"),
    ("timezone", "UTC"),
    ("log_statement", "none"),
    ("logging_collector", "off"),
];

/// Where `initdb` and `postgres` are: `SHARDWAY_PG_BIN`, else Debian's newest version, else the search path.
pub fn binaries() -> PathBuf {
    if let Some(directory) = std::env::var_os("SHARDWAY_PG_BIN") {
        return directory.into();
    }
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    versions.sort();
    if let Some((_, bin)) = versions.pop() {
        return bin;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).find(|d| d.join("initdb").exists());
    found.expect("PostgreSQL's initdb: install PostgreSQL (scripts/setup does) or set SHARDWAY_PG_BIN")
}

/// What a cluster is to be, before it is started.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    settings: Vec<(String, String)>,
    hba: Option<String>,
    binaries: Option<PathBuf>,
    files: Vec<(String, String)>,
    port: Option<u16>,
}

impl Builder {
    pub fn setting(mut self, name: &str, value: &str) -> Builder {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// A port that others must know; a free one without it.
    pub fn port(mut self, port: u16) -> Builder {
        self.port = Some(port);
        self
    }

    /// The whole pg_hba.conf; trust for everyone from loopback without it.
    pub fn hba(mut self, text: &str) -> Builder {
        self.hba = Some(text.into());
        self
    }

    /// Another PostgreSQL than the usual one.
    pub fn binaries(mut self, directory: &Path) -> Builder {
        self.binaries = Some(directory.into());
        self
    }

    /// A file in the data directory, readable by the server alone (certificates and keys).
    pub fn file(mut self, name: &str, text: &str) -> Builder {
        self.files.push((name.into(), text.into()));
        self
    }

    pub fn start(self) -> Cluster {
        let binaries = self.binaries.clone().unwrap_or_else(binaries);
        let template = template(&binaries);
        let owner = process::server_account();
        let directory = process::temporary_directory("shardway-pg-", owner);
        let guard = Guard::directory(&directory);
        let data = directory.join("data");
        copy(&template, &data, owner);
        if let Some(hba) = &self.hba {
            write(&data.join("pg_hba.conf"), hba, owner);
        }
        for (name, text) in &self.files {
            write(&data.join(name), text, owner);
        }
        let port = self.port.unwrap_or_else(process::free_port);
        let mut cluster =
            Cluster { port, directory, binaries, settings: self.settings, owner, running: None, _guard: guard };
        cluster.start();
        cluster
    }
}

/// A running PostgreSQL. Dropping it ends the server and removes its data.
pub struct Cluster {
    pub port: u16,
    directory: PathBuf,
    binaries: PathBuf,
    settings: Vec<(String, String)>,
    owner: Option<Owner>,
    running: Option<(Child, Guard)>,
    _guard: Guard,
}

impl Cluster {
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub fn new() -> Cluster {
        Cluster::builder().start()
    }

    /// Starts a stopped cluster again, on the same port with the same data.
    pub fn start(&mut self) {
        assert!(self.running.is_none(), "the cluster runs already");
        let log = fs::OpenOptions::new().create(true).append(true).open(self.directory.join("log")).unwrap();
        let mut command = Command::new(self.binaries.join("postgres"));
        command.arg("-D").arg(self.directory.join("data")).arg("-p").arg(self.port.to_string());
        let own = self.settings.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        for (name, value) in SETTINGS.into_iter().chain(own) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).current_dir(&self.directory);
        as_owner(&mut command, self.owner);
        let child = command.spawn().expect("postgres starts");
        let guard = Guard::new(child.id(), &self.directory);
        self.running = Some((child, guard));
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let end = Instant::now() + START_LIMIT;
        while let Err(error) = Client::try_connect(&self.superuser("postgres")) {
            let ended = self.running.as_mut().is_some_and(|(child, _)| child.try_wait().unwrap().is_some());
            if error.sqlstate().starts_with("28") {
                return; // it answers; the test's pg_hba.conf keeps us out
            }
            assert!(!ended && Instant::now() < end, "PostgreSQL does not start: {error:?}\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server; its data stay. `how` is the signal: `INT` fast, `QUIT` as a crash.
    pub fn stop(&mut self, how: &str) {
        if let Some((mut child, guard)) = self.running.take() {
            process::signal(child.id(), how);
            if process::wait(&mut child, STOP_LIMIT).is_none() {
                process::signal(child.id(), "KILL");
                let _ = child.wait();
            }
            drop(guard);
        }
    }

    /// What the server logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    pub fn data_directory(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub fn superuser(&self, database: &str) -> Address {
        Address::new(self.port, SUPERUSER, database)
    }

    pub fn app(&self, database: &str) -> Address {
        Address::new(self.port, APP, database)
    }

    /// Runs SQL as superuser; it must succeed.
    pub fn execute(&self, database: &str, sql: &str) {
        Client::connect(&self.superuser(database)).execute(sql);
    }

    /// A new database that belongs to `app`.
    pub fn create_database(&self, name: &str) {
        self.execute("postgres", &format!("CREATE DATABASE \"{name}\" OWNER {APP}"));
    }
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster::new()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            eprintln!("PostgreSQL on port {} logged last: {tail:#?}", self.port);
        }
        self.stop("QUIT");
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// An initialised data directory with the roles of the tests, made once per PostgreSQL and test process.
fn template(binaries: &Path) -> PathBuf {
    static TEMPLATES: Mutex<Option<HashMap<PathBuf, PathBuf>>> = Mutex::new(None);
    let mut templates = TEMPLATES.lock().unwrap_or_else(|e| e.into_inner());
    let templates = templates.get_or_insert_with(HashMap::new);
    if let Some(data) = templates.get(binaries) {
        return data.clone();
    }
    let owner = process::server_account();
    let directory = process::scratch_directory("shardway-template-", owner);
    let data = directory.join("data");
    let mut initdb = Command::new(binaries.join("initdb"));
    initdb.arg("-D").arg(&data).args(["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"]);
    run_as(initdb, owner, &directory, None);
    let mut single = Command::new(binaries.join("postgres"));
    single.args(["--single", "-c", "fsync=off", "-D"]).arg(&data).arg("postgres");
    let roles = format!(
        "ALTER ROLE {SUPERUSER} PASSWORD '{SUPERUSER}';\nCREATE ROLE {APP} LOGIN PASSWORD '{APP}';\nCREATE ROLE other LOGIN PASSWORD 'other';\n"
    );
    run_as(single, owner, &directory, Some(&roles));
    templates.insert(binaries.into(), data.clone());
    data
}

fn run_as(mut command: Command, owner: Option<Owner>, directory: &Path, input: Option<&str>) {
    let input_path = directory.join("input.sql");
    fs::write(&input_path, input.unwrap_or_default()).unwrap();
    command.stdin(fs::File::open(&input_path).unwrap()).current_dir(directory);
    as_owner(&mut command, owner);
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn as_owner(command: &mut Command, owner: Option<Owner>) {
    if let Some(owner) = owner {
        command.uid(owner.uid).gid(owner.gid);
    }
}

fn copy(from: &Path, to: &Path, owner: Option<Owner>) {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    as_owner(&mut command, owner);
    assert!(command.current_dir("/").status().unwrap().success(), "copying {from:?}");
}

fn write(path: &Path, text: &str, owner: Option<Owner>) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    if let Some(owner) = owner {
        std::os::unix::fs::chown(path, Some(owner.uid), Some(owner.gid)).unwrap();
    }
}
