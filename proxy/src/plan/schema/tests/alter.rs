//! ALTER.

use super::fixture::expect;

#[test]
fn tables_are_altered_where_they_are() {
    expect(&[
        ("ALTER TABLE orders ADD COLUMN x int", "all schema"),
        ("ALTER TABLE IF EXISTS ONLY public.logs ADD x int DEFAULT now(), DROP COLUMN line", "s1 schema"),
        ("ALTER TABLE countries ADD COLUMN x text NOT NULL DEFAULT lower('A')", "all schema"),
        ("ALTER TABLE settings RENAME TO prefs", "s0 schema"),
        ("ALTER TABLE settings SET SCHEMA other", "s0 schema"),
        ("ALTER TABLE settings RENAME COLUMN value TO v", "s0 schema"),
        ("ALTER TABLE orders OWNER TO app, ENABLE ROW LEVEL SECURITY", "all schema"),
        ("ALTER TABLE orders VALIDATE CONSTRAINT c", "all schema"),
        ("ALTER TABLE orders ALTER COLUMN note SET DEFAULT now(), ALTER note SET NOT NULL", "all schema"),
        ("ALTER TABLE orders RENAME CONSTRAINT a TO b", "all schema"),
        ("ALTER TABLE scratch ADD COLUMN x int", "rows home write"),
        ("ALTER TABLE scratch RENAME TO orders", "rows home write pin TemporaryTable temporary orders"),
        ("ALTER TABLE nobody ADD COLUMN x int", "unknown public.nobody"),
        ("ALTER TABLE IF EXISTS nobody ADD COLUMN x int", "all schema"),
        ("ALTER TABLE orders FROBNICATE x", "ask: ALTER TABLE"),
        ("ALTER TABLE twice ADD x int", "refuse: several shards"),
        ("ALTER TABLE wrong ADD x int", "refuse: has no column"),
        ("ALTER TABLE ALL IN TABLESPACE a SET TABLESPACE b", "all schema"),
    ]);
}

#[test]
fn keys_stay_as_they_are() {
    let key = "refuse 0A000: in the shard key";
    expect(&[
        ("ALTER TABLE orders DROP COLUMN tenant_id", key),
        ("ALTER TABLE orders DROP IF EXISTS tenant_id CASCADE", key),
        ("ALTER TABLE orders ALTER COLUMN tenant_id TYPE text", key),
        ("ALTER TABLE orders ADD x int, ALTER tenant_id SET DATA TYPE int", key),
        ("ALTER TABLE orders RENAME tenant_id TO t", key),
        ("ALTER TABLE orders RENAME COLUMN \"tenant_id\" TO t", key),
        ("ALTER TABLE orders ALTER COLUMN tenant_id SET NOT NULL", "all schema"),
        ("ALTER TABLE orders ALTER note TYPE varchar(10) USING lower(note)", "all schema"),
        ("ALTER TABLE orders ALTER note TYPE uuid USING gen_random_uuid()", "refuse: by gen_random_uuid()"),
        ("ALTER TABLE orders RENAME TO o", "refuse: renaming"),
        ("ALTER TABLE countries SET SCHEMA other", "refuse: renaming"),
        ("ALTER TABLE settings RENAME TO items", "refuse: renaming"),
        ("ALTER TABLE settings ADD COLUMN org_id bigint", "refuse: by which tables are sharded"),
        ("ALTER TABLE settings RENAME COLUMN id TO org_id", "refuse: by which tables are sharded"),
        ("ALTER TABLE orders ADD COLUMN org_id bigint", "all schema"),
    ]);
}

