"""asyncpg through the proxy: everything binary, every statement prepared and described."""
import asyncio
import datetime
import decimal
import os

import asyncpg


async def main():
    connection = await asyncpg.connect(ssl=False)
    row = await connection.fetchrow("SELECT * FROM orders WHERE tenant_id = $1 AND order_id = $2", 7, 12)
    assert row["tenant_id"] == 7 and isinstance(row["amount"], decimal.Decimal), row
    assert isinstance(row["placed"], datetime.datetime), row
    # The same prepared statement for keys of different shards.
    statement = await connection.prepare("SELECT name FROM tenants WHERE tenant_id = $1")
    assert [a.name for a in statement.get_attributes()] == ["name"]
    for tenant in range(1, 20):
        assert await statement.fetchval(tenant) == f"tenant {tenant}"
    total = await connection.fetchrow("SELECT count(*) AS n, sum(amount) AS s, max(placed) AS p FROM orders")
    assert total["n"] == 720 and isinstance(total["s"], decimal.Decimal), total
    rows = await connection.fetch("SELECT tenant_id FROM tenants ORDER BY tenant_id DESC LIMIT $1 OFFSET $2", 3, 1)
    assert [r["tenant_id"] for r in rows] == [23, 22, 21], rows
    rows = await connection.fetch("SELECT tenant_id FROM tenants WHERE tenant_id = ANY($1) ORDER BY 1", [2, 3, 9])
    assert [r["tenant_id"] for r in rows] == [2, 3, 9], rows
    rows = await connection.fetch("SELECT status, count(*) FROM orders GROUP BY status ORDER BY status")
    assert [r["status"] for r in rows] == ["open", "paid", "sent", "void"], rows
    # A type that asyncpg must look up in the catalog.
    assert await connection.fetchval("SELECT tags FROM notes WHERE id = 1") == ["a1", "b"]
    # Transactions, nested.
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO tenants VALUES ($1, 'asyncpg', 'de', 'free', '2026-01-01')", 201)
            try:
                async with connection.transaction():
                    await connection.execute("INSERT INTO tenants VALUES ($1, 'again', 'de', 'free', '2026-01-01')", 201)
            except asyncpg.UniqueViolationError:
                pass
            assert await connection.fetchval("SELECT name FROM tenants WHERE tenant_id = 201") == "asyncpg"
            raise KeyError
    except KeyError:
        pass
    assert await connection.fetchval("SELECT count(*) FROM tenants WHERE tenant_id = 201") == 0
    # A cursor: a portal with a row limit.
    async with connection.transaction():
        got = [r["order_id"] async for r in connection.cursor(
            "SELECT order_id FROM orders WHERE tenant_id = 5 ORDER BY order_id", prefetch=7)]
        assert got == list(range(1, 31)), got
    # COPY on one shard, binary.
    async with connection.transaction():
        await connection.copy_records_to_table("notes", columns=["id", "body"], records=[(n, "x") for n in range(800, 810)])
        assert await connection.fetchval("SELECT count(*) FROM notes WHERE id >= 800") == 10
        await connection.execute("DELETE FROM notes WHERE id >= 800")
    # Errors.
    try:
        await connection.fetch("SELECT * FROM nowhere")
    except asyncpg.UndefinedTableError:
        pass
    # A time-out cancels on the server; the connection is good afterwards.
    try:
        await connection.fetch("SELECT pg_sleep(30)", timeout=0.5)
    except asyncio.TimeoutError:
        pass
    else:
        raise AssertionError("no time-out")
    assert await connection.fetchval("SELECT 5") == 5
    await connection.close()
    # A pool resets its connections when they come back.
    async with asyncpg.create_pool(min_size=2, max_size=4, ssl=False) as pool:
        names = await asyncio.gather(*(pool.fetchval("SELECT name FROM tenants WHERE tenant_id = $1", t) for t in range(1, 17)))
        assert names == [f"tenant {t}" for t in range(1, 17)], names
    print("asyncpg is content")


asyncio.run(main())
