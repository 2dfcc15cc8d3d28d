// Checks of Sequelize on node-postgres.

import assert from "node:assert/strict";
import { DataTypes, Op, QueryTypes, Sequelize, Transaction } from "sequelize";
import { environment, run } from "./checks.mjs";

const sequelize = new Sequelize(environment.PGDATABASE, environment.PGUSER, environment.PGPASSWORD, {
  host: environment.PGHOST,
  port: Number(environment.PGPORT),
  dialect: "postgres",
  logging: false,
  pool: { max: 10 },
});

const Country = sequelize.define("Country", { code: { type: DataTypes.STRING(2), primaryKey: true }, name: { type: DataTypes.STRING, allowNull: false } },
  { tableName: "seq_countries", timestamps: false });
const Tenant = sequelize.define("Tenant", { tenantId: { type: DataTypes.BIGINT, primaryKey: true, field: "tenant_id" }, name: DataTypes.TEXT, settings: DataTypes.JSONB },
  { tableName: "seq_tenants", timestamps: false });
const Order = sequelize.define("Order", {
  tenantId: { type: DataTypes.BIGINT, primaryKey: true, field: "tenant_id" },
  orderId: { type: DataTypes.INTEGER, primaryKey: true, field: "order_id" },
  total: { type: DataTypes.DECIMAL(12, 2), allowNull: false, defaultValue: 0 },
  tags: { type: DataTypes.ARRAY(DataTypes.TEXT), defaultValue: [] },
}, { tableName: "seq_orders", underscored: true });
const Note = sequelize.define("Note", {
  text: DataTypes.TEXT, at: DataTypes.DATE, raw: DataTypes.BLOB, uuid: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
  span: DataTypes.RANGE(DataTypes.INTEGER),
}, { tableName: "seq_notes" });
Country.hasMany(Tenant, { foreignKey: "country" });
Tenant.belongsTo(Country, { foreignKey: "country" });
Tenant.hasMany(Order, { foreignKey: "tenantId", onDelete: "CASCADE", onUpdate: "NO ACTION" });
Order.belongsTo(Tenant, { foreignKey: "tenantId", onDelete: "CASCADE", onUpdate: "NO ACTION" });

const refused = async (name, action) => {
  const error = await action().then(() => null, (e) => e);
  assert.equal(error?.name, name, String(error));
  return error;
};

