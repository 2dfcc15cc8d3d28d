//! The demo's shop: its tables, its rows, its configuration, and what to try on it.
//!
//! Rows are made on each shard by the server, the same ones whatever the number of shards: a shard keeps those whose
//! bucket is placed on it.

use super::CONTROL;
use super::cluster::Cluster;
use super::cluster::login;
use std::fmt::Write;
use tokio_postgres::Client;

/// The tenant that the examples speak of.
const TENANT: i64 = 42;

const TABLES: &str = "
CREATE TABLE countries (code text PRIMARY KEY, name text NOT NULL);
CREATE TABLE plans (plan text PRIMARY KEY, price numeric(8,2) NOT NULL);
CREATE TABLE tenants (
    tenant_id bigint PRIMARY KEY, name text NOT NULL, country text NOT NULL REFERENCES countries,
    plan text NOT NULL REFERENCES plans, created timestamptz NOT NULL);
CREATE TABLE users (
    tenant_id bigint NOT NULL REFERENCES tenants, user_id bigint NOT NULL, email text NOT NULL, name text NOT NULL,
    PRIMARY KEY (tenant_id, user_id));
CREATE TABLE orders (
    tenant_id bigint NOT NULL, order_id bigint NOT NULL, user_id bigint NOT NULL, amount numeric(10,2) NOT NULL,
    status text NOT NULL, placed timestamptz NOT NULL, PRIMARY KEY (tenant_id, order_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users);
CREATE TABLE order_items (
    tenant_id bigint NOT NULL, order_id bigint NOT NULL, line integer NOT NULL, sku text NOT NULL,
    quantity integer NOT NULL, price numeric(10,2) NOT NULL, PRIMARY KEY (tenant_id, order_id, line),
    FOREIGN KEY (tenant_id, order_id) REFERENCES orders);
";

/// `{mine}` is the condition that the tenant `t` lives on this shard. The bucket is the remainder of PostgreSQL's own
/// hash partitioning with modulus 4096 for one bigint column.
const ROWS: &str = "
INSERT INTO countries VALUES ('br', 'Brazil'), ('de', 'Germany'), ('fr', 'France'), ('in', 'India'), ('jp', 'Japan'),
    ('ke', 'Kenya'), ('us', 'United States');
INSERT INTO plans VALUES ('free', 0), ('team', 49), ('business', 199), ('enterprise', 999);
INSERT INTO tenants
    SELECT t, (ARRAY['Blue', 'Red', 'Green', 'Old', 'New', 'Quick', 'Calm', 'North', 'South'])[1 + t % 9] || ' '
           || (ARRAY['Harbour', 'Mill', 'Garden', 'Bridge', 'Tower', 'Market', 'River'])[1 + t % 7] || ' ' || t,
           (ARRAY['br', 'de', 'fr', 'in', 'jp', 'ke', 'us'])[1 + t * 3 % 7],
           (ARRAY['free', 'free', 'team', 'business', 'enterprise'])[1 + t % 5],
           timestamptz '2024-01-01 00:00+00' + t * interval '41 hours'
    FROM generate_series(1, 250) t WHERE {mine};
INSERT INTO users
    SELECT tenant_id, u, format('user%s@tenant%s.example', u, tenant_id),
           (ARRAY['Ada', 'Ben', 'Cleo', 'Dan', 'Eve', 'Finn', 'Gita', 'Hugo', 'Ines', 'Jon'])[1 + (tenant_id + u) % 10]
    FROM tenants, generate_series(1, 20) u;
INSERT INTO orders
    SELECT tenant_id, o, 1 + (tenant_id * 7 + o * 13) % 20, (tenant_id * 7919 + o * 104729) % 100000 / 100.0,
           (ARRAY['open', 'paid', 'sent', 'returned'])[1 + (tenant_id + o) % 4],
           timestamptz '2026-01-01 00:00+00' + (tenant_id * 37 + o * 101) % 8000 * interval '1 hour'
    FROM tenants, generate_series(1, 120) o;
INSERT INTO order_items
    SELECT tenant_id, order_id, l, 'sku-' || (order_id * 31 + l * 7) % 500, 1 + (tenant_id + order_id + l) % 5,
           (order_id * 37 + l * 11) % 10000 / 100.0
    FROM orders, generate_series(1, 3) l WHERE (order_id + l) % 4 <> 0;
CREATE INDEX orders_placed ON orders (placed);
";

/// What the examples answer, read from the shards when the demo starts.
#[derive(Debug, Default)]
pub struct Facts {
    rows: i64,
    tenant: String,
    best_user: String,
    orders: String,
    largest: String,
    statuses: String,
}

/// Fills the shards that are empty, and reads what the examples will answer.
pub async fn fill(clusters: &[Cluster], secret: &str) -> Result<Facts, String> {
    let shards = clusters.len();
    let filled = clusters.iter().enumerate().map(|(shard, cluster)| fill_shard(cluster.port, shard, shards, secret));
    let clients = futures::future::try_join_all(filled).await?;
    facts(&clients).await.map_err(|e| format!("cannot read the demo's data: {}", told(&e)))
}

async fn fill_shard(port: u16, shard: usize, shards: usize, secret: &str) -> Result<Client, String> {
    let failed = |e: tokio_postgres::Error| format!("cannot fill shard s{shard}: {}", told(&e));
    let control = connect(port, CONTROL, secret, "postgres").await.map_err(failed)?;
    let known = control.query_opt("SELECT 1 FROM pg_database WHERE datname = 'shop'", &[]).await.map_err(failed)?;
    if known.is_none() {
        control.batch_execute("CREATE ROLE app LOGIN PASSWORD 'app'").await.map_err(failed)?;
        control.batch_execute("CREATE DATABASE shop OWNER app").await.map_err(failed)?;
    }
    let app = connect(port, "app", "app", "shop").await.map_err(failed)?;
    let made = app.query_one("SELECT to_regclass('public.orders_placed') IS NOT NULL", &[]).await.map_err(failed)?;
    if !made.get::<_, bool>(0) {
        let mine = format!(
            "((hashint8extended(t, 8816678312871386365) & 4095) + (5305509591434766563 & 4095) & 4095) * {shards} / 4096 = {shard}"
        );
        // One transaction: a demo that was stopped while it filled a kept directory begins anew.
        let rows = ROWS.replace("{mine}", &mine);
        app.batch_execute(&format!(
            "BEGIN;{TABLES}{rows}COMMIT; ANALYZE countries, plans, tenants, users, orders, order_items"
        ))
        .await
        .map_err(failed)?;
    }
    Ok(app)
}

async fn connect(port: u16, user: &str, password: &str, database: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = login(port, user, password, database).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The server's own words, where there are any.
fn told(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}

async fn facts(clients: &[Client]) -> Result<Facts, tokio_postgres::Error> {
    let mut facts = Facts::default();
    let mut orders = 0i64;
    let mut cents = 0i64;
    let mut largest: Option<(i64, i64, i64)> = None;
    let mut statuses = [0i64; 4];
    for client in clients {
        let sums = "SELECT count(*), coalesce(sum(amount) * 100, 0)::bigint, \
                    (SELECT count(*) FROM users) + (SELECT count(*) FROM order_items) + (SELECT count(*) FROM tenants) \
                    FROM orders";
        let row = client.query_one(sums, &[]).await?;
        orders += row.get::<_, i64>(0);
        cents += row.get::<_, i64>(1);
        facts.rows += row.get::<_, i64>(0) + row.get::<_, i64>(2);
        let top =
            "SELECT (amount * 100)::bigint, -tenant_id, -order_id FROM orders ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT 1";
        if let Some(row) = client.query_opt(top, &[]).await? {
            largest = largest.max(Some((row.get(0), row.get(1), row.get(2))));
        }
        let tenant = format!("SELECT name, plan FROM tenants WHERE tenant_id = {TENANT}");
        if let Some(row) = client.query_opt(&tenant, &[]).await? {
            facts.tenant = format!("{} | {}", row.get::<_, &str>(0), row.get::<_, &str>(1));
            facts.best_user = best_user(client).await?;
        }
        for (status, total) in ["open", "paid", "returned", "sent"].iter().zip(&mut statuses) {
            *total +=
                client.query_one("SELECT count(*) FROM orders WHERE status = $1", &[status]).await?.get::<_, i64>(0);
        }
    }
    let [open, paid, returned, sent] = statuses;
    facts.statuses = format!("open {open}, paid {paid}, returned {returned}, sent {sent}");
    if let Some((amount, tenant, order)) = largest {
        facts.largest = format!("{} | {} | {}", -tenant, -order, money(amount));
    }
    if let Some(client) = clients.first() {
        // PostgreSQL divides: its avg is its sum over its count.
        let average = format!("SELECT ({}::numeric / nullif({orders}, 0))::text", money(cents));
        let average: Option<String> = client.query_one(&average, &[]).await?.get(0);
        facts.orders = format!("{orders} | {} | {}", money(cents), average.unwrap_or_default());
    }
    Ok(facts)
}

async fn best_user(client: &Client) -> Result<String, tokio_postgres::Error> {
    let sql = format!(
        "SELECT u.email, count(*), sum(o.amount)::text FROM users u JOIN orders o USING (tenant_id, user_id)
         WHERE tenant_id = {TENANT} GROUP BY u.email ORDER BY sum(o.amount) DESC LIMIT 1"
    );
    let row = client.query_opt(&sql, &[]).await?;
    Ok(row.map_or_else(String::new, |r| {
        format!("{} | {} | {}", r.get::<_, &str>(0), r.get::<_, i64>(1), r.get::<_, &str>(2))
    }))
}

fn money(cents: i64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

impl Facts {
    /// Five statements worth trying, each with what it answers.
    pub fn statements(&self) -> String {
        let list = [
            (
                "one tenant, from the one shard that owns it",
                format!("SELECT name, plan FROM tenants WHERE tenant_id = {TENANT};"),
                &self.tenant,
            ),
            (
                "a join inside one tenant: PostgreSQL does it all",
                format!(
                    "SELECT u.email, count(*), sum(o.amount) FROM users u JOIN orders o USING (tenant_id, user_id)\n      \
                     WHERE tenant_id = {TENANT} GROUP BY u.email ORDER BY sum(o.amount) DESC LIMIT 3;"
                ),
                &self.best_user,
            ),
            (
                "sums over all shards, exact to the last digit",
                "SELECT count(*), sum(amount), avg(amount) FROM orders;".into(),
                &self.orders,
            ),
            (
                "the largest orders of all tenants, merged in order",
                "SELECT tenant_id, order_id, amount FROM orders ORDER BY amount DESC, tenant_id, order_id LIMIT 10;"
                    .into(),
                &self.largest,
            ),
            (
                "where it goes: the proxy's plan above those of the shards",
                "EXPLAIN SELECT status, count(*) FROM orders GROUP BY status ORDER BY status;".into(),
                &self.statuses,
            ),
        ];
        let mut out = format!("{} rows. Worth trying:\n", self.rows);
        for (why, sql, answer) in &list {
            let lead = if sql.starts_with("EXPLAIN") { "without EXPLAIN" } else { "first row" };
            let _ = writeln!(out, "\n  -- {why}\n  {sql}\n  -- {lead}: {answer}");
        }
        out
    }
}

/// The demo's configuration.
pub fn config(port: u16, http_port: u16, shards: &[u16], secret: &str) -> String {
    let mut out = format!(
        "[listen]\naddress = \"127.0.0.1:{port}\"\nhttp = \"127.0.0.1:{http_port}\"\n\n\
         [[user]]\nname = \"app\"\npassword = \"app\"\n\n\
         [database.shop]\ncontrol = \"{CONTROL}:{secret}\"\n"
    );
    for (shard, server) in shards.iter().enumerate() {
        let url = format!("postgresql://app:app@127.0.0.1:{server}/shop");
        let _ = write!(out, "\n[[database.shop.shard]]\nname = \"s{shard}\"\nprimary = \"{url}\"\n");
    }
    out.push_str("\n[[database.shop.shard_map]]\nname = \"tenants\"\nkey = [\"bigint\"]\nfunction = \"hash\"\n");
    for table in ["tenants", "users", "orders", "order_items"] {
        let _ = write!(
            out,
            "\n[[database.shop.table]]\nname = \"public.{table}\"\nshard_map = \"tenants\"\nkey = [\"tenant_id\"]\n"
        );
    }
    for table in ["countries", "plans"] {
        let _ = write!(out, "\n[[database.shop.table]]\nname = \"public.{table}\"\nreference = true\n");
    }
    out
}
