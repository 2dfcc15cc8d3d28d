//! Schema changes over three shards: everywhere or nowhere, refused with their reason, told where they stopped; sequences
//! that cannot collide; pg_dump.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::outcome::MODES;
use integration_tests::outcome::Outcome;
use integration_tests::tools;
use integration_tests::tools::libpq_program;
use integration_tests::tools::said;

const RULE: &str = "[[database.shop.column_rule]]\ncolumn = \"tenant_id\"\nshard_map = \"tenants\"\n";

/// Three shards, or `None` where the tests run without a proxy or over another number.
fn deploy() -> Option<Deployment> {
    let layout = Layout::new(3).hash_map("tenants", &["bigint"]).reference("public.countries").extra(RULE);
    let deployment = Deployment::start(layout);
    (!direct() && deployment.layout.shards == 3).then_some(deployment)
}

fn on_shards(deployment: &Deployment, sql: &str) -> Vec<String> {
    deployment.shards().iter().map(|shard| Client::connect(shard).simple(sql).ok().value()).collect()
}

fn has_table(deployment: &Deployment, table: &str) -> Vec<String> {
    on_shards(deployment, &format!("SELECT to_regclass('{table}') IS NOT NULL"))
}

#[track_caller]
fn refused(outcome: &Outcome, code: &str, part: &str) {
    assert_eq!(outcome.sqlstate(), Some(code), "{outcome:?}");
    assert!(format!("{outcome:?}").contains(part), "{outcome:?}");
}

/// The rows that are there get one time, as in one PostgreSQL; later ones get their own.
#[test]
fn a_new_column_is_filled_with_one_time() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint, PRIMARY KEY (tenant_id, id))");
    client.execute("INSERT INTO orders VALUES (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)");
    client.execute(
        "ALTER TABLE orders ADD COLUMN seen timestamptz NOT NULL DEFAULT now(), \
         ADD COLUMN day date DEFAULT current_date + 1, ADD COLUMN n integer DEFAULT 3",
    );
    let values = "SELECT count(DISTINCT seen), count(DISTINCT day), min(n) FROM orders";
    assert_eq!(client.simple(values).ok().rows[0], [Some("1".into()), Some("1".into()), Some("3".into())]);
    let defaults = "SELECT count(*) FROM pg_attrdef WHERE adrelid = 'orders'::regclass AND pg_get_expr(adbin, adrelid) IN ('now()', '(CURRENT_DATE + 1)')";
    for shard in 0..deployment.layout.shards {
        let mut shard = Client::connect(&deployment.shard(shard));
        assert_eq!(shard.simple(defaults).ok().value(), "2");
    }
    for tenant in 7..13 {
        client.execute(&format!("INSERT INTO orders VALUES ({tenant}, 1)"));
    }
    assert_eq!(client.simple("SELECT count(DISTINCT seen) FROM orders").ok().value(), "7");
}

#[test]
fn a_change_happens_everywhere_or_nowhere() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint, note text, PRIMARY KEY (tenant_id, id))");
    // A table that only the second shard has already.
    Client::connect(&deployment.shard(1)).execute("CREATE TABLE only_there (tenant_id bigint)");
    for mode in MODES {
        let outcome = client.run(mode, "CREATE TABLE only_there (tenant_id bigint, x integer)", &[]);
        refused(&outcome, "42P07", "only_there");
        assert_eq!(has_table(&deployment, "only_there"), ["f", "t", "f"]);
    }
    // The client's own transaction, with rows on several shards.
    client.execute("BEGIN");
    client.execute("ALTER TABLE orders ADD COLUMN amount integer NOT NULL DEFAULT 7");
    for tenant in 0..6 {
        client.execute(&format!("INSERT INTO orders VALUES ({tenant}, 1, 'x')"));
    }
    client.execute("CREATE TABLE made (tenant_id bigint, x integer)");
    client.execute("INSERT INTO made VALUES (1, 1)");
    assert_eq!(client.simple("SELECT sum(amount) FROM orders").ok().value(), "42");
    client.execute("ROLLBACK");
    assert_eq!(has_table(&deployment, "made"), ["f", "f", "f"]);
    assert_eq!(client.simple("SELECT amount FROM orders").sqlstate(), Some("42703"));
    client.execute("BEGIN; CREATE TABLE made (tenant_id bigint, x integer); INSERT INTO made VALUES (1, 1); COMMIT");
    assert_eq!(has_table(&deployment, "made"), ["t", "t", "t"]);
    assert_eq!(client.simple("SELECT count(*) FROM made").ok().value(), "1");
}

