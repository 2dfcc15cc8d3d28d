"""asyncpg on shards whose object identifiers differ: it looks every type up by the number that it is told."""
import asyncio
import io

import asyncpg


def felt(mood, number, moods):
    return (mood, number, moods)


async def reads(connection):
    for key in range(1, 25):
        row = await connection.fetchrow("SELECT * FROM t WHERE k = $1", key)
        assert row["m"] in ("sad", "angry", "ok", "happy"), row
        assert row["ms"] == [row["m"], None, "sad"], row
        assert tuple(row["f"]) == (row["m"], key, [row["m"]]), row
        assert [f and tuple(f) for f in row["fs"]] == [(row["m"], 1, None), None, (None, None, [])], row
        assert row["mr"].lower == "sad" and row["mr"].upper == row["m"], row
        assert tuple(row["fr"].upper) == ("happy", key, ["ok"]), row
        assert tuple(row["d"]["c"]) == (row["m"], 2, None) and row["d"]["p"] == 7, row
        assert row["ps"] == [key, None], row
    rows = await connection.fetch("SELECT k, m, f, ds FROM t WHERE k < $1 ORDER BY k", 25)
    assert [r["k"] for r in rows] == list(range(1, 25)), rows
    assert all(tuple(r["f"])[:2] == (r["m"], r["k"]) for r in rows), rows
    assert all(tuple(r["ds"][0]["c"]) == (r["m"], 2, [r["m"]]) for r in rows), rows
    moods = [r["m"] for r in await connection.fetch("SELECT DISTINCT m FROM t WHERE m IS NOT NULL ORDER BY m DESC")]
    assert moods == ["happy", "ok", "angry", "sad"], moods
    described = await connection.prepare("SELECT f, $1::felt[] FROM t WHERE k = $2")
    assert [t.name for t in described.get_parameters()] == ["felt[]", "int8"], described.get_parameters()
    assert [a.type.name for a in described.get_attributes()] == ["felt", "felt[]"], described.get_attributes()


async def writes(connection):
    for key in range(200, 220):
        value = felt("angry", key, ["ok", None])
        row = await connection.fetchrow(
            "INSERT INTO t (k, m, ms, f, fs) VALUES ($1, $2, $3, $4, $5) RETURNING m, ms, f, fs",
            key, "happy", ["sad", None], value, [value, None])
        assert row["m"] == "happy" and row["ms"] == ["sad", None] and tuple(row["f"]) == value, row
        assert tuple(row["fs"][0]) == value and row["fs"][1] is None, row
    rows = await connection.fetch(
        "UPDATE t SET f = $1 WHERE k BETWEEN 200 AND 219 AND fs[1] = $2::felt OR k BETWEEN 200 AND 209 RETURNING k, f",
        felt("sad", 1, None), felt("angry", 205, ["ok", None]))
    assert sorted(r["k"] for r in rows) == list(range(200, 210)), rows
    assert all(tuple(r["f"]) == ("sad", 1, None) for r in rows), rows
    async with connection.transaction():
        cursor = [r["f"] async for r in connection.cursor("SELECT f FROM t WHERE k >= 200 ORDER BY k", prefetch=3)]
    assert [tuple(f)[1] for f in cursor] == [1] * 10 + list(range(210, 220)), cursor
    await connection.execute("DELETE FROM t WHERE k >= 200")


async def copies(connection):
    records = [(key, "ok", ["sad", None], [felt("happy", key, ["ok"])]) for key in range(300, 340)]
    names = ["k", "m", "ms", "fs"]
    assert await connection.copy_records_to_table("t", columns=names, records=records) == "COPY 40"
    rows = await connection.fetch("SELECT k, m, ms, fs FROM t WHERE k >= 300 ORDER BY k")
    assert [(r["k"], r["m"], r["ms"], [tuple(f) for f in r["fs"]]) for r in rows] == records, rows
    for query in ["SELECT k, m, ms, fs FROM t WHERE k >= 300", *(f"SELECT k, m, ms, fs FROM t WHERE k = {k}" for k in (300, 305, 311))]:
        out = io.BytesIO()
        await connection.copy_from_query(query, output=out, format="binary")
        count = int(await connection.fetchval(f"SELECT count(*) FROM ({query}) q"))
        await connection.execute("DELETE FROM t WHERE k >= 300")
        out.seek(0)
        assert await connection.copy_to_table("t", columns=names, source=out, format="binary") == f"COPY {count}"
        rows = await connection.fetch("SELECT k, m, ms, fs FROM t WHERE k >= 300 ORDER BY k")
        assert len(rows) == count, rows
        assert all(tuple(r["fs"][0]) == ("happy", r["k"], ["ok"]) for r in rows), rows
        await connection.execute("DELETE FROM t WHERE k >= 300")
        await connection.copy_records_to_table("t", columns=names, records=records)
    await connection.execute("DELETE FROM t WHERE k >= 300")


async def changes(connection, other):
    await other.execute("CREATE TYPE colour AS ENUM ('red', 'blue')")
    await other.execute("CREATE TYPE paint AS (c colour, cs colour[])")
    await other.execute("ALTER TABLE t ADD COLUMN paints paint[]")
    paints = [("red", ["blue", None])]
    for key in range(1, 9):
        await connection.execute("UPDATE t SET paints = $2 WHERE k = $1", key, paints)
        got = await connection.fetchval("SELECT paints FROM t WHERE k = $1", key)
        assert [tuple(p) for p in got] == paints, got
    await other.execute("ALTER TYPE colour ADD VALUE 'green' BEFORE 'blue'")
    await connection.execute("UPDATE t SET paints = $1 WHERE k < 9", [("green", [])])
    rows = await connection.fetch("SELECT paints FROM t WHERE k < 9 ORDER BY k")
    assert [tuple(r["paints"][0]) for r in rows] == [("green", [])] * 8, rows
    await other.execute("ALTER TABLE t DROP COLUMN paints")
    await other.execute("DROP TYPE paint, colour")
    await other.execute("CREATE TYPE unrelated AS ENUM ('red')")
    await other.execute("CREATE TYPE colour AS (a int)")
    await other.execute("ALTER TABLE t ADD COLUMN paints colour[]")
    await connection.reload_schema_state()
    for key in range(1, 9):
        await connection.execute("UPDATE t SET paints = $2 WHERE k = $1", key, [(key,)])
        got = await connection.fetchval("SELECT paints FROM t WHERE k = $1", key)
        assert [tuple(p) for p in got] == [(key,)], got
    # All in one transaction.
    async with connection.transaction():
        await connection.execute("CREATE TYPE fresh AS (a int, b colour)")
        await connection.execute("ALTER TABLE t ADD COLUMN fresh fresh[]")
        for key in range(1, 9):
            await connection.execute("UPDATE t SET fresh = $2 WHERE k = $1", key, [(key, (key,))])
            got = await connection.fetchval("SELECT fresh FROM t WHERE k = $1", key)
            assert tuple(got[0])[0] == key and tuple(got[0]["b"]) == (key,), got
    rows = await connection.fetch("SELECT k, fresh FROM t WHERE k < 9 ORDER BY k")
    assert [r["fresh"][0]["a"] for r in rows] == list(range(1, 9)), rows


async def main():
    connection = await asyncpg.connect(ssl=False)
    other = await asyncpg.connect(ssl=False)
    for part in (reads, writes, copies, reads):
        await part(connection)
    await changes(connection, other)
    await connection.close()
    await other.close()
    print("asyncpg is content")


asyncio.run(main())
