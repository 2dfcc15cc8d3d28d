// The entities, without decorators: plain JavaScript has none.

import { EntitySchema } from "typeorm";

export const Country = new EntitySchema({
  name: "Country",
  tableName: "orm_countries",
  columns: { code: { type: "char", length: 2, primary: true }, name: { type: "text" } },
});

export const Tenant = new EntitySchema({
  name: "Tenant",
  tableName: "orm_tenants",
  columns: { tenantId: { type: "bigint", primary: true, name: "tenant_id" }, name: { type: "text" }, settings: { type: "jsonb", nullable: true } },
  relations: {
    country: { type: "many-to-one", target: "Country", joinColumn: { name: "country" }, nullable: true },
    orders: { type: "one-to-many", target: "Order", inverseSide: "tenant" },
  },
});

export const Order = new EntitySchema({
  name: "Order",
  tableName: "orm_orders",
  columns: {
    tenantId: { type: "bigint", primary: true, name: "tenant_id" },
    orderId: { type: "int", primary: true, name: "order_id" },
    total: { type: "numeric", precision: 12, scale: 2, default: 0 },
    tags: { type: "text", array: true, default: "{}" },
    placed: { type: "timestamptz", createDate: true },
  },
  relations: { tenant: { type: "many-to-one", target: "Tenant", joinColumn: { name: "tenant_id" }, inverseSide: "orders" } },
});

export const Note = new EntitySchema({
  name: "Note",
  tableName: "orm_notes",
  columns: {
    id: { type: "int", primary: true, generated: "increment" },
    text: { type: "varchar" },
    mood: { type: "enum", enum: ["sad", "ok", "happy"], default: "ok" },
    raw: { type: "bytea", nullable: true },
    uid: { type: "uuid", default: () => "gen_random_uuid()" },
    version: { type: "int", version: true },
  },
});