#[test]
fn constraints_that_no_shard_can_hold_are_refused() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE countries (code text PRIMARY KEY)");
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint, note text, PRIMARY KEY (tenant_id, id))");
    client.execute("CREATE TABLE alone (id integer PRIMARY KEY)");
    client.execute("CREATE TABLE parts (tenant_id bigint, d date) PARTITION BY RANGE (d)");
    client.execute("CREATE DOMAIN tenant AS bigint");
    let without_key = "without its shard key";
    let cases = [
        ("CREATE TABLE t (tenant_id bigint, id bigint PRIMARY KEY)", "0A000", without_key),
        ("CREATE TABLE t (tenant_id bigint, id bigint UNIQUE)", "0A000", without_key),
        ("CREATE TABLE t (tenant_id bigint, id bigint, UNIQUE (id))", "0A000", without_key),
        ("CREATE TABLE t (tenant_id bigint, id bigint, EXCLUDE (id WITH =))", "0A000", without_key),
        ("CREATE TABLE t (LIKE alone INCLUDING ALL, tenant_id bigint)", "0A000", "not on all of its shards"),
        ("CREATE TABLE t (x integer UNIQUE) INHERITS (orders)", "0A000", without_key),
        (
            "CREATE TABLE t PARTITION OF parts (UNIQUE (d)) FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
            "0A000",
            without_key,
        ),
        ("ALTER TABLE orders ADD UNIQUE (note)", "0A000", without_key),
        ("ALTER TABLE orders ADD COLUMN x integer UNIQUE", "0A000", without_key),
        ("CREATE UNIQUE INDEX ON orders (note)", "0A000", without_key),
        ("CREATE UNIQUE INDEX CONCURRENTLY ON orders (note)", "0A000", without_key),
        ("CREATE TABLE t (tenant_id tenant, x integer)", "42P16", "shard key column tenant_id"),
        (
            "CREATE TABLE t (tenant_id bigint, o bigint, FOREIGN KEY (tenant_id, o) REFERENCES orders ON DELETE SET NULL)",
            "0A000",
            "sets shard key column",
        ),
        (
            "CREATE TABLE t (tenant_id bigint, o bigint, FOREIGN KEY (tenant_id, o) REFERENCES orders ON UPDATE CASCADE)",
            "0A000",
            "sets shard key column",
        ),
        ("CREATE TABLE t (tenant_id bigint, a integer REFERENCES alone)", "0A000", "on one shard only"),
        (
            "CREATE TABLE t (tenant bigint, o bigint, FOREIGN KEY (tenant, o) REFERENCES orders)",
            "0A000",
            "spread over the shards",
        ),
        (
            "ALTER TABLE countries ADD COLUMN o bigint, ADD COLUMN t bigint, ADD FOREIGN KEY (t, o) REFERENCES orders (tenant_id, id)",
            "0A000",
            "spread over the shards",
        ),
        ("ALTER TABLE countries ADD COLUMN a integer REFERENCES alone", "0A000", "on one shard only"),
        ("ALTER TABLE orders ALTER COLUMN tenant_id TYPE integer", "0A000", "in the shard key"),
        ("ALTER TABLE orders DROP COLUMN tenant_id", "0A000", "in the shard key"),
        ("ALTER TABLE orders RENAME tenant_id TO x", "0A000", "in the shard key"),
        ("ALTER TABLE alone ADD COLUMN tenant_id bigint", "0A000", "by which tables are sharded"),
        ("ALTER TABLE countries RENAME TO lands", "0A000", "renaming table"),
        ("ALTER SCHEMA public RENAME TO other", "0A000", "renaming schema"),
        ("CREATE DATABASE other", "0A000", "CREATE DATABASE"),
    ];
    for (n, (sql, code, part)) in cases.into_iter().enumerate() {
        refused(&client.run(MODES[n % 3], sql, &[]), code, part);
    }
    assert_eq!(has_table(&deployment, "t"), ["f", "f", "f"]);
    let accepted = [
        "CREATE TABLE t (LIKE orders INCLUDING ALL)",
        "CREATE TABLE u (tenant_id bigint, o bigint, c text REFERENCES countries, FOREIGN KEY (tenant_id, o) REFERENCES orders ON DELETE SET NULL (o) DEFERRABLE INITIALLY DEFERRED)",
        "CREATE UNIQUE INDEX notes ON orders (note, tenant_id)",
        "ALTER TABLE orders ADD CONSTRAINT notes UNIQUE USING INDEX notes",
        "ALTER TABLE alone ADD COLUMN c text REFERENCES countries",
        "CREATE UNIQUE INDEX ON orders (tenant_id, lower(note))",
        "CREATE INDEX likes ON orders (note varchar_pattern_ops)",
    ];
    for sql in accepted {
        client.execute(sql);
    }
    assert_eq!(on_shards(&deployment, "SELECT count(*) FROM pg_constraint WHERE conname = 'notes'"), ["1", "1", "1"]);
}

