//! Shards, the proxy before them, and one PostgreSQL that holds all rows to compare with.

use crate::client::Address;
use crate::client::Client;
use crate::direct;
use crate::layout::Layout;
use crate::layout::Table;
use crate::link::Links;
use crate::postgres::APP;
use crate::postgres::Builder;
use crate::postgres::Cluster;
use crate::proxy::Proxy;

/// The database that holds all rows, on the first cluster.
pub const SINGLE: &str = "single";

pub struct Deployment {
    pub layout: Layout,
    // The proxy stands before the clusters: it is dropped first.
    pub proxy: Option<Proxy>,
    /// What the proxy reaches the shards through, where a test wants faults.
    pub links: Option<Links>,
    pub clusters: Vec<Cluster>,
}

impl Deployment {
    pub fn start(layout: Layout) -> Deployment {
        Deployment::on(layout, Cluster::builder())
    }

    /// Starts clusters that are built as given, and the proxy.
    pub fn on(layout: Layout, builder: Builder) -> Deployment {
        let mut deployment = Deployment::clusters(layout, builder);
        deployment.start_proxy();
        deployment
    }

    /// The clusters with their databases, without the proxy.
    pub fn clusters(layout: Layout, builder: Builder) -> Deployment {
        let count = if layout.own_clusters { layout.shards } else { 1 };
        let clusters: Vec<Cluster> = (0..count).map(|_| builder.clone().start()).collect();
        let deployment = Deployment { layout, proxy: None, links: None, clusters };
        for shard in 0..deployment.layout.shards {
            let address = deployment.shard(shard);
            deployment.cluster(shard).create_database(&address.database);
        }
        deployment
    }

