//! The tables of the plan cases that are sharded by `tenant_id`: for the catalog of the cases, and for the real shards on
//! which they are executed.

pub const BY_TENANT: [&str; 11] = [
    "tenants",
    "users",
    "orders",
    "order_items",
    "loose",
    "tickets",
    "audited",
    "guarded",
    "mails",
    "moods",
    "invoices",
];