#[test]
fn sequences_of_sharded_tables_cannot_collide() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute(
        "CREATE TABLE a (tenant_id bigint, id bigserial, k bigint GENERATED BY DEFAULT AS IDENTITY, s serial)",
    );
    client.execute("CREATE TABLE b (tenant_id bigint, \"Id\" bigint NOT NULL)");
    client.execute("ALTER TABLE b ALTER COLUMN \"Id\" ADD GENERATED ALWAYS AS IDENTITY");
    client.execute("BEGIN; CREATE TABLE c (LIKE a INCLUDING IDENTITY); COMMIT");
    client.execute("CREATE SEQUENCE d OWNED BY a.s");
    client.execute("TRUNCATE a RESTART IDENTITY");
    let first = ["1", "281474976710656", "562949953421312"];
    for sequence in ["a_id_seq", "a_k_seq", "\"b_Id_seq\"", "c_k_seq", "d"] {
        assert_eq!(on_shards(&deployment, &format!("SELECT last_value FROM {sequence}")), first, "{sequence}");
    }
    assert_eq!(on_shards(&deployment, "SELECT last_value FROM a_s_seq"), ["1", "1", "1"]);
}

#[test]
fn a_statement_outside_transactions_says_where_it_stopped() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint)");
    // Twice the same on the second shard, by way of its own server.
    Client::connect(&deployment.shard(1)).execute("INSERT INTO orders VALUES (1, 1), (1, 1)");
    let concurrently = "CREATE UNIQUE INDEX CONCURRENTLY one ON orders (tenant_id, id)";
    let outcome = client.simple(concurrently);
    refused(&outcome, "23505", "Done on shard s0; failed on shard s1. Not tried on shard s2.");
    refused(&outcome, "23505", "SET shardway.shard = 's1'");
    // The way to go on that the hint tells.
    Client::connect(&deployment.shard(1)).execute("DELETE FROM orders");
    client.execute("SET shardway.shard = 's1'");
    client.execute("DROP INDEX CONCURRENTLY one");
    client.execute(concurrently);
    client.execute("SET shardway.shard = 's2'");
    client.execute(concurrently);
    client.execute("RESET shardway.shard");
    let valid = "SELECT count(*) FROM pg_index WHERE indexrelid = 'one'::regclass AND indisvalid";
    assert_eq!(on_shards(&deployment, valid), ["1", "1", "1"]);
    refused(&client.simple("BEGIN; VACUUM orders"), "25001", "VACUUM");
    client.execute("ROLLBACK");
    for sql in ["VACUUM orders", "REINDEX TABLE CONCURRENTLY orders", "DROP INDEX CONCURRENTLY one"] {
        assert!(client.extended(sql, &[], false).sqlstate().is_none(), "{sql}");
    }
}

