//! `shardway demo`: local PostgreSQL shards with a multi-tenant shop in them, and the configuration that serves them.
//!
//! This module brings the shards up and down; the proxy that stands before them is started by `app`.

mod cluster;
mod install;
mod shop;

use cluster::Cluster;
use cluster::Guard;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// The control login of the demo's shards: their superuser, with a password made for each demo.
pub(crate) const CONTROL: &str = "shardway";

/// More shards than this are refused: each is a whole PostgreSQL.
pub const MAX_SHARDS: usize = 16;

/// What the command line says.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    pub shards: usize,
    /// Where clients connect, on 127.0.0.1.
    pub port: u16,
    /// `/metrics` and the rest; another free port is taken where this one is not free.
    pub http_port: u16,
    /// Where the shards' data live and stay; a temporary directory that is removed at the end without it.
    pub dir: Option<PathBuf>,
}

/// Running shards. `stop` ends them; a guard process does, should this process die.
pub struct Demo {
    /// The configuration for the proxy, as TOML.
    pub config_text: String,
    port: u16,
    http_port: u16,
    clusters: Vec<Cluster>,
    directory: PathBuf,
    keep: bool,
    facts: shop::Facts,
    guard: Guard,
}

/// Brings the shards up, with the data in them. The error is for a person: a sentence or two, without a stop.
///
/// Dropped before it is ready, it ends the shards that were started and removes what was written.
pub async fn start(options: DemoOptions) -> Result<Demo, String> {
    if options.shards == 0 || options.shards > MAX_SHARDS {
        return Err(format!("{} shards: expected 1 to {MAX_SHARDS}", options.shards));
    }
    check_port(options.port)?;
    let http_port = if is_free(options.http_port) { options.http_port } else { free_port_near(options.http_port)? };
    let account = cluster::server_account()?;
    let programs = install::find_or_install().await?;
    let (directory, keep) = directory(options.dir.as_deref(), account)?;
    let mut unfinished = Unfinished(if keep { None } else { Some(directory.clone()) });
    let secret = cluster::secret(&directory)?;
    let clusters = cluster::start_all(&programs, &directory, options.shards, &secret, account).await?;
    let guard = Guard::new(&clusters, if keep { None } else { Some(&directory) })?;
    let facts = shop::fill(&clusters, &secret).await?;
    let ports: Vec<u16> = clusters.iter().map(|c| c.port).collect();
    let config_text = shop::config(options.port, http_port, &ports, &secret);
    unfinished.0 = None;
    Ok(Demo { config_text, port: options.port, http_port, clusters, directory, keep, facts, guard })
}

/// A directory that goes with a start that does not come to its end.
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(directory) = &self.0 else { return };
        // A server that was killed may still write while its children end.
        for _ in 0..20 {
            if std::fs::remove_dir_all(directory).is_ok() || !directory.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Demo {
    /// What to print when the proxy listens: how to connect, and what to try.
    pub fn banner(&self) -> String {
        let shards: Vec<String> =
            self.clusters.iter().enumerate().map(|(i, c)| format!("s{i} 127.0.0.1:{}", c.port)).collect();
        let kept = if self.keep { " (kept)" } else { " (removed at the end)" };
        format!(
            "\nShardway serves database shop over {}: {}\nData in {}{kept}; metrics at http://127.0.0.1:{}/metrics\n\n    \
             PGPASSWORD=app psql -h 127.0.0.1 -p {} -U app shop\n\n{}\nCtrl-C stops everything.\n",
            if shards.len() == 1 { "1 shard".to_string() } else { format!("{} shards", shards.len()) },
            shards.join(", "),
            self.directory.display(),
            self.http_port,
            self.port,
            self.facts.statements(),
        )
    }

    /// Stops the shards, and removes their data unless they were to stay.
    pub async fn stop(self) {
        for cluster in self.clusters {
            cluster.stop().await;
        }
        self.guard.dismiss();
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

fn check_port(port: u16) -> Result<(), String> {
    if is_free(port) {
        return Ok(());
    }
    let other = free_port_near(port)?;
    Err(format!(
        "port {port} on 127.0.0.1 is taken by another program (a demo that still runs?); try: shardway demo --port {other}"
    ))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// A free port that a person can remember: the next ones above, else any.
fn free_port_near(port: u16) -> Result<u16, String> {
    let above = (1..100).filter_map(|step| port.checked_add(step));
    match above.into_iter().find(|p| is_free(*p)) {
        Some(port) => Ok(port),
        None => cluster::free_port(),
    }
}

/// The demo's directory, and whether it stays.
fn directory(wanted: Option<&Path>, account: Option<cluster::Account>) -> Result<(PathBuf, bool), String> {
    let (path, keep) = match wanted {
        Some(path) => (std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?, true),
        None => (std::env::temp_dir().join(format!("shardway-demo-{}", cluster::random_hex(6)?)), false),
    };
    std::fs::create_dir_all(&path).map_err(|e| format!("cannot create {}: {e}", path.display()))?;
    cluster::own(&path, account)?;
    Ok((path, keep))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::DemoOptions;
    use super::start;

    #[tokio::test]
    async fn a_taken_port_is_named_and_another_offered() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let options = DemoOptions { shards: 1, port, http_port: 0, dir: None };
        let message = start(options).await.err().expect("an error");
        assert!(message.contains(&format!("port {port} ")) && message.contains("shardway demo --port "), "{message}");
    }

    #[tokio::test]
    async fn the_number_of_shards_is_bounded() {
        let options = DemoOptions { shards: 0, port: 0, http_port: 0, dir: None };
        assert!(start(options).await.is_err_and(|m| m.contains("expected 1 to 16")));
    }
}
