"""psycopg 3 through the proxy: what an application does with it. Exits with a traceback when anything is not right."""
import datetime
import decimal

import psycopg
from psycopg.rows import dict_row

# Protocol 3.2 where libpq can: the proxy speaks it, or negotiates it down.
for options in ({}, {"max_protocol_version": "3.2"}):
    connection = psycopg.connect(autocommit=True, **options)
    assert connection.info.server_version >= 150000
    assert connection.execute("SELECT 1").fetchone() == (1,)
    connection.close()

connection = psycopg.connect(row_factory=dict_row)

# Parameters, in text and binary; small integers travel as int2, the column is bigint.
for binary in (False, True):
    cursor = connection.cursor(binary=binary)
    row = cursor.execute("SELECT * FROM orders WHERE tenant_id = %s AND order_id = %s", (7, 12)).fetchone()
    assert row["tenant_id"] == 7 and row["order_id"] == 12, row
    assert isinstance(row["amount"], decimal.Decimal) and isinstance(row["placed"], datetime.datetime), row
    rows = cursor.execute("SELECT tenant_id FROM tenants ORDER BY tenant_id DESC LIMIT %s", (3,)).fetchall()
    assert [r["tenant_id"] for r in rows] == [24, 23, 22], rows
    total = cursor.execute("SELECT count(*) AS n, sum(amount) AS s, avg(amount) AS a FROM orders").fetchone()
    assert total["n"] == 720 and isinstance(total["s"], decimal.Decimal), total
    assert abs(total["s"] / total["n"] - total["a"]) < decimal.Decimal("1e-9"), total
    # Keys as an array.
    rows = cursor.execute("SELECT tenant_id FROM tenants WHERE tenant_id = ANY(%s) ORDER BY 1", ([2, 3, 9],)).fetchall()
    assert [r["tenant_id"] for r in rows] == [2, 3, 9], rows
    # Text key, NaN, bytes.
    row = cursor.execute("SELECT * FROM readings WHERE device = %s ORDER BY at LIMIT 1", ("device-3",)).fetchone()
    assert row["device"] == "device-3" and isinstance(row["raw"], bytes), row
connection.commit()

# Prepared on the server from the first execution on.
for tenant in range(1, 20):
    row = connection.execute("SELECT name FROM tenants WHERE tenant_id = %s", (tenant,), prepare=True).fetchone()
    assert row["name"] == f"tenant {tenant}", row
connection.commit()

# A transaction that writes, fails, and goes on after a savepoint.
with connection.transaction():
    connection.execute("INSERT INTO tenants VALUES (%s, 'psycopg', 'de', 'free', now())", (200,))
    try:
        with connection.transaction():
            connection.execute("INSERT INTO tenants VALUES (%s, 'psycopg', 'de', 'free', now())", (200,))
    except psycopg.errors.UniqueViolation:
        pass
    else:
        raise AssertionError("no unique violation")
    assert connection.execute("SELECT name FROM tenants WHERE tenant_id = 200").fetchone()["name"] == "psycopg"
    connection.execute("DELETE FROM tenants WHERE tenant_id = 200")

# executemany, which pipelines.
with connection.transaction():
    rows = [(30, n, f"user{n}@x", True) for n in range(300, 320)]
    connection.execute("INSERT INTO tenants VALUES (30, 'many', 'de', 'free', now())")
    connection.cursor().executemany("INSERT INTO users VALUES (%s, %s, %s, %s)", rows)
    assert connection.execute("SELECT count(*) AS n FROM users WHERE tenant_id = 30").fetchone()["n"] == 20
    raise psycopg.Rollback()

# A pipeline of reads of several tenants.
with connection.pipeline():
    cursors = [connection.execute("SELECT tenant_id FROM tenants WHERE tenant_id = %s", (t,)) for t in range(1, 9)]
    assert [c.fetchone()["tenant_id"] for c in cursors] == list(range(1, 9))
connection.commit()

# COPY on one shard.
with connection.cursor().copy("COPY (SELECT order_id FROM orders WHERE tenant_id = 3 ORDER BY 1) TO STDOUT") as copy:
    assert [int(row[0]) for row in copy.rows()] == list(range(1, 31))
with connection.transaction():
    with connection.cursor().copy("COPY notes (id, body) FROM STDIN") as copy:
        for n in range(700, 710):
            copy.write_row((n, f"copied {n}"))
    assert connection.execute("SELECT count(*) AS n FROM notes WHERE id >= 700").fetchone()["n"] == 10
    raise psycopg.Rollback()

# A server-side cursor on one shard.
with connection.cursor("c") as cursor:
    cursor.execute("SELECT order_id FROM orders WHERE tenant_id = 5 ORDER BY order_id")
    assert [r["order_id"] for r in cursor.fetchmany(10)] == list(range(1, 11))
connection.rollback()

# Errors carry PostgreSQL's SQLSTATE, and the connection goes on.
try:
    connection.execute("SELECT * FROM nowhere")
except psycopg.errors.UndefinedTable:
    connection.rollback()
assert connection.execute("SHOW TimeZone").fetchone() is not None
connection.close()
print("psycopg is content")