#[test]
fn a_change_in_a_pipeline_commits_with_it() {
    use integration_tests::message;
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint)");
    let mut bytes = Vec::new();
    for sql in ["INSERT INTO orders VALUES (1, 1)", "ALTER TABLE orders ADD COLUMN note text", "SELECT 1/0"] {
        bytes.extend(message::parse("", sql, &[]));
        bytes.extend(message::bind("", "", &[], &[], &[]));
        bytes.extend(message::execute("", 0));
    }
    bytes.extend(message::sync());
    client.send(&bytes);
    let outcomes = client.until(&["ReadyForQuery"]);
    assert!(outcomes.iter().any(|m| m.name() == "ErrorResponse"), "{outcomes:?}");
    assert_eq!(client.simple("SELECT count(*) FROM orders").ok().value(), "0");
    assert_eq!(client.simple("SELECT note FROM orders").sqlstate(), Some("42703"));
}

#[test]
fn truncate_reaches_every_shard() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE countries (code text PRIMARY KEY)");
    client.execute("CREATE TABLE orders (tenant_id bigint, code text REFERENCES countries)");
    for shard in deployment.shards() {
        Client::connect(&shard).execute("INSERT INTO countries VALUES ('de')");
    }
    for tenant in 0..6 {
        client.execute(&format!("INSERT INTO orders VALUES ({tenant}, 'de')"));
    }
    refused(&client.simple("TRUNCATE countries"), "0A000", "foreign key");
    client.execute("BEGIN; TRUNCATE countries CASCADE; ROLLBACK");
    assert_eq!(client.simple("SELECT count(*) FROM orders").ok().value(), "6");
    client.execute("TRUNCATE TABLE countries RESTART IDENTITY CASCADE");
    assert_eq!(on_shards(&deployment, "SELECT count(*) FROM countries"), ["0", "0", "0"]);
    assert_eq!(on_shards(&deployment, "SELECT count(*) FROM orders"), ["0", "0", "0"]);
}

#[test]
fn temporary_tables_hide_others_while_they_last() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint)");
    for tenant in 0..6 {
        client.execute(&format!("INSERT INTO orders VALUES ({tenant}, 1)"));
    }
    let count = "SELECT count(*) FROM orders";
    client.execute("CREATE TEMP TABLE orders (a integer)");
    assert_eq!(client.simple(count).ok().value(), "0");
    client.execute("DROP TABLE orders");
    assert_eq!(client.simple(count).ok().value(), "6");
    client.execute("CREATE TEMP TABLE orders (a integer)");
    client.execute("ALTER TABLE orders RENAME TO others");
    assert_eq!(client.simple(count).ok().value(), "6");
    assert_eq!(client.simple("SELECT count(*) FROM others").ok().value(), "0");
    client.execute("BEGIN");
    client.execute("CREATE TEMP TABLE orders (a integer) ON COMMIT DROP");
    assert_eq!(client.extended(count, &[], false).ok().value(), "0");
    client.execute("COMMIT");
    assert_eq!(client.simple(count).ok().value(), "6");
    client.execute("CREATE TEMP TABLE orders ON COMMIT DROP AS SELECT 1 AS a");
    assert_eq!(client.extended(count, &[], false).ok().value(), "6");
}

#[test]
fn mistakes_are_told_as_postgresql_does() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint, note text)");
    let cases = [
        ("SELECT id FROM orders GROUP BY note", "42803"),
        ("SELECT DISTINCT id FROM orders ORDER BY note", "42P10"),
        ("SELECT nothing FROM orders GROUP BY note", "42703"),
        ("SELECT 1; SELECT id FROM orders GROUP BY note", "42803"),
        ("SELECT current_setting('port'), id FROM orders", "0A000"),
        ("SELECT current_setting(note) FROM orders", "0A000"),
    ];
    for (sql, code) in cases {
        assert_eq!(client.simple(sql).sqlstate(), Some(code), "{sql}");
    }
    client.execute("SET app.tenant = '3'");
    client.execute("SELECT id FROM orders WHERE id = current_setting('app.tenant')::bigint");
    client.execute("BEGIN");
    assert_eq!(client.simple("SELECT 1/0").sqlstate(), Some("22012"));
    assert_eq!(client.simple("SELEC 1").sqlstate(), Some("42601"));
    assert_eq!(client.simple("SELECT 1").sqlstate(), Some("25P02"));
    client.execute("ROLLBACK");
}

