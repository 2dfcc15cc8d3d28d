// Cursors, row by row, and COPY.

import assert from "node:assert/strict";
import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import { withSql } from "./connect.mjs";

async function fill(sql) {
  await sql.unsafe("drop table if exists pjs_events; create table pjs_events (tenant_id bigint, id int, t text, primary key (tenant_id, id))");
  await sql`insert into pjs_events select i % 10, i, 'event ' || i from generate_series(1, ${1000}) i`;
}

async function text(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

export const streams = {
  "cursor as an iterator": () =>
    withSql(async (sql) => {
      await fill(sql);
      const sizes = [];
      for await (const rows of sql`select id from pjs_events order by id`.cursor(300)) sizes.push(rows.length);
      assert.deepEqual(sizes, [300, 300, 300, 100]);
    }),

  "cursor with parameters, left early": () =>
    withSql(async (sql) => {
      await fill(sql);
      const ids = [];
      for await (const [row] of sql`select id from pjs_events where tenant_id = ${4} order by id`.cursor(1)) {
        ids.push(row.id);
        if (ids.length === 3) break;
      }
      assert.deepEqual(ids, [4, 14, 24]);
      assert.equal((await sql`select 1 as n`)[0].n, 1);
    }),

  "cursor with a function": () =>
    withSql(async (sql) => {
      let sum = 0;
      await sql`select i as n from generate_series(1, ${100}) i`.cursor(7, (rows) => { sum += rows.reduce((s, r) => s + r.n, 0); });
      assert.equal(sum, 5050);
      let seen = 0;
      await sql`select i as n from generate_series(1, 100) i`.cursor(10, () => { seen += 1; return seen === 2 ? sql.CLOSE : undefined; });
      assert.equal(seen, 2);
    }),

  "cursor in a transaction": () =>
    withSql(async (sql) => {
      await fill(sql);
      await sql.begin(async (tx) => {
        let n = 0;
        for await (const rows of tx`select id from pjs_events`.cursor(128)) n += rows.length;
        assert.equal(n, 1000);
        await tx`delete from pjs_events where tenant_id = ${1}`;
      });
      assert.equal((await sql`select count(*)::int as n from pjs_events`)[0].n, 900);
    }),

  "row by row": () =>
    withSql(async (sql) => {
      let sum = 0;
      await sql`select i as n from generate_series(1, ${1000}) i`.forEach((row) => { sum += row.n; });
      assert.equal(sum, 500500);
    }),

  "raw and values": () =>
    withSql(async (sql) => {
      assert.deepEqual([...(await sql`select 1 as a, 'x' as b`.values())].map((r) => [...r]), [[1, "x"]]);
      const [raw] = await sql`select 1::int as a`.raw();
      assert.equal(raw[0].toString(), "1");
    }),

  "copy out": () =>
    withSql(async (sql) => {
      await fill(sql);
      const stream = await sql`copy (select id, t from pjs_events where tenant_id = 1 order by id limit 2) to stdout`.readable();
      assert.equal(await text(stream), "1\tevent 1\n11\tevent 11\n");
      const all = await text(await sql`copy pjs_events to stdout with (format csv)`.readable());
      assert.equal(all.trimEnd().split("\n").length, 1000);
    }),

  "copy in": () =>
    withSql(async (sql) => {
      await sql.unsafe("drop table if exists pjs_copied; create table pjs_copied (tenant_id bigint, id int, t text)");
      const stream = await sql`copy pjs_copied from stdin`.writable();
      await pipeline(Readable.from(Array.from({ length: 5000 }, (_, i) => `${i % 7}\t${i}\trow ${i}\n`)), stream);
      assert.deepEqual({ ...(await sql`select count(*)::int as n, sum(id)::int as s from pjs_copied`)[0] }, { n: 5000, s: 12497500 });
    }),
};
