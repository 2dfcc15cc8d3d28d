//! DROP, TRUNCATE, maintenance, privileges, comments; one shard, and a chosen one.

use super::fixture::catalog;
use super::fixture::expect;
use super::fixture::expect_on;
use super::fixture::one_shard;
use crate::catalog::Unlisted;

#[test]
fn drops_need_one_set_of_shards() {
    expect(&[
        ("DROP TABLE orders, countries CASCADE", "all schema"),
        ("DROP TABLE logs", "s1 schema"),
        ("DROP TABLE logs, settings", "s0+s1 schema s0: DROP TABLE settings; s1: DROP TABLE logs;"),
        ("DROP TABLE IF EXISTS logs, settings, nobody", "s0+s1 schema"),
        ("DROP TABLE IF EXISTS orders, settings, nobody", "all schema"),
        ("DROP TABLE IF EXISTS nobody", "all schema"),
        ("DROP TABLE nobody", "unknown public.nobody"),
        ("DROP TABLE twice", "s0+s2 schema"),
        ("DROP TABLE wrong", "refuse: has no column tenant_id"),
        ("DROP TABLE IF EXISTS wrong", "all schema"),
        ("DROP TABLE scratch", "rows home write"),
        ("DROP TABLE pg_temp.orders", "rows home write"),
        ("DROP TABLE scratch, orders", "refuse: not all on the same shards"),
        ("DROP TABLE cascade", "unknown public.cascade"),
        ("DROP TABLE a.cascade", "unknown a.cascade"),
        ("DROP VIEW v_logs", "s1 schema"),
        ("DROP VIEW v_orders, v_countries", "all schema"),
        ("DROP MATERIALIZED VIEW IF EXISTS m_logs RESTRICT", "s1 schema"),
        ("DROP INDEX orders_pkey", "all schema"),
        ("DROP INDEX CONCURRENTLY IF EXISTS logs_pkey", "s1 outside schema"),
        ("DROP SEQUENCE free_seq", "s0 schema"),
        ("DROP TRIGGER t ON loud", "all schema"),
        ("DROP POLICY IF EXISTS p ON nobody", "all schema"),
        ("DROP RULE r ON logs CASCADE", "s1 schema"),
        ("DROP FUNCTION f(int), g()", "all schema"),
        ("DROP SCHEMA empty", "all schema"),
        ("DROP SCHEMA public", "s0 schema"),
        ("DROP SCHEMA IF EXISTS public CASCADE", "all schema"),
        ("DROP TYPE IF EXISTS mood", "all schema"),
        ("DROP OWNED BY app", "all schema"),
        ("DROP ROLE app", "all"),
        ("DROP DATABASE d", "refuse: DROP DATABASE"),
        ("DROP EXTENSION pg_trgm", "all schema"),
        ("DROP", "ask: DROP"),
    ]);
}

#[test]
fn rows_are_truncated_and_locked_together() {
    expect(&[
        ("TRUNCATE orders", "all"),
        ("TRUNCATE TABLE ONLY orders, countries * RESTART IDENTITY CASCADE", "all"),
        ("TRUNCATE logs", "s1"),
        ("TRUNCATE restrict", "unknown public.restrict"),
        (
            "TRUNCATE orders, settings",
            "s0+s1+s2 s0: TRUNCATE orders, settings; s1: TRUNCATE orders; s2: TRUNCATE orders;",
        ),
        ("TRUNCATE nobody", "unknown public.nobody"),
        ("TRUNCATE loud", "refuse: trigger t of public.loud"),
        ("TRUNCATE pg_catalog.pg_class", "s0"),
        ("TRUNCATE scratch", "rows home write"),
        ("TRUNCATE", "ask: TRUNCATE"),
        ("LOCK TABLE orders, countries IN ACCESS EXCLUSIVE MODE NOWAIT", "all"),
        ("LOCK logs", "s1"),
        ("LOCK ONLY (orders)", "all"),
        ("LOCK v_logs IN SHARE MODE", "s1"),
    ]);
}

#[test]
fn maintenance_goes_where_tables_are() {
    expect(&[
        ("VACUUM", "all outside"),
        ("VACUUM (FULL, ANALYZE) orders", "all outside"),
        ("VACUUM FULL FREEZE VERBOSE ANALYZE logs (id, line)", "s1 outside"),
        ("VACUUM pg_class", "all outside"),
        ("ANALYZE", "all"),
        ("ANALYZE VERBOSE logs, m_logs", "s1"),
        ("ANALYZE logs, orders", "s0+s1+s2 s0: ANALYZE orders; s1: ANALYZE logs, orders; s2: ANALYZE orders;"),
        ("REINDEX TABLE orders", "all"),
        ("REINDEX TABLE events", "all outside"),
        ("REINDEX INDEX CONCURRENTLY logs_pkey", "s1 outside"),
        ("REINDEX (CONCURRENTLY) TABLE logs", "s1 outside"),
        ("REINDEX SCHEMA public", "all outside"),
        ("REINDEX DATABASE", "all outside"),
        ("CLUSTER", "all outside"),
        ("CLUSTER orders USING orders_pkey", "all"),
        ("CLUSTER logs_pkey ON logs", "s1"),
        ("REFRESH MATERIALIZED VIEW CONCURRENTLY m_logs", "s1"),
        ("REFRESH MATERIALIZED VIEW m_orders WITH NO DATA", "refuse: over sharded table"),
    ]);
}

