//! Finds PostgreSQL's server programs, or installs them by the system's package manager.

use std::io::IsTerminal;
use std::path::Path;
use std::path::PathBuf;
use tokio::process::Command;

/// The directory that holds `initdb` and `postgres`.
#[derive(Clone, Debug)]
pub struct Programs(pub PathBuf);

/// Where distributions put them, newest version first within each.
const PARENTS: [(&str, &str, &str); 6] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/lib64", "postgresql-", "bin"),
    ("/opt/homebrew/opt", "postgresql@", "bin"),
    ("/usr/local/opt", "postgresql@", "bin"),
    ("/home/linuxbrew/.linuxbrew/opt", "postgresql@", "bin"),
];

/// What is asked of which package manager; the first that is there is taken. `true`: it wants root.
const MANAGERS: [(&str, bool, &[&[&str]]); 4] = [
    (
        "apt-get",
        true,
        &[&["apt-get", "update"], &["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]],
    ),
    ("dnf", true, &[&["dnf", "install", "-y", "postgresql-server", "postgresql-contrib"]]),
    ("apk", true, &[&["apk", "add", "postgresql"]]),
    ("brew", false, &[&["brew", "install", "postgresql@17"]]),
];

/// The programs that are there, else those that the package manager brings.
pub async fn find_or_install() -> Result<Programs, String> {
    if let Some(programs) = find() {
        return Ok(programs);
    }
    install().await?;
    find()
        .ok_or_else(|| "PostgreSQL was installed, but initdb is not found; set SHARDWAY_PG_BIN to its directory".into())
}

/// `SHARDWAY_PG_BIN`, the usual places, the search path.
pub fn find() -> Option<Programs> {
    let named = std::env::var_os("SHARDWAY_PG_BIN").map(PathBuf::from);
    let usual = PARENTS.iter().filter_map(|(parent, prefix, leaf)| newest(Path::new(parent), prefix, leaf));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let searched: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut all = named.into_iter().chain(usual).chain(searched);
    all.find(|d| d.join("initdb").is_file() && d.join("postgres").is_file()).map(Programs)
}

fn newest(parent: &Path, prefix: &str, leaf: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(parent).ok()?.flatten();
    let versions = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version: u32 = name.strip_prefix(prefix)?.parse().ok()?;
        let bin = entry.path().join(leaf);
        bin.join("initdb").is_file().then_some((version, bin))
    });
    versions.max().map(|(_, bin)| bin)
}

async fn install() -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |program: &str| std::env::split_paths(&path).any(|d| d.join(program).is_file());
    let Some((name, wants_root, commands)) = MANAGERS.iter().find(|(name, ..)| there(name)) else {
        return Err(
            "PostgreSQL is not installed, and no package manager is known here; install its server first".into()
        );
    };
    let root = super::cluster::is_root();
    for command in *commands {
        let mut words: Vec<&str> = Vec::new();
        if *wants_root && !root {
            words.push("sudo");
            if !std::io::stdin().is_terminal() {
                words.push("-n");
            }
        }
        words.extend(*command);
        let text = words.join(" ");
        eprintln!("PostgreSQL is not installed; running: {text}");
        let failed = || format!("{name} could not install PostgreSQL; run this yourself, then try again: {text}");
        let (program, arguments) = words.split_first().ok_or_else(failed)?;
        let mut run = Command::new(program);
        run.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        let status = run.status().await.map_err(|_| failed())?;
        if !status.success() {
            return Err(failed());
        }
    }
    Ok(())
}
