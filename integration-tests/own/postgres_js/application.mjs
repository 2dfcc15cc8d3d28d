// A small application: tenants with orders, countries that all share.

import assert from "node:assert/strict";
import { refused } from "./checks.mjs";
import { withSql } from "./connect.mjs";

const plain = (rows) => rows.map((row) => ({ ...row }));

const SCHEMA = `
  drop table if exists pjs_orders, pjs_tenants, pjs_countries;
  create table pjs_countries (code text primary key, name text not null);
  create table pjs_tenants (tenant_id int8 primary key, name text not null, country text references pjs_countries);
  create table pjs_orders (tenant_id int8 references pjs_tenants, order_id bigserial, total numeric(12, 2) not null, note text,
    primary key (tenant_id, order_id))`;

export const application = {
  "application schema and rows": () =>
    withSql(async (sql) => {
      await sql.unsafe(SCHEMA);
      await sql`insert into pjs_countries ${sql([{ code: "ch", name: "Switzerland" }, { code: "se", name: "Sweden" }])}`;
      const tenants = Array.from({ length: 20 }, (_, i) => ({ tenant_id: i + 1, name: `tenant ${i + 1}`, country: i % 2 ? "ch" : "se" }));
      await sql`insert into pjs_tenants ${sql(tenants)}`;
      const orders = tenants.flatMap((t) => [10, 20, 30].map((total) => ({ tenant_id: t.tenant_id, total })));
      const made = await sql`insert into pjs_orders ${sql(orders)} returning tenant_id, order_id, total`;
      assert.deepEqual(made.map((r) => [r.tenant_id, r.total]), orders.map((o) => [`${o.tenant_id}`, `${o.total}.00`]));
      assert.equal(new Set(made.map((r) => r.order_id)).size, 60);
    }),

  "update from a list of values": () =>
    withSql(async (sql) => {
      const r = await sql`update pjs_tenants set name = v.name from (values ${sql([[1, "one"], [2, "two"]])}) as v (id, name)
        where tenant_id = v.id::int8 returning tenant_id, pjs_tenants.name`;
      assert.deepEqual(plain(r).sort((a, b) => a.tenant_id - b.tenant_id), [{ tenant_id: "1", name: "one" }, { tenant_id: "2", name: "two" }]);
    }),

  "dynamic columns and lists": () =>
    withSql(async (sql) => {
      const r = await sql`select ${sql(["tenant_id", "name"])} from ${sql("pjs_tenants")} where tenant_id in ${sql([3, 4, 15])} order by tenant_id`;
      assert.deepEqual(plain(r), [3, 4, 15].map((i) => ({ tenant_id: `${i}`, name: `tenant ${i}` })));
      await sql`update pjs_tenants set ${sql({ name: "three", country: "ch" })} where tenant_id = ${3}`;
      assert.equal((await sql`select country from pjs_tenants where tenant_id = ${3}`)[0].country, "ch");
      await sql`update pjs_tenants set country = 'se' where tenant_id = 3`;
    }),

  "any of an array": () =>
    withSql(async (sql) => {
      const r = await sql`select count(*)::int as n from pjs_orders where tenant_id = any(${[1, 2, 3]}::int8[])`;
      assert.equal(r[0].n, 9);
    }),

  "joins and aggregates": () =>
    withSql(async (sql) => {
      const r = await sql`select c.name, count(*)::int as n, sum(o.total) as s from pjs_tenants t join pjs_countries c on c.code = t.country
        join pjs_orders o using (tenant_id) group by 1 order by 1`;
      assert.deepEqual(plain(r), [{ name: "Sweden", n: 30, s: "600.00" }, { name: "Switzerland", n: 30, s: "600.00" }]);
    }),

  "pagination": () =>
    withSql(async (sql) => {
      const ids = [];
      for (let offset = 0; offset < 20; offset += 6) ids.push(...(await sql`select tenant_id from pjs_tenants order by tenant_id limit ${6} offset ${offset}`));
      assert.deepEqual(ids.map((r) => Number(r.tenant_id)), Array.from({ length: 20 }, (_, i) => i + 1));
    }),

  "transaction over tenants": () =>
    withSql(async (sql) => {
      await sql.begin((tx) => [1, 2, 3, 4].map((t) => tx`update pjs_orders set note = ${"seen"} where tenant_id = ${t}`));
      assert.equal((await sql`select count(*)::int as n from pjs_orders where note = 'seen'`)[0].n, 12);
      await refused("23503", () => sql.begin(async (tx) => {
        await tx`update pjs_orders set note = null where tenant_id in (1, 2, 3)`;
        await tx`insert into pjs_orders (tenant_id, total) values (${99}, 1)`;
      }));
      assert.equal((await sql`select count(*)::int as n from pjs_orders where note = 'seen'`)[0].n, 12);
    }),

  "upsert of many": () =>
    withSql(async (sql) => {
      const rows = [19, 20, 21, 22].map((i) => ({ tenant_id: i, name: `new ${i}`, country: "se" }));
      const r = await sql`insert into pjs_tenants ${sql(rows)} on conflict (tenant_id) do update set name = excluded.name returning tenant_id::int as t, name`;
      assert.deepEqual(plain(r), rows.map((row) => ({ t: row.tenant_id, name: row.name })));
      assert.equal((await sql`delete from pjs_tenants where tenant_id > ${20}`).count, 2);
    }),

  "tenants at once": () =>
    withSql(
      async (sql) => {
        const sums = await Promise.all(Array.from({ length: 60 }, (_, i) => sql.begin(async (tx) => {
          await tx`update pjs_orders set total = total where tenant_id = ${(i % 20) + 1}`;
          return (await tx`select sum(total) as s from pjs_orders where tenant_id = ${(i % 20) + 1}`)[0].s;
        })));
        assert.ok(sums.every((s) => s === "60.00"), sums.join());
      },
      { max: 10 },
    ),
};
