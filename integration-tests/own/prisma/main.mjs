// Checks of Prisma with its adapter for node-postgres. Its own migration engine is not part of the npm packages: the
// tables are made by SQL.

import assert from "node:assert/strict";
import { PrismaPg } from "@prisma/adapter-pg";
import { Prisma, PrismaClient } from "@prisma/client";
import pg from "pg";
import { environment, run } from "./checks.mjs";

const SCHEMA = `
  drop table if exists prisma_orders, prisma_tenants, prisma_countries, prisma_notes;
  drop type if exists prisma_mood;
  create table prisma_countries (code text primary key, name text not null);
  create table prisma_tenants (tenant_id bigint primary key, name text not null, settings jsonb, country text references prisma_countries);
  create table prisma_orders (tenant_id bigint not null references prisma_tenants, order_id int not null, total decimal(12, 2) not null default 0,
    tags text[], placed timestamptz not null default now(), primary key (tenant_id, order_id));
  create type prisma_mood as enum ('sad', 'ok', 'happy');
  create table prisma_notes (id serial primary key, text text not null, mood prisma_mood not null default 'ok', raw bytea, uid uuid not null)`;

const url = `postgresql://${environment.PGUSER}:${environment.PGPASSWORD}@${environment.PGHOST}:${environment.PGPORT}/${environment.PGDATABASE}`;
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 10 }) });

const refused = async (code, action) => {
  const error = await action().then(() => null, (e) => e);
  assert.equal(error?.code, code, String(error));
};

