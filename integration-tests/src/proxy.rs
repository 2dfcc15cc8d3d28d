//! The proxy as a process: `shardway run --config FILE`.

use crate::process;
use crate::process::Guard;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// The built `shardway`: `SHARDWAY_BIN`, else the one of the target directory that this test was built in, built
/// anew when a source of the proxy is younger.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("SHARDWAY_BIN") {
            return path.into();
        }
        let own = std::env::current_exe().unwrap();
        let directory = own.parent().expect("a program's directory");
        // Tests are in target/debug/deps, the benchmark beside the proxy.
        let profile = if directory.ends_with("deps") { directory.parent().expect("target/debug") } else { directory };
        let path = profile.join("shardway");
        let built = path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        if built < youngest(&root().join("proxy/src")) {
            let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            build.args(["build", "--quiet", "--package", "shardway", "--bin", "shardway"]).current_dir(root());
            if profile.ends_with("release") {
                build.arg("--release");
            }
            assert!(build.status().expect("cargo").success(), "building the proxy");
        }
        path
    })
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn youngest(directory: &Path) -> SystemTime {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let times = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => youngest(&entry.path()),
        _ => entry.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH),
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A running proxy. Dropping it ends it; its log is shown when the test fails.
pub struct Proxy {
    pub port: u16,
    pub http_port: u16,
    directory: PathBuf,
    running: Option<(Child, Guard)>,
}

impl Proxy {
    /// Starts the proxy and waits until it listens. `config` is given the ports and returns TOML.
    pub fn start(config: impl FnOnce(u16, u16) -> String) -> Proxy {
        let mut proxy = Proxy::prepare(config);
        proxy.run().unwrap_or_else(|text| panic!("the proxy does not start: {text}"));
        proxy
    }

    /// Starts the proxy with a configuration that it must refuse; gives what it says.
    pub fn refused(config: impl FnOnce(u16, u16) -> String) -> String {
        let mut proxy = Proxy::prepare(config);
        match proxy.run() {
            Ok(()) => panic!("the proxy starts with a configuration that it must refuse"),
            Err(text) => text,
        }
    }

    /// Ports, directory and configuration, and nothing started.
    pub fn prepare(config: impl FnOnce(u16, u16) -> String) -> Proxy {
        let (port, http_port) = (process::free_port(), process::free_port());
        let directory = process::temporary_directory("shardway-proxy-", None);
        let proxy = Proxy { port, http_port, directory, running: None };
        proxy.write_config(&config(port, http_port));
        proxy
    }

    /// Starts the process; `Err` with what it said when it ends before it listens.
    pub fn run(&mut self) -> Result<(), String> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.directory.join("log")).unwrap();
        let mut command = Command::new(binary());
        command.arg("run").arg("--config").arg(self.config_path()).current_dir(&self.directory);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().expect("shardway starts");
        let guard = Guard::new(child.id(), &self.directory);
        self.running = Some((child, guard));
        self.wait_until_it_listens()
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let end = Instant::now() + START_LIMIT;
        loop {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.try_status() {
                return Err(format!("{status}\n{}", self.log()));
            }
            assert!(Instant::now() < end, "the proxy does not listen\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn try_status(&mut self) -> Option<std::process::ExitStatus> {
        self.running.as_mut().and_then(|(child, _)| child.try_wait().unwrap())
    }

    pub fn config_path(&self) -> PathBuf {
        self.directory.join("shardway.toml")
    }

    pub fn config(&self) -> String {
        fs::read_to_string(self.config_path()).unwrap()
    }

    /// Replaces the configuration file; the proxy reads it at SIGHUP.
    pub fn write_config(&self, text: &str) {
        fs::write(self.config_path(), text).unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("a running proxy").0.id()
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    /// Ends the process as a crash does; `run` starts it again on the same ports.
    pub fn kill(&mut self) {
        if let Some((mut child, guard)) = self.running.take() {
            process::signal(child.id(), "KILL");
            let _ = child.wait();
            drop(guard);
        }
    }

    /// Whether the process still runs.
    pub fn runs(&mut self) -> bool {
        self.running.is_some() && self.try_status().is_none()
    }

    /// Waits for the end of the process and gives its exit code.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let (child, _) = self.running.as_mut().expect("a running proxy");
        process::wait(child, limit).and_then(|status| status.code())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Waits until the log holds a text; the log is the failure's message.
    pub fn wait_for_log(&self, text: &str, limit: Duration) {
        let end = Instant::now() + limit;
        while !self.log().contains(text) {
            assert!(Instant::now() < end, "no {text:?} in the log:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the proxy logged last:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
        if let Some((mut child, guard)) = self.running.take() {
            process::signal(child.id(), "TERM");
            if process::wait(&mut child, STOP_LIMIT).is_none() {
                process::signal(child.id(), "KILL");
                let _ = child.wait();
            }
            drop(guard);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
