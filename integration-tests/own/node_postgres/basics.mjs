// Connecting, statements, types, prepared statements, transactions, errors, notifications, cancel.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import pg from "pg";
import { environment, eventually, refused } from "./checks.mjs";
import { withClient, withPool } from "./connect.mjs";

const one = async (client, ...query) => Object.values((await client.query(...query)).rows[0])[0];

export const basics = {
  "connect without TLS": () =>
    withClient(async (c) => assert.equal(await one(c, "select current_database()"), environment.PGDATABASE)),

  "connect with TLS and a verified certificate": () =>
    withClient(
      async (c) => {
        assert.equal(c.connection.stream.encrypted, true);
        assert.equal(await one(c, "select $1::int + 1", [41]), 42);
      },
      { ssl: { ca: readFileSync(environment.SHARDWAY_CA), rejectUnauthorized: true } },
    ),

  "wrong password": async () => {
    const client = new pg.Client({ password: "wrong", user: "nobody_here" });
    client.on("error", () => {});
    const error = await client.connect().then(() => null, (e) => e);
    assert.ok(["28P01", "28000"].includes(error?.code), String(error));
  },

  "start-up options": () =>
    withClient(
      async (c) => {
        assert.equal(await one(c, "show statement_timeout"), "7s");
        assert.equal(await one(c, "show lock_timeout"), "6s");
        assert.equal(await one(c, "show application_name"), "checks");
        assert.equal(await one(c, "show work_mem"), "5MB");
      },
      { statement_timeout: 7000, lock_timeout: 6000, application_name: "checks", options: "-c work_mem=5MB" },
    ),

  "simple statements and several in one": () =>
    withClient(async (c) => {
      const results = await c.query("select 1 as a; select 2 as b, 3 as c; show server_encoding");
      assert.deepEqual(results.map((r) => r.rows), [[{ a: 1 }], [{ b: 2, c: 3 }], [{ server_encoding: "UTF8" }]]);
      assert.deepEqual(results.map((r) => r.command), ["SELECT", "SELECT", "SHOW"]);
    }),

  "empty statement": () =>
    withClient(async (c) => {
      assert.deepEqual((await c.query("")).rows, []);
      assert.deepEqual((await c.query("-- nothing")).rows, []);
    }),

  "columns and types of a result": () =>
    withClient(async (c) => {
      const r = await c.query({ text: "select 1::int4 as i, 'x'::text as t, null::jsonb as j", rowMode: "array" });
      assert.deepEqual(r.fields.map((f) => [f.name, f.dataTypeID]), [["i", 23], ["t", 25], ["j", 3802]]);
      assert.deepEqual(r.rows, [[1, "x", null]]);
    }),

  "types both ways": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_types");
      await c.query(`create table node_types (id int primary key, i2 int2, i4 int4, i8 int8, n numeric(20,5), f8 float8, b bool,
        t text, v varchar(20), by bytea, j json, jb jsonb, u uuid, d date, ts timestamp, tz timestamptz, ia int[], ta text[], iv interval)`);
      const values = [1, -7, 2147483647, "9007199254740993", "12345678901.12345", 0.1, true, "ünïcødé ' \" \\", "v", Buffer.from([0, 1, 255]),
        { a: [1, null] }, { b: "é" }, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "2024-02-29", "2024-02-29 12:34:56.789",
        "2024-02-29T12:34:56.789Z", [1, 2, null], ["a,b", 'c"d', "", null], "1 day 02:03:04"];
      await c.query(`insert into node_types values (${values.map((_, i) => `$${i + 1}`).join(", ")})`, values);
      const row = (await c.query("select * from node_types where id = $1", [1])).rows[0];
      assert.equal(row.i8, "9007199254740993");
      assert.equal(row.n, "12345678901.12345");
      assert.equal(row.f8, 0.1);
      assert.equal(row.t, "ünïcødé ' \" \\");
      assert.deepEqual(row.by, Buffer.from([0, 1, 255]));
      assert.deepEqual(row.j, { a: [1, null] });
      assert.deepEqual(row.jb, { b: "é" });
      assert.equal(row.u, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
      assert.equal(row.tz.toISOString(), "2024-02-29T12:34:56.789Z");
      assert.deepEqual(row.ia, [1, 2, null]);
      assert.deepEqual(row.ta, ["a,b", 'c"d', "", null]);
      assert.deepEqual({ ...row.iv }, { days: 1, hours: 2, minutes: 3, seconds: 4 });
    }),

  "binary results": () =>
    withClient(async (c) => {
      const r = await c.query({ text: "select 5::int4 as a, 'x'::text as b, true as c", binary: true, values: [] });
      assert.deepEqual(r.rows, [{ a: 5, b: "x", c: true }]);
    }),

  "nulls": () =>
    withClient(async (c) => {
      const r = await c.query("select $1::int as a, $2::text as b, $3::jsonb as c", [null, undefined, null]);
      assert.deepEqual(r.rows, [{ a: null, b: null, c: null }]);
    }),

  "enum and domain": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_moods; drop type if exists node_mood; drop domain if exists node_positive");
      await c.query("create type node_mood as enum ('sad', 'ok', 'happy')");
      await c.query("create domain node_positive as int check (value > 0)");
      await c.query("create table node_moods (id int primary key, m node_mood, ms node_mood[], p node_positive)");
      await c.query("insert into node_moods values ($1, $2, $3, $4)", [1, "happy", ["sad", "ok"], 3]);
      const r = await c.query("select m, ms::text[], p from node_moods where m > $1", ["sad"]);
      assert.deepEqual(r.rows, [{ m: "happy", ms: ["sad", "ok"], p: 3 }]);
      await refused("22P02", () => c.query("insert into node_moods values (2, $1)", ["angry"]));
      await refused("23514", () => c.query("insert into node_moods values (2, 'ok', null, $1)", [-1]));
    }),

  "large values": () =>
    withClient(async (c) => {
      const text = "x".repeat(3_000_000);
      assert.equal((await one(c, "select $1::text", [text])).length, text.length);
      assert.equal(await one(c, `select length('${text}')`), text.length);
    }),

  "many parameters": () =>
    withClient(async (c) => {
      const values = Array.from({ length: 5000 }, (_, i) => i);
      const sum = await one(c, `select sum(v)::int from (values ${values.map((_, i) => `($${i + 1}::int)`).join(",")}) x(v)`, values);
      assert.equal(sum, 12497500);
    }),

  "many rows": () =>
    withClient(async (c) => {
      const r = await c.query("select i, repeat('x', 50) as t from generate_series(1, $1) i", [50_000]);
      assert.equal(r.rowCount, 50_000);
      assert.equal(r.rows[49_999].i, 50_000);
    }),

  "prepared statement, reused": () =>
    withClient(async (c) => {
      for (let i = 0; i < 20; i += 1) {
        const r = await c.query({ name: "add", text: "select $1::int + $2::int as sum", values: [i, 1] });
        assert.deepEqual(r.rows, [{ sum: i + 1 }]);
      }
    }),

  "same name, other statement, in two clients": () =>
    withPool(5, async (pool) => {
      const clients = await Promise.all(Array.from({ length: 5 }, () => pool.connect()));
      for (let round = 0; round < 10; round += 1) {
        const got = await Promise.all(clients.map((c, i) => one(c, { name: "mine", text: `select ${i} + $1::int`, values: [round] })));
        assert.deepEqual(got, [0, 1, 2, 3, 4].map((i) => i + round));
      }
      clients.forEach((c) => c.release());
    }),

  "prepared statement after a schema change": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_changing; create table node_changing (id int primary key, a int)");
      await c.query("insert into node_changing values (1, 2)");
      const star = { name: "star", text: "select * from node_changing where id = $1", values: [1] };
      assert.deepEqual((await c.query(star)).rows, [{ id: 1, a: 2 }]);
      await c.query("alter table node_changing add column b text default 'new'");
      const error = await refused("0A000", () => c.query(star));
      assert.match(error.message, /cached plan must not change result type/);
      await c.query("deallocate star");
      delete c.connection.parsedStatements.star;
      assert.deepEqual((await c.query(star)).rows, [{ id: 1, a: 2, b: "new" }]);
      const named = { name: "named", text: "select a from node_changing where id = $1", values: [1] };
      assert.deepEqual((await c.query(named)).rows, [{ a: 2 }]);
      await c.query("alter table node_changing drop column b");
      assert.deepEqual((await c.query(named)).rows, [{ a: 2 }]);
    }),

  "transaction commits and rolls back": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_tx; create table node_tx (id int primary key)");
      await c.query("begin");
      await c.query("insert into node_tx values ($1)", [1]);
      await c.query("commit");
      await c.query("begin");
      await c.query("insert into node_tx values (2)");
      await c.query("rollback");
      assert.deepEqual((await c.query("select id from node_tx")).rows, [{ id: 1 }]);
    }),

  "savepoints": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_sp; create table node_sp (id int primary key)");
      await c.query("begin");
      await c.query("insert into node_sp values (1)");
      await c.query("savepoint a");
      await refused("23505", () => c.query("insert into node_sp values (1)"));
      await refused("25P02", () => c.query("select 1"));
      await c.query("rollback to savepoint a");
      await c.query("insert into node_sp values (2)");
      await c.query("release savepoint a");
      await c.query("commit");
      assert.deepEqual((await c.query("select id from node_sp order by id")).rows, [{ id: 1 }, { id: 2 }]);
    }),

  "commit of a failed transaction rolls back": () =>
    withClient(async (c) => {
      await c.query("begin");
      await refused("42P01", () => c.query("select * from node_missing"));
      assert.equal((await c.query("commit")).command, "ROLLBACK");
      assert.equal(await one(c, "select 1"), 1);
    }),

  "isolation levels": () =>
    withClient(async (c) => {
      await c.query("begin isolation level serializable read only deferrable");
      assert.equal(await one(c, "show transaction_isolation"), "serializable");
      await refused("25006", () => c.query("create table node_never (id int)"));
      await c.query("rollback");
      assert.equal(await one(c, "show transaction_isolation"), "read committed");
    }),

  "fields of an error": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_errors; create table node_errors (id int primary key, n int not null check (n > 0))");
      await c.query("insert into node_errors values (1, 1)");
      const unique = await refused("23505", () => c.query("insert into node_errors values ($1, 1)", [1]));
      assert.deepEqual([unique.table, unique.constraint, unique.schema, unique.detail, unique.severity],
        ["node_errors", "node_errors_pkey", "public", "Key (id)=(1) already exists.", "ERROR"]);
      const missing = await refused("23502", () => c.query("insert into node_errors values (2)"));
      assert.equal(missing.column, "n");
      await refused("23514", () => c.query("insert into node_errors values (2, -1)"));
      await refused("22P02", () => c.query("select $1::int", ["abc"]));
      await refused("22012", () => c.query("select 1/0"));
      const syntax = await refused("42601", () => c.query("selct 1"));
      assert.equal(syntax.position, "1");
      const column = await refused("42703", () => c.query("select id, nothing from node_errors"));
      assert.equal(column.position, "12");
      await refused("42P02", () => c.query("select $1"));
    }),

  "notices": () =>
    withClient(async (c) => {
      const seen = [];
      c.on("notice", (n) => seen.push([n.severity, n.message]));
      await c.query("drop table if exists node_not_there");
      await c.query("commit");
      assert.deepEqual(seen, [["NOTICE", 'table "node_not_there" does not exist, skipping'], ["WARNING", "there is no transaction in progress"]]);
    }),

  "notices of a DO block": () =>
    withClient(async (c) => {
      const seen = [];
      c.on("notice", (n) => seen.push([n.severity, n.message]));
      await c.query("do $$ begin raise notice 'hello %', 1; raise warning 'careful'; end $$");
      assert.deepEqual(seen, [["NOTICE", "hello 1"], ["WARNING", "careful"]]);
    }),

  "session settings stay": () =>
    withClient(async (c) => {
      await c.query("set search_path to pg_catalog, public");
      await c.query("select set_config('app.user', $1, false)", ["7"]);
      await c.query("begin; set local work_mem = '9MB'; commit");
      await Promise.all(Array.from({ length: 5 }, () => withClient((other) => other.query("select 1"))));
      assert.equal(await one(c, "show search_path"), "pg_catalog, public");
      assert.equal(await one(c, "select current_setting('app.user')"), "7");
      assert.equal(await one(c, "show work_mem"), await withClient((o) => one(o, "show work_mem")));
      await c.query("reset all");
      assert.equal(await one(c, "show search_path"), '"$user", public');
    }),

  "temporary tables": () =>
    withClient(async (c) => {
      await c.query("create temp table node_temp (id int, t text)");
      await c.query("insert into node_temp select i, 'row ' || i from generate_series(1, 10) i");
      assert.equal(await one(c, "select count(*)::int from node_temp"), 10);
      await withClient((other) => refused("42P01", () => other.query("select * from node_temp")));
    }),

  "listen and notify": () =>
    withClient(async (listener) => {
      const heard = [];
      listener.on("notification", (n) => heard.push([n.channel, n.payload]));
      await listener.query("listen node_channel");
      await listener.query('listen "Mixed Case"');
      await withClient(async (sender) => {
        await sender.query("notify node_channel, 'one'");
        await sender.query("select pg_notify($1, $2)", ["Mixed Case", "two"]);
        await sender.query("begin; notify node_channel, 'never'; rollback");
        await sender.query("select pg_notify('node_channel', 'three')");
      });
      await eventually(() => heard.length >= 3, "three notifications");
      assert.deepEqual(heard, [["node_channel", "one"], ["Mixed Case", "two"], ["node_channel", "three"]]);
      await listener.query("unlisten node_channel");
      await withClient((sender) => sender.query("notify node_channel, 'four'"));
      await listener.query("select 1");
      assert.equal(heard.length, 3);
    }),

  "cancel by another client": () =>
    withClient(async (c) => {
      const running = refused("57014", () => c.query("select pg_sleep(20)"));
      await new Promise((resolve) => setTimeout(resolve, 300));
      const canceller = new pg.Client();
      canceller.on("error", () => {});
      canceller.connection.on("error", () => {});
      canceller.cancel(c, c.activeQuery ?? c._getActiveQuery());
      await running;
      assert.equal(await one(c, "select 1"), 1);
    }),

  "statement time-out": () =>
    withClient(async (c) => {
      await c.query("set statement_timeout = 200");
      await refused("57014", () => c.query("select pg_sleep(5)"));
      await c.query("reset statement_timeout");
      assert.equal(await one(c, "select 1"), 1);
    }),

  "client's own time-out of a query": async () => {
    const client = new pg.Client({ query_timeout: 200 });
    client.on("error", () => {});
    await client.connect();
    await assert.rejects(client.query("select pg_sleep(1)"), /Query read timeout/);
    await client.end();
  },

  "many clients at once": () =>
    withPool(60, async (pool) => {
      const sums = await Promise.all(Array.from({ length: 600 }, (_, i) => pool.query("select $1::int * 2 as d", [i])));
      sums.forEach((r, i) => assert.equal(r.rows[0].d, i * 2));
    }),

  "queued statements of one client keep their order": () =>
    withClient(async (c) => {
      const all = await Promise.allSettled([c.query("select 1 as n"), c.query("select 1/0"), c.query("select $1::int as n", [3]), c.query("select 4 as n")]);
      assert.deepEqual(all.map((r) => r.value?.rows[0].n ?? r.reason.code), [1, "22012", 3, 4]);
    }),

  "session advisory lock": () =>
    withClient(async (a) => {
      await a.query("select pg_advisory_lock(424242)");
      await withClient(async (b) => {
        assert.equal(await one(b, "select pg_try_advisory_lock(424242)"), false);
        assert.equal(await one(a, "select pg_advisory_unlock(424242)"), true);
        assert.equal(await one(b, "select pg_try_advisory_lock(424242)"), true);
        assert.equal(await one(b, "select pg_advisory_unlock(424242)"), true);
      });
    }),

  "discard all": () =>
    withClient(async (c) => {
      await c.query({ name: "kept", text: "select 1 as n", values: [] });
      await c.query("set work_mem = '9MB'");
      await c.query("discard all");
      assert.notEqual(await one(c, "show work_mem"), "9MB");
      delete c.connection.parsedStatements.kept;
      assert.equal(await one(c, { name: "kept", text: "select 2 as n", values: [] }), 2);
    }),

  "pg_prepared_statements": () =>
    withClient(async (c) => {
      await c.query("prepare node_listed as select 1");
      assert.equal(await one(c, "select count(*)::int from pg_prepared_statements where name = 'node_listed'"), 1);
    }),

  "prepare and execute in SQL": () =>
    withClient(async (c) => {
      await c.query("prepare node_p (int, text) as select $1 + 1 as n, $2 as t");
      assert.deepEqual((await c.query("execute node_p(1, 'x')")).rows, [{ n: 2, t: "x" }]);
      await c.query("deallocate node_p");
      await refused("26000", () => c.query("execute node_p(1, 'x')"));
    }),
};