    /// Puts links between the proxy and the shards; before the proxy starts.
    pub fn link(&mut self) {
        let ports: Vec<u16> = self.shards().iter().map(|shard| shard.port).collect();
        self.links = Some(Links::start(&ports));
    }

    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("links")
    }

    /// The shards as the proxy finds them.
    pub fn proxied(&self) -> Vec<Address> {
        let mut shards = self.shards();
        if let Some(links) = &self.links {
            shards.iter_mut().enumerate().for_each(|(number, shard)| shard.port = links.port(number));
        }
        shards
    }

    pub fn start_proxy(&mut self) {
        if !direct() {
            let shards = self.proxied();
            self.proxy = Some(Proxy::start(|port, http| self.layout.toml(&shards, port, http)));
        }
    }

    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("a proxy (DIRECT has none)")
    }

    /// Where clients connect: the proxy, or with DIRECT the only shard.
    pub fn address(&self) -> Address {
        match &self.proxy {
            Some(proxy) => Address::new(proxy.port, APP, &self.layout.database),
            None => self.shard(0),
        }
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.address())
    }

    pub fn cluster(&self, shard: usize) -> &Cluster {
        &self.clusters[if self.layout.own_clusters { shard } else { 0 }]
    }

    /// A shard itself, as user `app`.
    pub fn shard(&self, shard: usize) -> Address {
        self.cluster(shard).app(&format!("{}{shard}", self.layout.database))
    }

    pub fn shards(&self) -> Vec<Address> {
        (0..self.layout.shards).map(|shard| self.shard(shard)).collect()
    }

    /// Runs SQL on every shard itself; it must succeed.
    pub fn execute_on_shards(&self, sql: &str) {
        for shard in self.shards() {
            Client::connect(&shard).execute(sql);
        }
    }

    /// Loads data into the shards: everything everywhere, then each shard keeps the rows that have their place there.
    /// The tables exist already, those of one shard only there. PostgreSQL's own hash decides, so that this does not
    /// share the proxy's faults.
    pub fn load(&self, data: &str) {
        for shard in 0..self.layout.shards {
            let address = self.cluster(shard).superuser(&self.shard(shard).database);
            let mut client = Client::connect(&address);
            client.execute("BEGIN");
            // No foreign keys are checked, so that the order of the tables does not matter.
            client.execute("SET LOCAL session_replication_role = replica");
            self.prepare_load(&mut client);
            for statement in data.split(";\n").filter(|s| !self.is_elsewhere(s, shard)) {
                client.execute(statement);
            }
            for table in &self.layout.tables {
                if let Some((name, sql)) = self.prune(table, shard)
                    && client.simple(&format!("SELECT to_regclass('{name}') IS NOT NULL")).ok().value() == "t"
                {
                    client.execute(&sql);
                }
            }
            client.execute("COMMIT");
            client.execute("ANALYZE");
        }
    }

    /// Whether a statement fills a table of one shard that is not this one.
    fn is_elsewhere(&self, statement: &str, shard: usize) -> bool {
        let words: Vec<&str> = statement.split_whitespace().skip_while(|w| !w.eq_ignore_ascii_case("into")).collect();
        let Some(filled) = words.get(1) else { return false };
        self.layout.tables.iter().any(|table| match table {
            Table::Single { name, shard: home } => *home != shard && name.trim_start_matches("public.") == *filled,
            _ => false,
        })
    }

    /// The table, and what removes from it the rows that do not belong on a shard.
    fn prune(&self, table: &Table, shard: usize) -> Option<(String, String)> {
        match table {
            Table::Reference { .. } | Table::Single { .. } => None,
            Table::Sharded { name, map, key } => {
                let place = match self.layout.map_place(*map) {
                    Some(place) => place.to_string(),
                    None => self.hash_place(*map, key),
                };
                Some((name.clone(), format!("DELETE FROM {name} WHERE ({place}) <> {shard}")))
            }
        }
    }

    /// The shard of a row on a hash map that is placed evenly.
    fn hash_place(&self, map: usize, key: &[String]) -> String {
        assert!(self.layout.map_lines(map).contains("hash"), "a map that is no hash map needs `placed`");
        let types = self.layout.key_types(map);
        let bucket = match key {
            [_] => bucket_expression(key, types),
            _ => composite_bucket_expression(key, types),
        };
        format!("({bucket}) * {} / 4096", self.layout.shards)
    }

    /// What `composite_bucket_expression` needs in a database.
    fn prepare_load(&self, client: &mut Client) {
        for map in 0..self.layout.map_count() {
            let types = self.layout.key_types(map);
            if types.len() > 1 {
                let columns: Vec<String> = types.iter().enumerate().map(|(i, t)| format!("k{i} {t}")).collect();
                let keys: Vec<String> = (0..types.len()).map(|i| format!("k{i}")).collect();
                let (columns, keys) = (columns.join(", "), keys.join(", "));
                client.execute(&format!(
                    "CREATE TEMPORARY TABLE {} ({columns}) PARTITION BY HASH ({keys})",
                    by_hash(types)
                ));
            }
        }
    }
}

fn by_hash(types: &[String]) -> String {
    format!("by_hash_{}", types.join("_").replace(' ', "_"))
}

/// The bucket of 4,096 as an expression over the key columns: PostgreSQL's hash partitioning, in SQL.
pub fn bucket_expression(key: &[String], types: &[String]) -> String {
    let ([column], [key_type]) = (key, types) else { panic!("load knows keys of one column only") };
    let function = match key_type.as_str() {
        "smallint" => "hashint2extended",
        "integer" => "hashint4extended",
        "bigint" => "hashint8extended",
        "text" | "varchar" => "hashtextextended",
        "uuid" => "uuid_hash_extended",
        other => panic!("load does not know keys of type {other}"),
    };
    format!("coalesce((({function}({column}, 8816678312871386365) & 4095) + (5305509591434766563 & 4095)) & 4095, 0)")
}

/// The same for keys of several columns, whose combination is not to be had in SQL: every bucket is tried on a table that
/// is partitioned so. For small tables.
fn composite_bucket_expression(key: &[String], types: &[String]) -> String {
    format!(
        "SELECT bucket FROM generate_series(0, 4095) bucket \
         WHERE satisfies_hash_partition('{}'::regclass, 4096, bucket, {}) LIMIT 1",
        by_hash(types),
        key.join(", ")
    )
}