#[test]
fn pg_dump_reads_the_schema() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE countries (code text PRIMARY KEY)");
    client.execute("CREATE TYPE mood AS ENUM ('a', 'b')");
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint GENERATED BY DEFAULT AS IDENTITY, m mood, c text REFERENCES countries, PRIMARY KEY (tenant_id, id))");
    client.execute("CREATE VIEW happy AS SELECT * FROM orders WHERE m = 'a'");
    client.execute("CREATE TABLE notes (id serial PRIMARY KEY, note text)");
    client.execute("INSERT INTO notes (note) VALUES ('one note')");
    let dump = |address: Address, arguments: &[&str]| {
        let output = tools::output_within(libpq_program("pg_dump", &address).args(arguments), tools::PROGRAM_LIMIT);
        let output = output.expect("pg_dump: install PostgreSQL's client programs (scripts/setup does)");
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let through = dump(deployment.address(), &["--schema-only"]);
    assert!(!through.contains("shardway"), "{through}");
    assert_eq!(through, dump(deployment.shard(0), &["--schema-only", "--exclude-schema=shardway"]));
    let rows = dump(deployment.address(), &["--table=notes"]);
    assert!(rows.contains("1\tone note"), "{rows}");
}

#[test]
fn a_list_of_tables_may_be_apart() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE countries (code text PRIMARY KEY)");
    client.execute("CREATE TABLE orders (tenant_id bigint, c text REFERENCES countries)");
    client.execute("CREATE TABLE alone (id integer, c text REFERENCES countries)");
    client.execute("INSERT INTO alone VALUES (1)");
    client.execute("INSERT INTO orders VALUES (1)");
    client.execute("BEGIN; LOCK TABLE orders, ONLY alone, public.countries IN ACCESS SHARE MODE; COMMIT");
    // As Django empties its tables: those that refer to each other must be in one statement.
    client.execute("TRUNCATE \"alone\", \"orders\", \"countries\"");
    assert_eq!(client.simple("SELECT count(*) FROM orders").ok().value(), "0");
    assert_eq!(client.simple("SELECT count(*) FROM alone").ok().value(), "0");
    client.execute("ANALYZE alone, orders (tenant_id)");
    client.execute("VACUUM alone, orders");
    client.execute("GRANT SELECT ON alone, orders TO PUBLIC");
    client.execute("DROP TABLE alone, orders, countries CASCADE");
    assert_eq!(has_table(&deployment, "orders"), ["f", "f", "f"]);
    assert_eq!(has_table(&deployment, "alone"), ["f", "f", "f"]);
}

