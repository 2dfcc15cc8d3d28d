//! Every configuration in config/ starts: the same text, with the addresses of PostgreSQLs that run here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::direct;
use integration_tests::postgres::Cluster;
use integration_tests::proxy::Proxy;
use integration_tests::proxy::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::new);

/// The files of config/ that name shards.
fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("config")).unwrap().flatten().map(|e| e.path());
    let is_proxy = |p: &PathBuf| {
        p.extension().is_some_and(|e| e == "toml")
            && fs::read_to_string(p).unwrap().lines().any(|l| l.starts_with("primary"))
    };
    let mut files: Vec<PathBuf> = entries.filter(is_proxy).collect();
    files.sort();
    files
}

/// A configuration with other addresses and logins; everything else as it stands.
struct Adapted {
    lines: Vec<String>,
    /// One new database for each shard, in the order of the file.
    shards: Vec<Address>,
    database: String,
    user: String,
}

fn adapt(path: &Path) -> Adapted {
    let mut adapted = Adapted { lines: Vec::new(), shards: Vec::new(), database: String::new(), user: String::new() };
    let text = fs::read_to_string(path).unwrap();
    let mut section = "";
    for line in text.lines() {
        if line.starts_with('[') {
            section = line.split('#').next().unwrap_or_default().trim();
        }
        adapted.take(section, line);
    }
    adapted
}

impl Adapted {
    fn take(&mut self, section: &str, line: &str) {
        let value = || line.split('"').nth(1).unwrap_or_default().to_string();
        let key = line.split(['=', ' ']).next().unwrap_or_default();
        let new = match (section, key) {
            // Certificates are the reader's own.
            ("[listen.tls]", _) => String::new(),
            (_, "primary") => format!("primary = \"{}\"", self.shard()),
            (_, "replicas") => "replicas = []".into(),
            (_, "control") => "control = \"postgres:postgres\"".into(),
            ("[listen]", "address") => "address = \"127.0.0.1:{port}\"".into(),
            ("[listen]", "http") => "http = \"127.0.0.1:{http}\"".into(),
            ("[[user]]", "name") => {
                self.user = value();
                make_role(&self.user);
                format!("{line}\nauth = \"trust\"")
            }
            ("[[user]]", "password" | "auth") => String::new(),
            ("[[user]]", "server_password") => "server_password = \"any\"".into(),
            ("[[user]]", "server_user") => {
                make_role(&value());
                line.into()
            }
            _ => line.to_string(),
        };
        if let Some(name) = section.strip_prefix("[database.").and_then(|s| s.strip_suffix(']')) {
            self.database = name.to_string();
        }
        self.lines.push(new);
    }

    /// A new empty database, as a shard's URL.
    fn shard(&mut self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("example{}", NEXT.fetch_add(1, Ordering::Relaxed));
        CLUSTER.create_database(&name);
        CLUSTER.execute(&name, "GRANT ALL ON SCHEMA public TO public");
        let address = CLUSTER.app(&name);
        let url = format!("postgresql://app:app@127.0.0.1:{}/{name}", address.port);
        self.shards.push(address);
        url
    }

    fn toml(&self, port: u16, http: u16) -> String {
        self.lines.join("\n").replace("{port}", &port.to_string()).replace("{http}", &http.to_string())
    }

    fn start(&self) -> Proxy {
        Proxy::start(|port, http| self.toml(port, http))
    }

    fn connect(&self, proxy: &Proxy) -> Client {
        Client::connect(&Address::new(proxy.port, &self.user, &self.database))
    }
}

fn make_role(name: &str) {
    CLUSTER.execute(
        "postgres",
        &format!("DO $$ BEGIN CREATE ROLE \"{name}\" LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"),
    );
}

#[test]
fn every_configuration_is_read_without_mistakes() {
    let environment = |_: &str| Some("secret".to_string());
    let read = |_: &Path| Ok("secret".to_string());
    let files = files();
    assert!(!files.is_empty());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy();
        if let Err(mistakes) = shardway::config::load(&text, &name, &environment, &read) {
            panic!("{}", mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
        }
    }
}

#[test]
fn every_configuration_starts() {
    if direct() {
        return;
    }
    for path in files() {
        let adapted = adapt(&path);
        let proxy = adapted.start();
        assert_eq!(adapted.connect(&proxy).simple("SELECT 1").ok().value(), "1", "{path:?}");
    }
}

/// The sharding pattern's bookshop: books live by the check digit of their ISBN, eleven list entries on three servers.
#[test]
fn the_bookshop_keeps_books_by_check_digit() {
    let path = root().join("config/bookshop.toml");
    if direct() || !path.exists() {
        return;
    }
    let adapted = adapt(&path);
    assert_eq!(adapted.shards.len(), 3);
    let proxy = adapted.start();
    let mut client = adapted.connect(&proxy);
    client.execute(
        "CREATE TABLE books (isbn text, check_digit text, title text NOT NULL, PRIMARY KEY (check_digit, isbn))",
    );
    let digits = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "X"];
    for (n, digit) in digits.iter().enumerate() {
        client.execute(&format!("INSERT INTO books VALUES ('{:09}{digit}', '{digit}', 'book {n}')", n * 1234));
    }
    // Each book is on one server, and the list decides which.
    let mut found = BTreeSet::new();
    for (shard, address) in adapted.shards.iter().enumerate() {
        let own = Client::connect(address).simple("SELECT check_digit FROM books ORDER BY 1").ok().column(0);
        assert!(!own.is_empty(), "shard {shard} has no books");
        for digit in own {
            assert!(found.insert(digit.clone()), "{digit} is on two servers");
        }
    }
    assert_eq!(found.len(), digits.len());
    for digit in digits {
        let sql = format!("SELECT title FROM books WHERE check_digit = '{digit}'");
        assert_eq!(client.simple(&sql).ok().rows.len(), 1, "{digit}");
    }
    assert_eq!(client.simple("SELECT count(*) FROM books").ok().value(), "11");
    drop(client);
    drop(proxy);
    a_fourth_server_is_refused(adapted);
}

/// The fourth server takes over a digit whose book stays where it is: the book would never be found again.
fn a_fourth_server_is_refused(mut adapted: Adapted) {
    let text = adapted.toml(0, 0);
    let last = text.lines().rev().find(|l| l.contains("\"X\"")).expect("the list entry of X").to_string();
    let url = adapted.shard();
    let database = adapted.database.clone();
    let moved = |port: u16, http: u16| {
        let shard = format!("\n[[database.{database}.shard]]\nname = \"fourth\"\nprimary = \"{url}\"\n");
        let entry = with_shard(&last, "fourth");
        adapted.toml(port, http).replace(&last, &entry) + &shard
    };
    let said = Proxy::refused(moved);
    assert!(said.contains("books"), "the table is named: {said}");
}

/// A list entry's line with another shard.
fn with_shard(line: &str, shard: &str) -> String {
    let (head, rest) = line.split_once("shard = \"").expect("a shard in the entry's line");
    let (_, tail) = rest.split_once('"').unwrap();
    format!("{head}shard = \"{shard}\"{tail}")
}
