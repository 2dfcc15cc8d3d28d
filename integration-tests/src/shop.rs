//! The multi-tenant shop that most tests share: tenants, users, orders and items by tenant; reference tables; a single
//! table. Everything is deterministic, so that any number of databases can be filled alike.

use crate::client::Client;
use crate::deployment::Deployment;
use crate::deployment::SINGLE;
use crate::layout::Layout;
use crate::layout::Table;
use crate::postgres::Builder;
use crate::postgres::Cluster;

pub const SCHEMA: &str = include_str!("../shop/schema.sql");
pub const DATA: &str = include_str!("../shop/data.sql");

/// Turns the rows of every table of the database around on disk and forbids the usual plans, so that whatever order
/// PostgreSQL does not promise comes out differently.
pub const MIRROR: &str = include_str!("../shop/mirror.sql");

/// The database that holds the same rows in another physical order.
pub const MIRRORED: &str = "mirrored";

/// The shop over some shards. Children stand before their parents, as `Deployment::load` wants it.
pub fn layout(shards: usize) -> Layout {
    Layout::new(shards)
        .hash_map("tenants", &["bigint"])
        .sharded("public.order_items", &["tenant_id"])
        .sharded("public.orders", &["tenant_id"])
        .sharded("public.users", &["tenant_id"])
        .sharded("public.tenants", &["tenant_id"])
        .hash_map("devices", &["text"])
        .sharded("public.readings", &["device"])
        .reference("public.countries")
        .reference("public.plans")
        .single("public.notes", 1.min(shards - 1))
}

/// Fills the single database and its mirror image on a cluster.
pub fn fill_single(cluster: &Cluster) {
    fill_single_with(cluster, SCHEMA, DATA);
}

fn fill_single_with(cluster: &Cluster, schema: &str, data: &str) {
    for name in [SINGLE, MIRRORED] {
        cluster.create_database(name);
        let mut client = Client::connect(&cluster.app(name));
        client.execute(schema);
        client.execute(data);
        client.execute("ANALYZE");
    }
    mirror(cluster);
}

/// Makes the mirrored database differ in everything that is not promised.
pub fn mirror(cluster: &Cluster) {
    cluster.execute(MIRRORED, MIRROR);
}

/// A running shop: the schema through the proxy, the rows straight onto the shards.
pub fn deploy(layout: Layout) -> Deployment {
    deploy_on(layout, Cluster::builder())
}

/// The same on clusters that are built as given.
pub fn deploy_on(layout: Layout, builder: Builder) -> Deployment {
    let deployment = Deployment::on(layout, builder);
    fill_single(deployment.cluster(0));
    let mut client = deployment.connect();
    for statement in SCHEMA.split(";\n").map(str::trim).filter(|s| !s.is_empty()) {
        client.execute(statement);
    }
    deployment.load(DATA);
    deployment
}

/// Another schema and other rows. The schema too goes straight onto the shards: it may hold what the proxy refuses.
/// Tables of one shard are only there; `home_only` are dropped everywhere but at home.
pub fn deploy_with(layout: Layout, schema: &str, data: &str, home_only: &str) -> Deployment {
    let mut deployment = Deployment::clusters(layout, Cluster::builder());
    fill_single_with(deployment.cluster(0), schema, data);
    deployment.execute_on_shards(schema);
    for (shard, address) in deployment.shards().iter().enumerate() {
        let mut client = Client::connect(address);
        for table in &deployment.layout.tables {
            if let Table::Single { name, shard: own } = table
                && *own != shard
            {
                client.execute(&format!("DROP TABLE {name} CASCADE"));
            }
        }
        if shard > 0 {
            client.execute(home_only);
        }
    }
    deployment.load(data);
    deployment.start_proxy();
    deployment
}
