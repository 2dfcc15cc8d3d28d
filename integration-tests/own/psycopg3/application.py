"""A small application: tenants with orders, countries that all share."""

import decimal

import psycopg
from basics import connect, one
from checks import check, equal, refused
from psycopg.rows import dict_row, namedtuple_row

SCHEMA = """
drop table if exists psy_orders, psy_tenants, psy_countries;
create table psy_countries (code text primary key, name text not null);
create table psy_tenants (tenant_id bigint primary key, name text not null, country text references psy_countries);
create table psy_orders (tenant_id bigint references psy_tenants, order_id bigint generated always as identity,
    total numeric(12, 2) not null, tags text[] not null default '{}', placed timestamptz default now(), primary key (tenant_id, order_id));
"""


@check
def application_schema_and_rows():
    with psycopg.connect("") as c:
        c.execute(SCHEMA)
        c.cursor().executemany("insert into psy_countries values (%s, %s)", [("ch", "Switzerland"), ("se", "Sweden")])
        c.cursor().executemany("insert into psy_tenants values (%s, %s, %s)", [(i, f"tenant {i}", "se" if i % 2 else "ch") for i in range(1, 21)])
        for tenant in range(1, 21):
            c.cursor().executemany("insert into psy_orders (tenant_id, total) values (%s, %s)", [(tenant, n * 10) for n in range(1, 6)])


@check
def insert_with_returning():
    with connect(row_factory=dict_row) as c:
        row = c.execute("insert into psy_orders (tenant_id, total) values (%s, %s) returning tenant_id, total, placed, order_id", [3, decimal.Decimal("9.5")]).fetchone()
        equal((row["tenant_id"], row["total"]), (3, decimal.Decimal("9.50")))
        equal(c.execute("delete from psy_orders where tenant_id = %s and order_id = %s", [3, row["order_id"]]).rowcount, 1)


@check
def insert_of_many_with_returning():
    with connect() as c:
        tenants = [7, 1, 20, 14]
        marks = ", ".join(["(%s, 1000)"] * 4)
        rows = c.execute(f"insert into psy_orders (tenant_id, total) values {marks} returning tenant_id, order_id", tenants).fetchall()
        equal([r[0] for r in rows], tenants)
        equal(len({r[1] for r in rows}), 4)
        equal(c.execute("delete from psy_orders where total = 1000").rowcount, 4)


@check
def rows_of_tenants():
    with connect(row_factory=namedtuple_row) as c:
        rows = c.execute("select tenant_id, total from psy_orders where tenant_id = %s order by total", [7], binary=True).fetchall()
        equal([r.total for r in rows], [10, 20, 30, 40, 50])
        rows = c.execute("select tenant_id, count(*) as n from psy_orders where tenant_id = any(%s) group by 1 order by 1", [[2, 11, 17]]).fetchall()
        equal([tuple(r) for r in rows], [(2, 5), (11, 5), (17, 5)])


@check
def joins_and_aggregates():
    with connect() as c:
        for binary in (False, True):
            rows = c.execute("""select c.name, count(*), sum(o.total), avg(o.total), max(t.tenant_id) from psy_tenants t
                join psy_countries c on c.code = t.country join psy_orders o using (tenant_id) group by c.name order by c.name""", binary=binary).fetchall()
            equal(rows, [("Sweden", 50, 1500, 30, 19), ("Switzerland", 50, 1500, 30, 20)])


@check
def pagination():
    with connect() as c:
        seen = []
        for offset in range(0, 100, 30):
            seen += c.execute("select tenant_id, total from psy_orders order by tenant_id, total limit %s offset %s", [30, offset]).fetchall()
        equal((len(seen), seen[0], seen[99]), (100, (1, 10), (20, 50)))


@check
def transaction_over_tenants():
    with connect() as c:
        with c.transaction():
            for tenant in range(1, 6):
                c.execute("update psy_orders set tags = tags || %s::text where tenant_id = %s", ["seen", tenant])
        equal(one(c, "select count(*) from psy_orders where 'seen' = any(tags)"), 25)
        with refused("23503"), c.transaction():
            c.execute("update psy_orders set tags = '{}'")
            c.execute("insert into psy_orders (tenant_id, total) values (%s, 1)", [99])
        equal(one(c, "select count(*) from psy_orders where 'seen' = any(tags)"), 25)


@check
def upsert():
    with connect() as c:
        query = "insert into psy_tenants values (%s, %s) on conflict (tenant_id) do update set name = excluded.name returning (xmax = 0)"
        equal(one(c, query, [30, "a"]), True)
        equal(one(c, query, [30, "b"]), False)
        equal(c.execute("delete from psy_tenants where tenant_id = 30 returning name").fetchone(), ("b",))


@check
def migration():
    with psycopg.connect("") as c:
        c.execute("alter table psy_orders add column status text not null default 'new'")
        c.execute("create index on psy_orders (tenant_id, status)")
        c.commit()
        equal(one(c, "select count(*) from psy_orders where status = 'new'"), 100)
        c.execute("alter table psy_orders drop column status")
        c.rollback()
        equal(one(c, "select count(*) from psy_orders where tenant_id = 4 and status = 'new'"), 5)


@check
def introspection():
    with connect() as c:
        rows = c.execute("select column_name, data_type, is_nullable from information_schema.columns where table_name = %s order by ordinal_position", ["psy_tenants"]).fetchall()
        equal(rows, [("tenant_id", "bigint", "NO"), ("name", "text", "NO"), ("country", "text", "YES")])
        equal(one(c, "select %s::regclass::oid = oid from pg_class where relname = 'psy_orders'", ["psy_orders"]), True)
