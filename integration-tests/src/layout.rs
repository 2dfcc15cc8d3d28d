//! What a proxy is to serve, written down as its TOML configuration.

use crate::client::Address;
use crate::postgres::APP;
use crate::postgres::SUPERUSER;
use std::fmt::Write;

/// A database over several shards: shard maps, tables, users, settings.
#[derive(Clone, Debug)]
pub struct Layout {
    pub database: String,
    pub shards: usize,
    /// One PostgreSQL for each shard, instead of one database each in a common one.
    pub own_clusters: bool,
    pub tables: Vec<Table>,
    unlisted: String,
    control: bool,
    users: Vec<String>,
    maps: Vec<Map>,
    listen: String,
    pool: String,
    settings: String,
    extra: String,
    url_suffix: String,
    login: String,
}

/// A shard map as the layout lists it: its function and placement are TOML lines.
#[derive(Clone, Debug)]
struct Map {
    name: String,
    key: Vec<String>,
    lines: String,
    /// The shard of a row as an SQL expression over the key columns, where it is no hash map.
    place: Option<String>,
}

/// A table as the layout lists it. `map` is a position in the layout's maps.
#[derive(Clone, Debug)]
pub enum Table {
    Sharded { name: String, map: usize, key: Vec<String> },
    Reference { name: String },
    Single { name: String, shard: usize },
}

impl Layout {
    /// `shards` shards named s0, s1, …; one user `app`, trusted; unlisted tables are single. `SHARDS` in the
    /// environment overrides their number, for looking into a failure.
    pub fn new(shards: usize) -> Layout {
        let forced = std::env::var("SHARDS").ok().and_then(|v| v.parse().ok());
        Layout {
            database: "shop".into(),
            shards: if crate::direct() { 1 } else { forced.unwrap_or(shards) },
            own_clusters: false,
            tables: Vec::new(),
            unlisted: "single".into(),
            control: true,
            users: vec![format!("name = \"{APP}\"\nauth = \"trust\"\nserver_password = \"{APP}\"")],
            maps: Vec::new(),
            listen: String::new(),
            pool: String::new(),
            settings: String::new(),
            extra: String::new(),
            url_suffix: String::new(),
            login: format!("{APP}:{APP}@"),
        }
    }

    pub fn own_clusters(mut self) -> Layout {
        self.own_clusters = true;
        self
    }

    pub fn unlisted(mut self, what: &str) -> Layout {
        self.unlisted = what.into();
        self
    }

    /// A hash map with the default placement.
    pub fn hash_map(self, name: &str, key: &[&str]) -> Layout {
        self.map(name, key, "function = \"hash\"")
    }

    /// A map whose function and placement are given as TOML lines.
    pub fn map(mut self, name: &str, key: &[&str], lines: &str) -> Layout {
        let key = key.iter().map(|k| k.to_string()).collect();
        self.maps.push(Map { name: name.into(), key, lines: lines.into(), place: None });
        self
    }

    /// Where the map that was named last puts a row: the shard's number as an SQL expression, for `Deployment::load`.
    pub fn placed(mut self, expression: &str) -> Layout {
        self.maps.last_mut().expect("a map before its placement").place = Some(expression.into());
        self
    }

    /// A table on the map that was named last.
    pub fn sharded(mut self, name: &str, key: &[&str]) -> Layout {
        let map = self.maps.len().checked_sub(1).expect("a map before its tables");
        self.tables.push(Table::Sharded { name: name.into(), map, key: key.iter().map(|k| k.to_string()).collect() });
        self
    }

    pub fn reference(mut self, name: &str) -> Layout {
        self.tables.push(Table::Reference { name: name.into() });
        self
    }

    pub fn single(mut self, name: &str, shard: usize) -> Layout {
        let shard = shard.min(self.shards - 1);
        self.tables.push(Table::Single { name: name.into(), shard });
        self
    }

    /// With a table of one shard on another one.
    pub fn moved(mut self, name: &str, to: usize) -> Layout {
        for table in &mut self.tables {
            match table {
                Table::Single { name: own, shard } if own == name => *shard = to,
                _ => {}
            }
        }
        self
    }

    /// No users but those added from here on.
    pub fn no_users(mut self) -> Layout {
        self.users.clear();
        self
    }

    /// A `[[user]]` as TOML lines.
    pub fn user(mut self, lines: &str) -> Layout {
        self.users.push(lines.into());
        self
    }

    /// Lines of `[listen]` and `[pool]`.
    pub fn listen(mut self, lines: &str) -> Layout {
        let _ = writeln!(self.listen, "{lines}");
        self
    }