/// Migrations guard their changes by DO blocks: as in one PostgreSQL, on every shard; never half of them.
#[test]
fn guarded_changes_happen_on_every_shard() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint, amount integer, PRIMARY KEY (tenant_id, id))");
    let moods = "DO $$ BEGIN CREATE TYPE mood AS ENUM ('sad', 'ok'); EXCEPTION WHEN duplicate_object THEN NULL; END $$";
    let check = "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = 'positive') THEN \
                 ALTER TABLE orders ADD CONSTRAINT positive CHECK (amount > 0); END IF; END $$";
    let role = "DO $$ BEGIN CREATE ROLE guarded_reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$";
    let kept = "DO $$ BEGIN CREATE TABLE IF NOT EXISTS kept (tenant_id bigint, id bigserial); END $$";
    Client::connect(&deployment.cluster(0).superuser("postgres")).execute("ALTER ROLE app CREATEROLE");
    for mode in MODES {
        for block in [moods, check, role, kept] {
            client.run(mode, block, &[]).ok();
        }
    }
    let found = "SELECT (SELECT count(*) FROM pg_type WHERE typname = 'mood') + (SELECT count(*) FROM pg_constraint \
                 WHERE conname = 'positive') + (SELECT count(*) FROM pg_roles WHERE rolname = 'guarded_reader')";
    assert_eq!(on_shards(&deployment, found), ["3", "3", "3"]);
    client.execute("INSERT INTO kept (tenant_id) SELECT g FROM generate_series(1, 8) g");
    assert_eq!(client.simple("SELECT count(DISTINCT id) FROM kept").ok().value(), "8");
    assert_eq!(client.simple("INSERT INTO orders VALUES (1, 1, -1)").sqlstate(), Some("23514"));
    // Inside the client's own transaction, and undone with it.
    client.execute("BEGIN");
    client.execute("DO $$ BEGIN CREATE SCHEMA guarded; EXCEPTION WHEN duplicate_schema THEN NULL; END $$");
    client.execute("ROLLBACK");
    assert_eq!(on_shards(&deployment, "SELECT count(*) FROM pg_namespace WHERE nspname = 'guarded'"), ["0", "0", "0"]);
    // Where a shard would go another way than the others, nothing happens.
    Client::connect(&deployment.shard(1)).execute("CREATE SCHEMA guarded");
    let block = "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'guarded') THEN \
                 CREATE SCHEMA guarded; END IF; END $$";
    refused(&client.simple(block), "0A000", "different ways");
    assert_eq!(on_shards(&deployment, "SELECT count(*) FROM pg_namespace WHERE nspname = 'guarded'"), ["0", "1", "0"]);
    // PostgreSQL's own errors stay its own.
    assert_eq!(client.simple("DO $$ BEGIN CREATE SCHEMA public; END $$").sqlstate(), Some("42P06"));
    // Membership belongs to the server that all shards are on.
    client.execute("CREATE ROLE guarded_group");
    client.execute("GRANT guarded_group TO guarded_reader");
    client.execute("COMMENT ON ROLE guarded_group IS 'readers'");
    client.execute("DROP ROLE guarded_group");
}

/// A dump of everything, restored into one PostgreSQL and, through a second proxy, into other shards.
#[test]
fn pg_dump_of_everything_can_be_restored() {
    let Some(deployment) = deploy() else { return };
    let mut client = deployment.connect();
    client.execute("CREATE TABLE countries (code text PRIMARY KEY, name text)");
    client.execute("CREATE TABLE orders (tenant_id bigint, id bigint, c text REFERENCES countries, amount numeric(9,2), PRIMARY KEY (tenant_id, id))");
    client.execute("CREATE TABLE notes (id serial PRIMARY KEY, note text)");
    client.execute("INSERT INTO countries VALUES ('de', 'Germany'), ('fr', E'tab\\there')");
    client.execute("INSERT INTO orders SELECT g, g * 7, CASE WHEN g % 2 = 0 THEN 'de' ELSE 'fr' END, g * 1.25 FROM generate_series(1, 60) g");
    client.execute("INSERT INTO notes (note) SELECT 'note ' || g FROM generate_series(1, 5) g");
    let mut command = libpq_program("pg_dump", &deployment.address());
    let output = tools::output_within(&mut command, tools::PROGRAM_LIMIT).unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let directory = integration_tests::process::temporary_directory("shardway-dump-", None);
    let file = directory.join("dump.sql");
    std::fs::write(&file, &output.stdout).unwrap();
    let single = deployment.cluster(0);
    single.create_database("restored");
    let Some(other) = deploy() else { return };
    let questions = [
        "SELECT * FROM orders ORDER BY tenant_id",
        "SELECT * FROM countries ORDER BY code",
        "SELECT * FROM notes ORDER BY id",
        "SELECT count(*), sum(amount) FROM orders",
    ];
    for address in [single.app("restored"), other.address()] {
        let output = tools::psql(&address, &["-v", "ON_ERROR_STOP=1", "-f", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
        let mut restored = Client::connect(&address);
        for question in questions {
            assert_eq!(restored.simple(question).ok().rows, client.simple(question).ok().rows, "{question}");
        }
        restored.execute("INSERT INTO notes (note) VALUES ('next')");
        assert_eq!(restored.simple("SELECT max(id) FROM notes").ok().value(), "6");
    }
    // Nobody who did not ask for it has lost the search path.
    assert_eq!(client.simple("SHOW search_path").ok().value(), "\"$user\", public");
    std::fs::remove_dir_all(directory).unwrap();
}
