// Connecting, statements, types, prepared statements, transactions, errors, notifications, cancel.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { environment, eventually, refused } from "./checks.mjs";
import { withSql } from "./connect.mjs";

const plain = (rows) => rows.map((row) => ({ ...row }));

export const basics = {
  "connect without TLS": () =>
    withSql(async (sql) => assert.deepEqual(plain(await sql`select current_database() as d`), [{ d: environment.PGDATABASE }])),

  "connect with TLS and a verified certificate": () =>
    withSql(async (sql) => assert.equal((await sql`select ${41}::int + 1 as n`)[0].n, 42), {
      ssl: { ca: readFileSync(environment.SHARDWAY_CA), rejectUnauthorized: true },
    }),

  "start-up parameters": () =>
    withSql(
      async (sql) => {
        const [row] = await sql`select current_setting('application_name') as a, current_setting('work_mem') as w, current_setting('app.tenant') as t`;
        assert.deepEqual({ ...row }, { a: "checks", w: "5MB", t: "9" });
      },
      { connection: { application_name: "checks", work_mem: "5MB", "app.tenant": "9" } },
    ),

  "reported parameters": () =>
    withSql(async (sql) => {
      await sql`select 1`;
      assert.equal(sql.parameters.server_encoding, "UTF8");
      assert.match(sql.parameters.server_version, /^\d+/);
      await sql`set time zone 'Asia/Tokyo'`;
      await sql`select 1`;
      assert.equal(sql.parameters.TimeZone, "Asia/Tokyo");
    }),

  "simple statements and several in one": () =>
    withSql(async (sql) => {
      const results = await sql`select 1 as a; select 2 as b, 3 as c`.simple();
      assert.deepEqual(results.map(plain), [[{ a: 1 }], [{ b: 2, c: 3 }]]);
    }),

  "columns of a result": () =>
    withSql(async (sql) => {
      const r = await sql`select 1::int4 as i, 'x'::text as t, null::jsonb as j`;
      assert.deepEqual(r.columns.map((c) => [c.name, c.type]), [["i", 23], ["t", 25], ["j", 3802]]);
      assert.equal(r.command, "SELECT");
      assert.equal(r.count, 1);
    }),

  "describe without running": () =>
    withSql(async (sql) => {
      const d = await sql`select ${1}::int8 as a, ${"x"}::text as b`.describe();
      assert.deepEqual(d.types, [20, 25]);
      assert.deepEqual(d.columns.map((c) => c.name), ["a", "b"]);
      assert.equal((await sql`select 1 as n`)[0].n, 1);
    }),

  "types both ways": () =>
    withSql(async (sql) => {
      await sql.unsafe(`drop table if exists pjs_types; create table pjs_types (id int primary key, i2 int2, i8 int8, n numeric(20,5),
        f8 float8, b bool, t text, by bytea, j json, jb jsonb, u uuid, d date, tz timestamptz, ia int[], ta text[], jba jsonb[])`);
      const row = {
        id: 1, i2: -7, i8: "9007199254740993", n: "12345678901.12345", f8: 0.1, b: true, t: "ünïcødé ' \" \\", by: Buffer.from([0, 1, 255]),
        j: { a: [1, null] }, jb: { b: "é" }, u: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", d: new Date("2024-02-29"),
        tz: new Date("2024-02-29T12:34:56.789Z"), ia: [1, 2, 3], ta: ["a,b", 'c"d', ""],
      };
      await sql`insert into pjs_types ${sql(row)}`;
      const [back] = await sql`select * from pjs_types where id = ${1}`;
      for (const name of Object.keys(row).filter((n) => n !== "d")) assert.deepEqual(back[name], row[name], name);
      assert.equal(back.jba, null);
    }),

  "nulls": () =>
    withSql(async (sql) => {
      const [row] = await sql`select ${null}::int as a, ${null}::text as b`;
      assert.deepEqual({ ...row }, { a: null, b: null });
    }),

  "enum": () =>
    withSql(async (sql) => {
      await sql.unsafe("drop table if exists pjs_moods; drop type if exists pjs_mood; create type pjs_mood as enum ('sad', 'ok', 'happy')");
      await sql`create table pjs_moods (id int primary key, m pjs_mood)`;
      await sql`insert into pjs_moods values (${1}, ${"happy"})`;
      const rows = await sql`select m from pjs_moods where m = ${"happy"}`;
      assert.equal(rows[0].m, "happy");
      await refused("22P02", () => sql`insert into pjs_moods values (2, ${"angry"})`);
    }),

  "array types that are fetched at connect": () =>
    withSql(async (sql) => {
      await sql.unsafe("drop type if exists pjs_colour cascade; create type pjs_colour as enum ('red', 'green')");
      await withSql(async (fresh) => {
        await fresh`drop table if exists pjs_colours`;
        await fresh`create table pjs_colours (id int primary key, cs pjs_colour[])`;
        await fresh`insert into pjs_colours values (1, ${["red", "green"]})`;
        const [row] = await fresh`select cs from pjs_colours where id = ${1}`;
        assert.deepEqual([...row.cs], ["red", "green"]);
        await fresh`drop table pjs_colours`;
      });
    }),

  "prepared statement, reused": () =>
    withSql(async (sql) => {
      for (let i = 0; i < 20; i += 1) assert.equal((await sql`select ${i}::int + ${1}::int as sum`)[0].sum, i + 1);
    }),

  "without prepared statements": () =>
    withSql(
      async (sql) => {
        for (let i = 0; i < 5; i += 1) assert.equal((await sql`select ${i}::int + ${1}::int as sum`)[0].sum, i + 1);
        await refused("22012", () => sql`select 1 / ${0}::int`);
        assert.equal((await sql`select ${3}::int as n`)[0].n, 3);
      },
      { prepare: false },
    ),

  "prepared statement after a schema change": () =>
    withSql(async (sql) => {
      await sql.unsafe("drop table if exists pjs_changing; create table pjs_changing (id int primary key, a int); insert into pjs_changing values (1, 2)");
      const read = () => sql`select * from pjs_changing where id = ${1}`;
      assert.deepEqual(plain(await read()), [{ id: 1, a: 2 }]);
      await sql.unsafe("alter table pjs_changing add column b text default 'new'");
      assert.deepEqual(plain(await read()), [{ id: 1, a: 2, b: "new" }]);
      const named = () => sql`select a from pjs_changing where id = ${1}`;
      assert.deepEqual(plain(await named()), [{ a: 2 }]);
      await sql.unsafe("alter table pjs_changing drop column b");
      assert.deepEqual(plain(await named()), [{ a: 2 }]);
    }),

  "pipeline of one connection": () =>
    withSql(async (sql) => {
      const all = await Promise.allSettled(Array.from({ length: 50 }, (_, i) => (i % 10 === 5 ? sql`select 1 / ${0}::int as n` : sql`select ${i}::int as n`)));
      all.forEach((r, i) => assert.equal(r.value?.[0].n ?? r.reason.code, i % 10 === 5 ? "22012" : i));
    }),

  "transaction commits and rolls back": () =>
    withSql(async (sql) => {
      await sql.unsafe("drop table if exists pjs_tx; create table pjs_tx (id int primary key)");
      await sql.begin(async (tx) => { await tx`insert into pjs_tx values (${1})`; });
      await assert.rejects(sql.begin(async (tx) => { await tx`insert into pjs_tx values (${2})`; throw new Error("no"); }), /^Error: no$/);
      assert.deepEqual(plain(await sql`select id from pjs_tx`), [{ id: 1 }]);
    }),

  "pipelined transaction": () =>
    withSql(async (sql) => {
      await sql.unsafe("drop table if exists pjs_tx; create table pjs_tx (id int primary key)");
      await sql.begin((tx) => Array.from({ length: 20 }, (_, i) => tx`insert into pjs_tx values (${i})`));
      assert.equal((await sql`select count(*)::int as n from pjs_tx`)[0].n, 20);
      await refused("23505", () => sql.begin((tx) => [tx`insert into pjs_tx values (${100})`, tx`insert into pjs_tx values (${1})`]));
      assert.equal((await sql`select count(*)::int as n from pjs_tx`)[0].n, 20);
    }),

  "savepoints": () =>
    withSql(async (sql) => {
      await sql.unsafe("drop table if exists pjs_tx; create table pjs_tx (id int primary key)");
      await sql.begin(async (tx) => {
        await tx`insert into pjs_tx values (1)`;
        await refused("23505", () => tx.savepoint(async (sp) => { await sp`insert into pjs_tx values (2)`; await sp`insert into pjs_tx values (1)`; }));
        await tx.savepoint(async (sp) => { await sp`insert into pjs_tx values (3)`; });
      });
      assert.deepEqual(plain(await sql`select id from pjs_tx order by id`), [{ id: 1 }, { id: 3 }]);
    }),

  "transaction with characteristics": () =>
    withSql(async (sql) => {
      await sql.begin("isolation level repeatable read read only", async (tx) => {
        assert.equal((await tx`show transaction_isolation`)[0].transaction_isolation, "repeatable read");
        await refused("25006", () => tx.savepoint((sp) => sp`create table pjs_never (id int)`));
      });
    }),

  "reserved connection": () =>
    withSql(
      async (sql) => {
        const held = await sql.reserve();
        await held`set application_name = 'held'`;
        await Promise.all(Array.from({ length: 10 }, () => sql`select 1`));
        assert.equal((await held`show application_name`)[0].application_name, "held");
        held.release();
      },
      { max: 3 },
    ),

  "fields of an error": () =>
    withSql(async (sql) => {
      await sql.unsafe("drop table if exists pjs_errors; create table pjs_errors (id int primary key, n int not null)");
      await sql`insert into pjs_errors values (${1}, 1)`;
      const unique = await refused("23505", () => sql`insert into pjs_errors values (${1}, 1)`);
      assert.deepEqual([unique.table_name, unique.constraint_name, unique.detail], ["pjs_errors", "pjs_errors_pkey", "Key (id)=(1) already exists."]);
      const missing = await refused("23502", () => sql`insert into pjs_errors values (${2})`);
      assert.equal(missing.column_name, "n");
      const column = await refused("42703", () => sql`select id, nothing from pjs_errors where id = ${1}`);
      assert.equal(column.position, "12");
      await refused("42P01", () => sql`select * from pjs_missing`);
      await refused("22003", () => sql`select ${70000}::int2`);
    }),

  "notices": async () => {
    const seen = [];
    await withSql((sql) => sql`drop table if exists pjs_not_there`, { onnotice: (n) => seen.push(n.message) });
    assert.deepEqual(seen, ['table "pjs_not_there" does not exist, skipping']);
  },

  "listen and notify": () =>
    withSql(async (sql) => {
      const heard = [];
      const { unlisten } = await sql.listen("pjs channel", (payload) => heard.push(payload));
      await sql.notify("pjs channel", "one");
      await sql`select pg_notify(${"pjs channel"}, ${"two"})`;
      await eventually(() => heard.length >= 2, "two notifications");
      assert.deepEqual(heard, ["one", "two"]);
      await unlisten();
      await sql.notify("pjs channel", "three");
      await sql`select 1`;
      assert.equal(heard.length, 2);
    }),

  "cancel": () =>
    withSql(async (sql) => {
      await sql`select 1`;
      const query = sql`select pg_sleep(20)`;
      const running = refused("57014", () => query);
      await new Promise((resolve) => setTimeout(resolve, 300));
      query.cancel();
      await running;
      assert.equal((await sql`select 1 as n`)[0].n, 1);
    }),

  "statement time-out": () =>
    withSql(async (sql) => {
      await refused("57014", () => sql`select pg_sleep(5)`);
      assert.equal((await sql`select 1 as n`)[0].n, 1);
    }, { connection: { statement_timeout: 200 } }),

  "many connections": () =>
    withSql(
      async (sql) => {
        const all = await Promise.all(Array.from({ length: 600 }, (_, i) => sql`select ${i}::int * 2 as d`));
        all.forEach((r, i) => assert.equal(r[0].d, i * 2));
      },
      { max: 60 },
    ),

  "large values": () =>
    withSql(async (sql) => {
      const text = "x".repeat(2_000_000);
      assert.equal((await sql`select ${text}::text as t`)[0].t.length, text.length);
      assert.equal((await sql.unsafe(`select length('${text}') as n`))[0].n, text.length);
    }),
};