#[test]
fn new_constraints_and_columns_are_checked() {
    expect(&[
        ("ALTER TABLE orders ADD PRIMARY KEY (id)", "refuse: without its shard key"),
        ("ALTER TABLE orders ADD CONSTRAINT pk PRIMARY KEY (id, tenant_id)", "all schema"),
        ("ALTER TABLE orders ADD CONSTRAINT pk PRIMARY KEY USING INDEX i", "all schema"),
        ("ALTER TABLE orders ADD COLUMN x int UNIQUE", "refuse: without its shard key"),
        ("ALTER TABLE orders ADD x int REFERENCES countries", "all schema"),
        ("ALTER TABLE orders ADD CONSTRAINT f FOREIGN KEY (note) REFERENCES settings (value)", "refuse: foreign key"),
        (
            "ALTER TABLE ONLY orders ADD CONSTRAINT f FOREIGN KEY (tenant_id, id) REFERENCES loud (tenant_id, id) NOT VALID",
            "all schema",
        ),
        ("ALTER TABLE orders ADD CHECK (id > 0)", "all schema"),
        ("ALTER TABLE logs ADD PRIMARY KEY (id)", "s1 schema"),
        ("ALTER TABLE orders ADD COLUMN at timestamptz DEFAULT now()", "all schema"),
        ("ALTER TABLE orders ADD COLUMN at text DEFAULT now() || nextval('s')", "refuse: with now()"),
        ("ALTER TABLE orders ADD COLUMN at timestamptz DEFAULT CURRENT_TIMESTAMP NOT NULL", "all schema"),
        ("ALTER TABLE countries ADD COLUMN at date DEFAULT 'today'", "refuse: with 'today'"),
        ("ALTER TABLE countries ADD COLUMN n serial", "refuse: with serial"),
        ("ALTER TABLE orders ADD COLUMN n int GENERATED ALWAYS AS IDENTITY", "refuse: IDENTITY"),
        ("ALTER TABLE orders ADD COLUMN n int GENERATED ALWAYS AS (id * 2) STORED", "all schema"),
        ("ALTER TABLE orders ADD COLUMN IF NOT EXISTS note text DEFAULT now()", "all schema"),
        ("ALTER TABLE logs ADD COLUMN n serial", "s1 schema"),
    ]);
}

#[test]
fn partitions_stay_with_their_parents() {
    expect(&[
        ("ALTER TABLE events ATTACH PARTITION orders DEFAULT", "all schema"),
        (
            "ALTER TABLE events ATTACH PARTITION logs FOR VALUES FROM ('2020-01-01') TO (MAXVALUE)",
            "refuse: below public.events",
        ),
        ("ALTER TABLE logs INHERIT events", "refuse: below public.events"),
        ("ALTER TABLE events DETACH PARTITION events_1", "refuse: out of its parent"),
        ("ALTER TABLE events DETACH PARTITION orders CONCURRENTLY", "all outside schema"),
        ("ALTER TABLE notes NO INHERIT settings", "s0 schema"),
    ]);
}

#[test]
fn other_things_are_altered_where_they_are() {
    expect(&[
        ("ALTER INDEX orders_pkey RENAME TO x", "all schema"),
        ("ALTER INDEX logs_pkey SET (fillfactor = 50)", "s1 schema"),
        ("ALTER SEQUENCE orders_id_seq RESTART WITH 5", "all"),
        ("ALTER SEQUENCE free_seq OWNED BY settings.id", "s0 schema"),
        ("ALTER SEQUENCE free_seq OWNED BY orders.id", "refuse: owned by table"),
        ("ALTER SEQUENCE spread_seq OWNED BY orders.id", "all schema"),
        ("ALTER TABLE spread_seq OWNER TO app", "all schema"),
        ("ALTER VIEW v_logs RENAME TO x", "s1 schema"),
        ("ALTER VIEW v_orders OWNER TO app", "all schema"),
        ("ALTER MATERIALIZED VIEW m_logs RENAME TO x", "s1 schema"),
        ("ALTER TRIGGER t ON orders RENAME TO x", "all schema"),
        ("ALTER POLICY p ON logs USING (true)", "s1 schema"),
        ("ALTER TYPE mood ADD VALUE 'c'", "all schema"),
        ("ALTER FUNCTION f() IMMUTABLE", "all schema"),
        ("ALTER SCHEMA s RENAME TO t", "all schema"),
        ("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO app", "all"),
        ("ALTER ROLE app SET search_path = x", "all"),
        ("ALTER SYSTEM SET work_mem = '1MB'", "refuse: ALTER SYSTEM"),
        ("ALTER DATABASE shop SET work_mem = '1MB'", "refuse: ALTER DATABASE"),
        ("ALTER STATISTICS s RENAME TO t", "refuse: STATISTICS"),
    ]);
}