await run({
  "schema": async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(SCHEMA);
    await client.end();
  },

  "create and read": async () => {
    await prisma.country.createMany({ data: [{ code: "ch", name: "Switzerland" }, { code: "se", name: "Sweden" }] });
    for (let i = 1; i <= 10; i += 1) {
      await prisma.tenant.create({ data: { tenantId: i, name: `tenant ${i}`, settings: { n: i }, country: { connect: { code: i % 2 ? "se" : "ch" } } } });
    }
    const tenant = await prisma.tenant.findUnique({ where: { tenantId: 4 }, include: { country: true } });
    assert.deepEqual([tenant.name, tenant.settings, tenant.country.name], ["tenant 4", { n: 4 }, "Switzerland"]);
  },

  "create many over tenants": async () => {
    const data = [];
    for (let t = 1; t <= 10; t += 1) for (let o = 1; o <= 5; o += 1) data.push({ tenantId: t, orderId: o, total: o * 10, tags: [`t${t}`, "a,b"] });
    assert.equal((await prisma.order.createMany({ data })).count, 50);
    const made = await prisma.order.createManyAndReturn({ data: [{ tenantId: 9, orderId: 100 }, { tenantId: 2, orderId: 100 }] });
    assert.deepEqual(made.map((m) => [m.tenantId, m.total.toString()]), [[9n, "0"], [2n, "0"]]);
    assert.equal((await prisma.order.deleteMany({ where: { orderId: 100 } })).count, 2);
    assert.equal(await prisma.order.count(), 50);
  },

  "nested create": async () => {
    const tenant = await prisma.tenant.create({ data: { tenantId: 20, name: "nested", orders: { create: [{ orderId: 1, total: 5 }, { orderId: 2, total: 6 }] } }, include: { orders: true } });
    assert.equal(tenant.orders.length, 2);
    await prisma.order.deleteMany({ where: { tenantId: 20 } });
    await prisma.tenant.delete({ where: { tenantId: 20 } });
  },

  "types both ways": async () => {
    const made = await prisma.note.create({ data: { text: "ünï'\"\\", mood: "happy", raw: Buffer.from([0, 1, 255]) } });
    const read = await prisma.note.findUniqueOrThrow({ where: { id: made.id } });
    assert.deepEqual([read.text, read.mood, [...read.raw], read.uid], ["ünï'\"\\", "happy", [0, 1, 255], made.uid]);
    assert.equal(await prisma.note.count({ where: { mood: { in: ["happy", "sad"] } } }), 1);
  },

  "find with conditions, order and page": async () => {
    const where = { tenantId: 4, total: { gt: 10 } };
    assert.equal(await prisma.order.count({ where }), 4);
    const rows = await prisma.order.findMany({ where, orderBy: { total: "desc" }, take: 2, skip: 1 });
    assert.deepEqual(rows.map((r) => r.total.toString()), ["40", "30"]);
    const all = await prisma.order.findMany({ orderBy: [{ tenantId: "asc" }, { orderId: "asc" }], take: 5, skip: 8 });
    assert.deepEqual(all.map((r) => `${r.tenantId}/${r.orderId}`), ["2/4", "2/5", "3/1", "3/2", "3/3"]);
    assert.equal((await prisma.order.findMany({ where: { tags: { has: "t7" } } })).length, 5);
  },

  "page by cursor": async () => {
    const rows = await prisma.order.findMany({ cursor: { tenantId_orderId: { tenantId: 3, orderId: 4 } }, orderBy: [{ tenantId: "asc" }, { orderId: "asc" }], take: 3 });
    assert.deepEqual(rows.map((r) => `${r.tenantId}/${r.orderId}`), ["3/4", "3/5", "4/1"]);
  },

  "relations": async () => {
    const tenants = await prisma.tenant.findMany({ where: { tenantId: { in: [1, 5, 9] } }, include: { orders: { orderBy: { orderId: "asc" } }, country: true }, orderBy: { tenantId: "asc" } });
    assert.deepEqual(tenants.map((t) => [t.country.code, t.orders.length]), [["se", 5], ["se", 5], ["se", 5]]);
    const some = await prisma.tenant.findMany({ where: { orders: { some: { total: { gte: 50 } } }, country: { name: "Sweden" } }, orderBy: { tenantId: "asc" } });
    assert.deepEqual(some.map((t) => Number(t.tenantId)), [1, 3, 5, 7, 9]);
  },

  "count of related rows": async () => {
    const counted = await prisma.country.findMany({ include: { _count: { select: { tenants: true } } }, orderBy: { code: "asc" } });
    assert.deepEqual(counted.map((c) => c._count.tenants), [5, 5]);
  },

  "aggregates": async () => {
    const all = await prisma.order.aggregate({ _sum: { total: true }, _avg: { total: true }, _max: { total: true }, _count: true });
    assert.deepEqual([Number(all._sum.total), Number(all._avg.total), Number(all._max.total), all._count], [1500, 30, 50, 50]);
    const grouped = await prisma.order.groupBy({ by: ["tenantId"], _sum: { total: true }, having: { tenantId: { lte: 3 } }, orderBy: { tenantId: "asc" } });
    assert.deepEqual(grouped.map((g) => Number(g._sum.total)), [150, 150, 150]);
  },

  "update, increment, delete": async () => {
    const key = { tenantId_orderId: { tenantId: 6, orderId: 1 } };
    assert.equal(Number((await prisma.order.update({ where: key, data: { total: { increment: 89 }, tags: { push: "x" } } })).total), 99);
    assert.equal((await prisma.order.updateMany({ where: { tenantId: { in: [6, 7] } }, data: { total: 10 } })).count, 10);
    assert.equal((await prisma.order.deleteMany({ where: { tenantId: 10, orderId: { gt: 3 } } })).count, 2);
    await refused("P2025", () => prisma.order.delete({ where: { tenantId_orderId: { tenantId: 6, orderId: 999 } } }));
  },

  "upsert": async () => {
    for (const name of ["first", "second"]) {
      const row = await prisma.tenant.upsert({ where: { tenantId: 11 }, create: { tenantId: 11, name }, update: { name } });
      assert.equal(row.name, name);
    }
    await prisma.tenant.delete({ where: { tenantId: 11 } });
  },

  "transaction of several": async () => {
    await prisma.$transaction([1, 2, 3].map((tenantId) => prisma.order.updateMany({ where: { tenantId }, data: { tags: ["seen"] } })));
    assert.equal(await prisma.order.count({ where: { tags: { has: "seen" } } }), 15);
  },

  "interactive transaction": async () => {
    await assert.rejects(prisma.$transaction(async (tx) => {
      await tx.order.deleteMany({ where: { tenantId: 1 } });
      assert.equal(await tx.order.count({ where: { tenantId: 1 } }), 0);
      throw new Error("no");
    }), /no/);
    assert.equal(await prisma.order.count({ where: { tenantId: 1 } }), 5);
  },

  "serializable transaction": async () => {
    await prisma.$transaction(async (tx) => { await tx.note.create({ data: { text: "kept" } }); }, { isolationLevel: Prisma.TransactionIsolationLevel.Serializable });
    assert.equal(await prisma.note.count({ where: { text: "kept" } }), 1);
  },

  "errors": async () => {
    await refused("P2002", () => prisma.tenant.create({ data: { tenantId: 1, name: "again" } }));
    await refused("P2003", () => prisma.order.create({ data: { tenantId: 99, orderId: 1 } }));
    await refused("P2010", () => prisma.$queryRaw`select * from prisma_missing`);
  },

  "raw queries": async () => {
    assert.deepEqual(await prisma.$queryRaw`select ${41}::int + 1 as n`, [{ n: 42 }]);
    assert.equal(await prisma.$executeRaw`update prisma_orders set total = total where tenant_id = ${2}`, 5);
  },

  "at once": async () => {
    const counts = await Promise.all(Array.from({ length: 60 }, (_, i) => prisma.order.count({ where: { tenantId: (i % 5) + 1 } })));
    assert.ok(counts.every((n) => n === 5), counts.join());
  },

  "disconnect": () => prisma.$disconnect(),
});
process.exit(0);