    pub fn pool(mut self, lines: &str) -> Layout {
        let _ = writeln!(self.pool, "{lines}");
        self
    }

    /// Settings of the database.
    pub fn setting(mut self, lines: &str) -> Layout {
        let _ = writeln!(self.settings, "{lines}");
        self
    }

    /// Whole sections, appended at the end.
    pub fn extra(mut self, lines: &str) -> Layout {
        let _ = writeln!(self.extra, "{lines}");
        self
    }

    /// What follows a shard's URL: `?sslmode=require`.
    pub fn url_suffix(mut self, text: &str) -> Layout {
        self.url_suffix = text.into();
        self
    }

    /// The login in the shards' URLs, `user:password@`; none when empty.
    pub fn login(mut self, text: &str) -> Layout {
        self.login = text.into();
        self
    }

    pub fn no_control(mut self) -> Layout {
        self.control = false;
        self
    }

    /// The key types of a map.
    pub fn key_types(&self, map: usize) -> &[String] {
        &self.maps[map].key
    }

    pub fn map_lines(&self, map: usize) -> &str {
        &self.maps[map].lines
    }

    pub fn map_count(&self) -> usize {
        self.maps.len()
    }

    pub fn map_place(&self, map: usize) -> Option<&str> {
        self.maps[map].place.as_deref()
    }

    /// The configuration for shards at these addresses.
    pub fn toml(&self, shards: &[Address], port: u16, http_port: u16) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "[listen]\naddress = \"127.0.0.1:{port}\"\nhttp = \"127.0.0.1:{http_port}\"\n{}",
            self.listen
        );
        if !self.pool.is_empty() {
            let _ = writeln!(out, "[pool]\n{}", self.pool);
        }
        for user in &self.users {
            let _ = writeln!(out, "[[user]]\n{user}\n");
        }
        let database = &self.database;
        let _ = writeln!(out, "[database.{database}]\nunlisted_tables = \"{}\"", self.unlisted);
        out.push_str(&self.settings);
        if self.control {
            let _ = writeln!(out, "control = \"{SUPERUSER}:{SUPERUSER}\"");
        }
        for (i, shard) in shards.iter().enumerate() {
            let (login, suffix) = (&self.login, &self.url_suffix);
            let url = format!("postgresql://{login}127.0.0.1:{}/{}{suffix}", shard.port, shard.database);
            let _ = writeln!(out, "\n[[database.{database}.shard]]\nname = \"s{i}\"\nprimary = \"{url}\"");
        }
        for Map { name, key, lines, .. } in &self.maps {
            let _ = writeln!(out, "\n[[database.{database}.shard_map]]\nname = \"{name}\"\nkey = {key:?}\n{lines}");
        }
        for table in &self.tables {
            let _ = writeln!(out, "\n[[database.{database}.table]]\n{}", self.table_lines(table));
        }
        out.push_str(&self.extra);
        out
    }

    fn table_lines(&self, table: &Table) -> String {
        match table {
            Table::Sharded { name, map, key } => {
                format!("name = \"{name}\"\nshard_map = \"{}\"\nkey = {key:?}", self.maps[*map].name)
            }
            Table::Reference { name } => format!("name = \"{name}\"\nreference = true"),
            Table::Single { name, shard } => format!("name = \"{name}\"\nshard = \"s{shard}\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;
    use crate::client::Address;

    #[test]
    fn a_layout_is_read_without_mistakes() {
        let layout = crate::shop::layout(2)
            .listen("max_clients = 10\ndrain_timeout = \"1s\"\nlogin_timeout = \"1s\"")
            .pool("mode = \"session\"\nsize = 2\nwait_timeout = \"500ms\"")
            .user("name = \"other\"\npassword = \"x\"\nserver_user = \"app\"\nserver_password = \"app\"")
            .url_suffix("?sslmode=require");
        let shards: Vec<Address> = (0..layout.shards).map(|n| Address::new(5000 + n as u16, "app", "shop")).collect();
        let text = layout.toml(&shards, 6432, 9632);
        let read = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let config = match shardway::config::load(&text, "layout", &|_| None, &read) {
            Ok(config) => config,
            Err(mistakes) => panic!("{text}\n{}", mistakes.iter().map(ToString::to_string).collect::<String>()),
        };
        assert_eq!((config.databases.len(), config.users.len()), (1, 2));
    }

    #[test]
    fn sharded_tables_need_a_map() {
        assert!(std::panic::catch_unwind(|| Layout::new(1).sharded("t", &["k"])).is_err());
    }
}