#[test]
fn privileges_and_comments_follow_their_things() {
    expect(&[
        ("GRANT SELECT, INSERT (a) ON orders, countries TO app WITH GRANT OPTION", "all"),
        ("GRANT SELECT ON TABLE logs TO app", "s1"),
        (
            "GRANT ALL ON logs, orders TO app",
            "s0+s1+s2 s0: GRANT ALL ON orders TO app; s1: GRANT ALL ON logs, orders TO app; s2: GRANT ALL ON orders TO app;",
        ),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA public TO app", "all"),
        ("GRANT USAGE ON SCHEMA public TO app", "all"),
        ("GRANT USAGE ON SEQUENCE orders_id_seq TO app", "all"),
        ("GRANT EXECUTE ON FUNCTION f(int) TO app", "all"),
        ("GRANT admin TO app", "all"),
        ("GRANT CONNECT ON DATABASE shop TO app", "refuse: ON DATABASE"),
        ("REVOKE ALL ON logs FROM PUBLIC CASCADE", "s1"),
        ("REVOKE GRANT OPTION FOR SELECT ON type FROM app", "unknown public.type"),
        ("COMMENT ON TABLE logs IS 'x'", "s1"),
        ("COMMENT ON COLUMN public.orders.note IS NULL", "all"),
        ("COMMENT ON CONSTRAINT c ON logs IS 'x'", "s1"),
        ("COMMENT ON CONSTRAINT c ON DOMAIN d IS 'x'", "all"),
        ("COMMENT ON INDEX orders_pkey IS 'x'", "all"),
        ("COMMENT ON FUNCTION f(int) IS 'x'", "all"),
        ("COMMENT ON EXTENSION plpgsql IS 'x'", "all"),
        ("COMMENT ON DATABASE shop IS 'x'", "refuse: ON DATABASE"),
        ("REASSIGN OWNED BY a TO b", "all"),
        ("IMPORT FOREIGN SCHEMA s FROM SERVER x INTO y", "refuse: IMPORT FOREIGN SCHEMA"),
    ]);
}

#[test]
fn one_shard_has_nothing_to_check() {
    expect_on(
        &one_shard(),
        None,
        &[
            ("CREATE TABLE items (id bigint PRIMARY KEY)", "all schema"),
            ("ALTER TABLE orders DROP COLUMN tenant_id", "all schema"),
            ("CREATE TABLE made AS SELECT * FROM orders", "rows s0 write schema"),
            ("CREATE TEMP TABLE t (id int)", "rows home write pin TemporaryTable temporary t"),
            ("CREATE TEMP TABLE t AS SELECT * FROM orders", "rows s0 write pin TemporaryTable temporary t"),
            ("CREATE DATABASE d", "all outside"),
            ("DROP TABLE anything", "all schema"),
            ("CREATE NONSENSE", "all schema"),
            ("VACUUM orders", "all outside"),
        ],
    );
}

#[test]
fn a_chosen_shard_gets_the_text_as_it_is() {
    expect_on(
        &catalog(),
        Some(1),
        &[
            ("CREATE TABLE items (id bigint PRIMARY KEY)", "rows s1 write schema"),
            ("TRUNCATE orders", "rows s1 write"),
            ("CREATE DATABASE d", "rows s1 write"),
            ("CREATE TABLE made AS SELECT * FROM orders", "rows s1 write schema"),
            ("CREATE TEMP TABLE t (id int)", "rows s1 write pin TemporaryTable temporary t"),
            ("CREATE MATERIALIZED VIEW m AS SELECT * FROM orders", "rows s1 write schema"),
            ("LOCK orders", "rows s1 lock"),
        ],
    );
}

#[test]
fn unlisted_tables_are_what_the_configuration_says() {
    let mut catalog = catalog();
    catalog.unlisted = Unlisted::Reference;
    expect_on(
        &catalog,
        None,
        &[
            ("CREATE TABLE plain (id int)", "all schema"),
            ("CREATE SEQUENCE s", "all schema"),
            ("CREATE TABLE made AS SELECT 1 AS a", "refuse: reference table"),
        ],
    );
    catalog.unlisted = Unlisted::Refuse;
    expect_on(
        &catalog,
        None,
        &[
            ("CREATE TABLE plain (id int)", "refuse: not listed"),
            ("CREATE SEQUENCE s", "refuse: not listed"),
            ("CREATE TABLE currencies (id int)", "all schema"),
        ],
    );
}
