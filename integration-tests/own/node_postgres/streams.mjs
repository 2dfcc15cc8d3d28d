// Cursors, streams and COPY.

import assert from "node:assert/strict";
import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import { refused } from "./checks.mjs";
import { withClient } from "./connect.mjs";

const NUMBERS = "select i as n from generate_series(1, $1) i";

async function text(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

async function fill(c) {
  await c.query("drop table if exists node_events; create table node_events (tenant_id bigint, id int, t text, primary key (tenant_id, id))");
  await c.query("insert into node_events select i % 10, i, 'event ' || i from generate_series(1, 1000) i");
}

export const streams = {
  "cursor in a transaction": () =>
    withClient(async (c) => {
      await c.query("begin");
      const cursor = c.query(new Cursor(NUMBERS, [250]));
      const sizes = [];
      for (let rows = await cursor.read(100); rows.length; rows = await cursor.read(100)) sizes.push(rows.length);
      await cursor.close();
      await c.query("commit");
      assert.deepEqual(sizes, [100, 100, 50]);
    }),

  "cursor outside a transaction, closed early": () =>
    withClient(async (c) => {
      const cursor = c.query(new Cursor(NUMBERS, [1000]));
      assert.equal((await cursor.read(10)).length, 10);
      await cursor.close();
      assert.deepEqual((await c.query("select 1 as n")).rows, [{ n: 1 }]);
    }),

  "cursor that fails": () =>
    withClient(async (c) => {
      const cursor = c.query(new Cursor("select 1 / (5 - i) as n from generate_series(1, 10) i", []));
      await refused("22012", () => cursor.read(100));
      assert.deepEqual((await c.query("select 1 as n")).rows, [{ n: 1 }]);
    }),

  "cursor over a table": () =>
    withClient(async (c) => {
      await fill(c);
      await c.query("begin");
      const cursor = c.query(new Cursor("select id from node_events where id > $1 order by id", [10]));
      const ids = [];
      for (let rows = await cursor.read(77); rows.length; rows = await cursor.read(77)) ids.push(...rows.map((r) => r.id));
      await c.query("commit");
      assert.deepEqual(ids, Array.from({ length: 990 }, (_, i) => i + 11));
    }),

  "query stream": () =>
    withClient(async (c) => {
      const stream = c.query(new QueryStream(NUMBERS, [2000], { batchSize: 37 }));
      let sum = 0;
      for await (const row of stream) sum += row.n;
      assert.equal(sum, 2001000);
    }),

  "query stream, left early": () =>
    withClient(async (c) => {
      const stream = c.query(new QueryStream(NUMBERS, [100000], { batchSize: 10 }));
      for await (const row of stream) if (row.n === 25) break;
      assert.deepEqual((await c.query("select 1 as n")).rows, [{ n: 1 }]);
    }),

  "declare and fetch": () =>
    withClient(async (c) => {
      await fill(c);
      await c.query("begin; declare node_cursor cursor for select id from node_events where tenant_id = 3 order by id");
      assert.deepEqual((await c.query("fetch 2 from node_cursor")).rows, [{ id: 3 }, { id: 13 }]);
      assert.deepEqual((await c.query("fetch next from node_cursor")).rows, [{ id: 23 }]);
      await c.query("close node_cursor; commit");
    }),

  "copy out": () =>
    withClient(async (c) => {
      await fill(c);
      const tenant = await text(c.query(copyTo("copy (select id, t from node_events where tenant_id = 1 order by id limit 2) to stdout")));
      assert.equal(tenant, "1\tevent 1\n11\tevent 11\n");
      const all = await text(c.query(copyTo("copy node_events to stdout with (format csv, header)")));
      const lines = all.trimEnd().split("\n");
      assert.equal(lines[0], "tenant_id,id,t");
      assert.equal(lines.length, 1001);
    }),

  "copy out of an ordered query": () =>
    withClient(async (c) => {
      await fill(c);
      const out = await text(c.query(copyTo("copy (select id, t from node_events where id < 4 order by id) to stdout")));
      assert.equal(out, "1\tevent 1\n2\tevent 2\n3\tevent 3\n");
    }),

  "copy in": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_copied; create table node_copied (tenant_id bigint, id int, t text)");
      const rows = Array.from({ length: 20_000 }, (_, i) => `${i % 7}\t${i}\trow ${i}\n`);
      const stream = c.query(copyFrom("copy node_copied from stdin"));
      await pipeline(Readable.from(rows), stream);
      assert.equal(stream.rowCount, 20_000);
      const sum = await c.query("select count(*)::int as n, sum(id)::int as s, count(distinct tenant_id)::int as t from node_copied");
      assert.deepEqual(sum.rows, [{ n: 20_000, s: 199990000, t: 7 }]);
    }),

  "copy in that fails": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_copied; create table node_copied (tenant_id bigint, id int, t text)");
      const stream = c.query(copyFrom("copy node_copied from stdin"));
      const error = await refused("22P02", () => pipeline(Readable.from(["1\t1\ta\n", "2\tx\tb\n"]), stream));
      assert.match(error.where, /COPY node_copied, line 2, column id: "x"/);
      assert.deepEqual((await c.query("select count(*)::int as n from node_copied")).rows, [{ n: 0 }]);
    }),

  "copy in that the client gives up": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_copied; create table node_copied (tenant_id bigint, id int, t text)");
      const stream = c.query(copyFrom("copy node_copied from stdin"));
      const broken = Readable.from((function* () { yield "1\t1\ta\n"; throw new Error("source is gone"); })());
      await assert.rejects(pipeline(broken, stream), /source is gone/);
      assert.deepEqual((await c.query("select count(*)::int as n from node_copied")).rows, [{ n: 0 }]);
    }),

  "copy in a transaction": () =>
    withClient(async (c) => {
      await c.query("drop table if exists node_copied; create table node_copied (tenant_id bigint, id int, t text)");
      await c.query("begin");
      await pipeline(Readable.from(["1,1,a\n", "2,2,b\n"]), c.query(copyFrom("copy node_copied from stdin with (format csv)")));
      await c.query("rollback");
      assert.deepEqual((await c.query("select count(*)::int as n from node_copied")).rows, [{ n: 0 }]);
    }),
};
