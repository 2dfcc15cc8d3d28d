"""The async connection, and the pool."""

import asyncio

import psycopg
from checks import check, equal, refused


async def connect(**options):
    return await psycopg.AsyncConnection.connect("", autocommit=True, **options)


@check
async def async_statements():
    async with await connect() as c:
        cur = await c.execute("select %s::int + 1, %s", [41, "x"])
        equal(await cur.fetchone(), (42, "x"))


@check
async def async_at_once():
    async def work(number):
        async with await connect() as c:
            cur = await c.execute("select %s::int, pg_sleep(0.05)", [number])
            return (await cur.fetchone())[0]

    equal(await asyncio.gather(*[work(n) for n in range(60)]), list(range(60)))


@check
async def async_transaction():
    async with await connect() as c:
        await c.execute("drop table if exists psy_async; create table psy_async (tenant_id bigint primary key)")
        async with c.transaction():
            await c.execute("insert into psy_async values (1), (2), (3)")
            with refused("23505"):
                async with c.transaction():
                    await c.execute("insert into psy_async values (%s)", [1])
        cur = await c.execute("select count(*) from psy_async")
        equal(await cur.fetchone(), (3,))


@check
async def async_pipeline():
    async with await connect() as c:
        async with c.pipeline():
            cursors = [await c.execute("select %s::int", [i]) for i in range(40)]
        equal([(await cur.fetchone())[0] for cur in cursors], list(range(40)))


@check
async def async_copy():
    async with await connect() as c:
        await c.execute("drop table if exists psy_async; create table psy_async (tenant_id bigint primary key)")
        async with c.cursor().copy("copy psy_async from stdin") as copy:
            for i in range(100):
                await copy.write_row([i])
        async with c.cursor().copy("copy psy_async to stdout") as copy:
            data = b"".join([bytes(part) async for part in copy])
        equal(sorted(map(int, data.split())), list(range(100)))


@check
async def async_cancel():
    async with await connect() as c:
        task = asyncio.create_task(c.execute("select pg_sleep(20)"))
        await asyncio.sleep(0.3)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        cur = await c.execute("select 1")
        equal(await cur.fetchone(), (1,))


@check
async def async_notifications():
    async with await connect() as listener, await connect() as sender:
        await listener.execute("listen psy_async_channel")
        await sender.execute("notify psy_async_channel, 'hello'")
        async for note in listener.notifies(timeout=5, stop_after=1):
            equal((note.channel, note.payload), ("psy_async_channel", "hello"))
            return
        raise AssertionError("nothing heard")


@check
async def async_server_cursor():
    async with await psycopg.AsyncConnection.connect("") as c:
        async with c.cursor("psy_async_cursor") as cur:
            await cur.execute("select i from generate_series(1, 500) i")
            equal([r[0] async for r in cur], list(range(1, 501)))


@check
def pool():
    from psycopg_pool import ConnectionPool

    with ConnectionPool("", min_size=2, max_size=5, kwargs={"autocommit": True}, check=ConnectionPool.check_connection, open=True) as p:
        for i in range(30):
            with p.connection() as c:
                c.execute("set application_name = 'pooled'")
                equal(c.execute("select %s::int", [i]).fetchone(), (i,))