await run({
  "authenticate": () => sequelize.authenticate(),

  "sync makes tables": async () => {
    await sequelize.sync({ force: true });
    assert.deepEqual((await sequelize.getQueryInterface().showAllTables()).filter((t) => t.startsWith("seq_")).sort(), ["seq_countries", "seq_notes", "seq_orders", "seq_tenants"]);
  },

  "sync again and alter": async () => {
    await sequelize.sync();
    await sequelize.sync({ alter: true });
  },

  "describe a table": async () => {
    const described = await sequelize.getQueryInterface().describeTable("seq_tenants");
    assert.equal(described.tenant_id.type, "BIGINT");
    assert.equal(described.tenant_id.primaryKey, true);
    const indexes = await sequelize.getQueryInterface().showIndex("seq_orders");
    assert.ok(indexes.some((i) => i.primary));
  },

  "create and read": async () => {
    await Country.bulkCreate([{ code: "ch", name: "Switzerland" }, { code: "se", name: "Sweden" }]);
    for (let i = 1; i <= 10; i += 1) await Tenant.create({ tenantId: i, name: `tenant ${i}`, country: i % 2 ? "se" : "ch", settings: { n: i } });
    const tenant = await Tenant.findByPk(3);
    assert.deepEqual([tenant.name, tenant.settings], ["tenant 3", { n: 3 }]);
  },

  "bulk create over tenants, with returning": async () => {
    const rows = [];
    for (let t = 1; t <= 10; t += 1) for (let o = 1; o <= 5; o += 1) rows.push({ tenantId: t, orderId: o, total: o * 10, tags: [`t${t}`] });
    const made = await Order.bulkCreate(rows, { returning: true });
    assert.deepEqual(made.map((m) => `${m.tenantId}/${m.orderId}`), rows.map((r) => `${r.tenantId}/${r.orderId}`));
    assert.equal(await Order.count(), 50);
  },

  "bulk create with generated keys": async () => {
    const made = await Note.bulkCreate([{ text: "a" }, { text: "b" }, { text: "c" }]);
    assert.equal(new Set(made.map((m) => m.id)).size, 3);
    assert.ok(made.every((m) => m.id > 0));
  },

  "types both ways": async () => {
    const at = new Date("2024-02-29T12:34:56.789Z");
    const made = await Note.create({ text: "ünï'\"\\", at, raw: Buffer.from([0, 1, 255]), span: [1, 5] });
    const read = await Note.findByPk(made.id);
    assert.deepEqual([read.text, read.at.toISOString(), [...read.raw], read.uuid], ["ünï'\"\\", at.toISOString(), [0, 1, 255], made.uuid]);
    assert.deepEqual(read.span.map((b) => b.value), [1, 5]);
  },

  "enum": async () => {
    const Mood = sequelize.define("Mood", { mood: DataTypes.ENUM("sad", "ok", "happy") }, { tableName: "seq_moods", timestamps: false });
    await Mood.sync({ force: true });
    const made = await Mood.create({ mood: "happy" });
    assert.equal((await Mood.findByPk(made.id)).mood, "happy");
    await refused("SequelizeDatabaseError", () => Mood.update({ mood: sequelize.literal("'angry'") }, { where: { id: made.id } }));
  },

  "find with conditions, order and page": async () => {
    const page = await Order.findAndCountAll({ where: { tenantId: 4, total: { [Op.gt]: 10 } }, order: [["total", "DESC"]], limit: 2, offset: 1 });
    assert.equal(page.count, 4);
    assert.deepEqual(page.rows.map((r) => r.total), ["40.00", "30.00"]);
    const all = await Order.findAll({ order: [["tenantId", "ASC"], ["orderId", "ASC"]], limit: 7, offset: 8 });
    assert.deepEqual(all.map((r) => `${r.tenantId}/${r.orderId}`), ["2/4", "2/5", "3/1", "3/2", "3/3", "3/4", "3/5"]);
  },

  "include": async () => {
    const tenant = await Tenant.findByPk(2, { include: [Order, Country], order: [[Order, "orderId", "ASC"]] });
    assert.deepEqual([tenant.Country.name, tenant.Orders.map((o) => o.total)], ["Switzerland", ["10.00", "20.00", "30.00", "40.00", "50.00"]]);
    const several = await Tenant.findAll({ include: Order, where: { tenantId: [1, 5, 9] }, order: [["tenantId", "ASC"]] });
    assert.deepEqual(several.map((t) => t.Orders.length), [5, 5, 5]);
  },

  "include with a limit": async () => {
    const tenants = await Tenant.findAll({ include: Order, order: [["tenantId", "ASC"]], limit: 2 });
    assert.deepEqual(tenants.map((t) => t.Orders.length), [5, 5]);
  },

  "aggregates": async () => {
    assert.equal(Number(await Order.sum("total")), 1500);
    assert.equal(Number(await Order.max("total")), 50);
    const grouped = await Order.findAll({ attributes: ["tenantId", [sequelize.fn("SUM", sequelize.col("total")), "sum"]], group: ["tenant_id"], order: [["tenantId", "ASC"]], raw: true });
    assert.equal(grouped.length, 10);
    assert.equal(grouped[9].sum, "150.00");
  },

  "update, increment, destroy": async () => {
    const [n] = await Order.update({ total: 99 }, { where: { tenantId: 6, orderId: 1 } });
    assert.equal(n, 1);
    await Order.increment({ total: 1 }, { where: { tenantId: 6 } });
    assert.equal((await Order.findOne({ where: { tenantId: 6, orderId: 1 } })).total, "100.00");
    assert.equal(await Order.destroy({ where: { tenantId: 10, orderId: [4, 5] } }), 2);
    const [, [changed]] = await Order.update({ total: 10 }, { where: { tenantId: 6, orderId: 1 }, returning: true });
    assert.equal(changed.total, "10.00");
  },

  "upsert and find or create": async () => {
    await Tenant.upsert({ tenantId: 11, name: "first", country: "se" });
    const [row] = await Tenant.upsert({ tenantId: 11, name: "second", country: "se" });
    assert.equal(row.name, "second");
    assert.equal(await Tenant.destroy({ where: { tenantId: 11 } }), 1);
  },

  "find or create": async () => {
    const [first, made] = await Country.findOrCreate({ where: { code: "no" }, defaults: { name: "Norway" } });
    const [, again] = await Country.findOrCreate({ where: { code: "no" }, defaults: { name: "Norway" } });
    assert.deepEqual([first.name, made, again], ["Norway", true, false]);
  },

  "transaction": async () => {
    await sequelize.transaction(async (t) => {
      for (const tenantId of [1, 2, 3]) await Order.update({ tags: ["seen"] }, { where: { tenantId }, transaction: t });
    });
    assert.equal(await Order.count({ where: { tags: { [Op.contains]: ["seen"] } } }), 15);
    await assert.rejects(sequelize.transaction(async (t) => { await Order.destroy({ where: { tenantId: 1 }, transaction: t }); throw new Error("no"); }), /no/);
    assert.equal(await Order.count({ where: { tenantId: 1 } }), 5);
  },

  "nested transaction and isolation": async () => {
    await sequelize.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.REPEATABLE_READ }, async (outer) => {
      await Note.create({ text: "outer" }, { transaction: outer });
      await sequelize.transaction({ transaction: outer }, (inner) => Note.create({ text: "inner" }, { transaction: inner }));
      await assert.rejects(sequelize.transaction({ transaction: outer }, async (inner) => { await Note.create({ text: "lost" }, { transaction: inner }); throw new Error("no"); }), /no/);
    });
    assert.equal(await Note.count({ where: { text: ["outer", "inner", "lost"] } }), 2);
  },

  "locks": async () => {
    await sequelize.transaction(async (t) => {
      const row = await Order.findOne({ where: { tenantId: 2, orderId: 2 }, lock: t.LOCK.UPDATE, transaction: t });
      assert.equal(row.total, "20.00");
      await sequelize.transaction(async (u) => {
        assert.equal(await Order.findOne({ where: { tenantId: 2, orderId: 2 }, lock: true, skipLocked: true, transaction: u }), null);
      });
    });
  },

  "errors": async () => {
    const unique = await refused("SequelizeUniqueConstraintError", () => Tenant.create({ tenantId: 1, name: "again" }));
    assert.deepEqual(unique.fields, { tenant_id: "1" });
    const foreign = await refused("SequelizeForeignKeyConstraintError", () => Order.create({ tenantId: 99, orderId: 1, total: 1 }));
    assert.equal(foreign.table, "seq_orders");
    await refused("SequelizeDatabaseError", () => sequelize.query("select * from seq_missing"));
  },

  "raw queries": async () => {
    assert.deepEqual(await sequelize.query("select :a::int + 1 as n", { replacements: { a: 41 }, type: QueryTypes.SELECT }), [{ n: 42 }]);
    assert.deepEqual(await sequelize.query("select $1::int + 1 as n", { bind: [41], type: QueryTypes.SELECT }), [{ n: 42 }]);
  },

  "migration": async () => {
    const q = sequelize.getQueryInterface();
    await q.addColumn("seq_orders", "status", { type: DataTypes.STRING, allowNull: false, defaultValue: "new" });
    await q.addIndex("seq_orders", ["tenant_id", "status"], { name: "seq_orders_status" });
    await q.renameColumn("seq_orders", "status", "state");
    await q.changeColumn("seq_orders", "state", { type: DataTypes.TEXT });
    const [rows] = await sequelize.query("select state, count(*)::int as n from seq_orders group by 1");
    assert.deepEqual(rows, [{ state: "new", n: 48 }]);
    await q.removeIndex("seq_orders", "seq_orders_status");
    await q.removeColumn("seq_orders", "state");
    assert.equal((await q.describeTable("seq_orders")).state, undefined);
  },

  "at once": async () => {
    const sums = await Promise.all(Array.from({ length: 60 }, (_, i) => Order.sum("total", { where: { tenantId: (i % 5) + 1 } })));
    assert.ok(sums.every((s) => Number(s) === 150), sums.join());
  },

  "drop": async () => {
    await sequelize.drop({});
    assert.deepEqual((await sequelize.getQueryInterface().showAllTables()).filter((t) => t.startsWith("seq_")), []);
  },
});
process.exit(0);
