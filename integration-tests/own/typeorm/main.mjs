// Checks of TypeORM on node-postgres.

import "reflect-metadata";
import assert from "node:assert/strict";
import { DataSource, In, LessThan, MoreThan } from "typeorm";
import { environment, run } from "./checks.mjs";
import { Country, Note, Order, Tenant } from "./entities.mjs";

class AddStatus1700000000000 {
  name = "AddStatus1700000000000";

  async up(runner) {
    await runner.query("alter table orm_orders add column status text not null default 'new'");
    await runner.query("create index orm_orders_status on orm_orders (tenant_id, status)");
  }

  async down(runner) {
    await runner.query("alter table orm_orders drop column status");
  }
}

const source = new DataSource({
  type: "postgres",
  host: environment.PGHOST,
  port: Number(environment.PGPORT),
  database: environment.PGDATABASE,
  username: environment.PGUSER,
  password: environment.PGPASSWORD,
  entities: [Country, Tenant, Order, Note],
  migrations: [AddStatus1700000000000],
  poolSize: 10,
});

const orders = () => source.getRepository(Order);
const refused = async (code, action) => {
  const error = await action().then(() => null, (e) => e);
  assert.equal(error?.driverError?.code, code, String(error));
};

await run({
  "initialize": () => source.initialize(),

  "synchronize makes tables": async () => {
    await source.synchronize(true);
    await source.synchronize();
    const runner = source.createQueryRunner();
    assert.ok(await runner.hasTable("orm_orders"));
    const table = await runner.getTable("orm_orders");
    assert.deepEqual(table.columns.map((c) => [c.name, c.type]), [["tenant_id", "bigint"], ["order_id", "integer"], ["total", "numeric"], ["tags", "text"], ["placed", "timestamp with time zone"]]);
    assert.equal(table.foreignKeys.length, 1);
    await runner.release();
  },

  "save and find": async () => {
    await source.getRepository(Country).save([{ code: "ch", name: "Switzerland" }, { code: "se", name: "Sweden" }]);
    for (let i = 1; i <= 10; i += 1) {
      await source.getRepository(Tenant).save({ tenantId: `${i}`, name: `tenant ${i}`, settings: { n: i }, country: { code: i % 2 ? "se" : "ch" } });
    }
    const tenant = await source.getRepository(Tenant).findOne({ where: { tenantId: "4" }, relations: { country: true } });
    assert.deepEqual([tenant.name, tenant.settings, tenant.country.name], ["tenant 4", { n: 4 }, "Switzerland"]);
  },

  "insert of many rows": async () => {
    const rows = [];
    for (let t = 1; t <= 10; t += 1) for (let o = 1; o <= 5; o += 1) rows.push({ tenantId: `${t}`, orderId: o, total: `${o * 10}`, tags: ["a", "b,c"] });
    const result = await orders().insert(rows);
    assert.equal(result.generatedMaps.length, 50);
    assert.ok(result.generatedMaps.every((m) => m.placed instanceof Date));
    assert.equal(await orders().count(), 50);
  },

  "generated keys and defaults": async () => {
    const notes = await source.getRepository(Note).save([{ text: "a" }, { text: "b", mood: "happy", raw: Buffer.from([0, 255]) }, { text: "c" }]);
    assert.equal(new Set(notes.map((n) => n.id)).size, 3);
    assert.deepEqual([notes[0].mood, notes[0].version], ["ok", 1]);
    const back = await source.getRepository(Note).findOneBy({ id: notes[1].id });
    assert.deepEqual([back.mood, [...back.raw]], ["happy", [0, 255]]);
    assert.match(back.uid, /^[0-9a-f-]{36}$/);
    back.text = "changed";
    assert.equal((await source.getRepository(Note).save(back)).version, 2);
    await refused("22P02", () => source.getRepository(Note).update({ id: back.id }, { mood: "angry" }));
  },

  "find with conditions, order and page": async () => {
    const [rows, count] = await orders().findAndCount({ where: { tenantId: "4", total: MoreThan("10") }, order: { total: "DESC" }, take: 2, skip: 1 });
    assert.deepEqual([count, rows.map((r) => r.total)], [4, ["40.00", "30.00"]]);
    const all = await orders().find({ order: { tenantId: "ASC", orderId: "ASC" }, take: 5, skip: 8 });
    assert.deepEqual(all.map((r) => `${r.tenantId}/${r.orderId}`), ["2/4", "2/5", "3/1", "3/2", "3/3"]);
    assert.equal(await orders().countBy({ tenantId: In(["1", "2", "3"]), total: LessThan("30") }), 6);
  },

  "relations": async () => {
    const tenants = await source.getRepository(Tenant).find({ where: { tenantId: In(["1", "5", "9"]) }, relations: { orders: true, country: true }, order: { tenantId: "ASC", orders: { orderId: "ASC" } } });
    assert.deepEqual(tenants.map((t) => [t.country.code, t.orders.length]), [["se", 5], ["se", 5], ["se", 5]]);
  },

  "relations with a page": async () => {
    const tenants = await source.getRepository(Tenant).find({ relations: { orders: true }, order: { tenantId: "ASC" }, take: 3, skip: 1 });
    assert.deepEqual(tenants.map((t) => [t.tenantId, t.orders.length]), [["2", 5], ["3", 5], ["4", 5]]);
  },

  "query builder": async () => {
    const rows = await orders().createQueryBuilder("o").innerJoin("o.tenant", "t").innerJoin("t.country", "c").select("c.name", "name").addSelect("count(*)::int", "n")
      .addSelect("sum(o.total)", "sum").where("o.total > :least", { least: 5 }).groupBy("c.name").orderBy("c.name").getRawMany();
    assert.deepEqual(rows, [{ name: "Sweden", n: 25, sum: "750.00" }, { name: "Switzerland", n: 25, sum: "750.00" }]);
    assert.equal(await orders().createQueryBuilder("o").where((qb) => `o.total = ${qb.subQuery().select("max(p.total)").from(Order, "p").where("p.tenantId = o.tenantId").getQuery()}`)
      .andWhere("o.tenantId = :t", { t: 3 }).getCount(), 1);
    assert.equal(await orders().exists({ where: { tenantId: "3" } }), true);
  },

  "aggregates": async () => {
    assert.equal(Number(await orders().sum("total")), 1500);
    assert.equal(Number(await orders().average("total")), 30);
    assert.equal(Number(await orders().maximum("total", { tenantId: "2" })), 50);
  },

  "update, increment, delete": async () => {
    assert.equal((await orders().update({ tenantId: "6", orderId: 1 }, { total: "99" })).affected, 1);
    await orders().increment({ tenantId: "6" }, "total", 1);
    assert.equal((await orders().findOneBy({ tenantId: "6", orderId: 1 })).total, "100.00");
    assert.equal((await orders().delete({ tenantId: "10", orderId: In([4, 5]) })).affected, 2);
    const changed = await orders().createQueryBuilder().update().set({ total: "10" }).where("tenantId = 6 and orderId = 1").returning("total").execute();
    assert.deepEqual(changed.raw, [{ total: "10.00" }]);
  },

  "upsert": async () => {
    const tenants = source.getRepository(Tenant);
    for (const name of ["first", "second"]) await tenants.upsert([{ tenantId: "11", name }, { tenantId: "12", name }], ["tenantId"]);
    assert.deepEqual((await tenants.find({ where: { tenantId: In(["11", "12"]) }, order: { tenantId: "ASC" } })).map((t) => t.name), ["second", "second"]);
    await tenants.delete(["11", "12"]);
    assert.equal(await tenants.count(), 10);
  },

  "transaction": async () => {
    await source.transaction(async (m) => {
      for (const tenantId of ["1", "2", "3"]) await m.update(Order, { tenantId }, { tags: ["seen"] });
    });
    assert.equal(await orders().createQueryBuilder("o").where("'seen' = any(o.tags)").getCount(), 15);
    await assert.rejects(source.transaction("SERIALIZABLE", async (m) => {
      await m.delete(Order, { tenantId: "1" });
      assert.equal(await m.countBy(Order, { tenantId: "1" }), 0);
      throw new Error("no");
    }), /^Error: no$/);
    assert.equal(await orders().countBy({ tenantId: "1" }), 5);
  },

  "nested transaction": async () => {
    await source.transaction(async (m) => {
      await m.insert(Note, { text: "outer" });
      await assert.rejects(m.transaction(async (inner) => { await inner.insert(Note, { text: "lost" }); throw new Error("no"); }));
      await m.transaction((inner) => inner.insert(Note, { text: "inner" }));
    });
    assert.equal(await source.getRepository(Note).countBy({ text: In(["outer", "inner", "lost"]) }), 2);
  },

  "locks": () =>
    source.transaction(async (m) => {
      await m.findOne(Order, { where: { tenantId: "2", orderId: 2 }, lock: { mode: "pessimistic_write" } });
      await source.transaction(async (other) => {
        assert.equal(await other.findOne(Order, { where: { tenantId: "2", orderId: 2 }, lock: { mode: "pessimistic_write", onLocked: "skip_locked" } }), null);
      });
    }),

  "errors": async () => {
    await refused("23505", () => source.getRepository(Tenant).insert({ tenantId: "1", name: "again" }));
    await refused("23503", () => orders().insert({ tenantId: "99", orderId: 1 }));
    await refused("23502", () => source.getRepository(Country).insert({ code: "xx", name: null }));
    await refused("42P01", () => source.query("select * from orm_missing"));
  },

  "stream": async () => {
    const stream = await orders().createQueryBuilder("o").orderBy("o.tenantId").addOrderBy("o.orderId").stream();
    let n = 0;
    for await (const row of stream) if (row.o_order_id) n += 1;
    assert.equal(n, 48);
  },

  "migrations": async () => {
    assert.deepEqual((await source.runMigrations()).map((m) => m.name), ["AddStatus1700000000000"]);
    assert.deepEqual(await source.query("select status, count(*)::int as n from orm_orders group by 1"), [{ status: "new", n: 48 }]);
    assert.equal(await source.showMigrations(), false);
    await source.undoLastMigration();
    assert.equal(await source.showMigrations(), true);
  },

  "at once": async () => {
    const counts = await Promise.all(Array.from({ length: 60 }, (_, i) => orders().countBy({ tenantId: `${(i % 5) + 1}` })));
    assert.ok(counts.every((n) => n === 5), counts.join());
  },

  "drop": async () => {
    await source.dropDatabase();
    assert.equal(await source.createQueryRunner().hasTable("orm_orders"), false);
    await source.destroy();
  },
});
process.exit(0);
