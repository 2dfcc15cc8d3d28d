"""Pipeline mode and executemany, which uses it."""

import psycopg
from basics import connect, one
from checks import check, equal, refused
from psycopg import pq


@check
def pipeline():
    with connect() as c, c.pipeline():
        cursors = [c.execute("select %s::int", [i]) for i in range(100)]
        equal([cur.fetchone()[0] for cur in cursors], list(range(100)))


@check
def pipeline_with_an_error_in_the_middle():
    with connect() as c:
        c.execute("drop table if exists psy_pipe; create table psy_pipe (id int primary key)")
        with refused("23505"), c.pipeline():
            c.execute("insert into psy_pipe values (1)")
            c.execute("insert into psy_pipe values (1)")
            c.execute("insert into psy_pipe values (2)")
        equal(one(c, "select count(*) from psy_pipe"), 0)


@check
def pipeline_with_syncs():
    with connect() as c:
        c.execute("drop table if exists psy_pipe; create table psy_pipe (id int primary key)")
        with c.pipeline() as p:
            c.execute("insert into psy_pipe values (1)")
            p.sync()
            with refused("23505"):
                c.execute("insert into psy_pipe values (2)")
                c.execute("insert into psy_pipe values (1)")
                p.sync()
            c.execute("insert into psy_pipe values (3)")
        equal(c.execute("select id from psy_pipe order by id").fetchall(), [(1,), (3,)])


@check
def pipeline_in_a_transaction():
    with psycopg.connect("") as c:
        c.execute("drop table if exists psy_pipe")
        c.execute("create table psy_pipe (id int primary key)")
        c.commit()
        with c.pipeline():
            for i in range(10):
                c.execute("insert into psy_pipe values (%s)", [i])
            c.commit()
            c.execute("insert into psy_pipe values (100)")
            c.rollback()
        equal(one(c, "select count(*) from psy_pipe"), 10)
        with c.pipeline(), c.transaction():
            c.execute("delete from psy_pipe where id < %s", [5])
        equal(one(c, "select count(*) from psy_pipe"), 5)


@check
def pipeline_that_prepares():
    with connect() as c:
        c.prepare_threshold = 0
        with c.pipeline():
            cursors = [c.execute("select %s::int + %s::int", [i, 1]) for i in range(50)]
        equal([cur.fetchone()[0] for cur in cursors], [i + 1 for i in range(50)])


@check
def pipeline_over_tenants():
    with connect() as c:
        c.execute("drop table if exists psy_piped; create table psy_piped (tenant_id bigint primary key, n int)")
        with c.pipeline():
            for i in range(40):
                c.execute("insert into psy_piped values (%s, %s)", [i, i * i])
            cursors = [c.execute("select n from psy_piped where tenant_id = %s", [i]) for i in range(40)]
            total = c.execute("select sum(n)::int from psy_piped")
            equal([cur.fetchone()[0] for cur in cursors], [i * i for i in range(40)])
            equal(total.fetchone(), (20540,))
        with refused("23505"), c.pipeline():
            for i in [100, 101, 102, 3]:
                c.execute("insert into psy_piped values (%s, 0)", [i])
        equal(one(c, "select count(*) from psy_piped"), 40)


@check
def executemany():
    with connect() as c:
        c.execute("drop table if exists psy_many; create table psy_many (tenant_id bigint, id int, t text, primary key (tenant_id, id))")
        cur = c.cursor()
        cur.executemany("insert into psy_many values (%s, %s, %s)", [(i % 9, i, f"row {i}") for i in range(300)])
        equal(cur.rowcount, 300)
        cur.executemany("insert into psy_many values (%s, %s, %s) returning id", [(i % 9, i, "x") for i in range(300, 310)], returning=True)
        ids = [cur.fetchone()[0]]
        while cur.nextset():
            ids.append(cur.fetchone()[0])
        equal(ids, list(range(300, 310)))
        with refused("23505"):
            cur.executemany("insert into psy_many values (%s, %s, %s)", [(1, 1000, "a"), (2, 1000, "a"), (0, 0, "a")])
        equal(one(c, "select count(*) from psy_many"), 310)


@check
def pipeline_of_libpq():
    """The raw messages: Flush without Sync, describe, and what an error leaves undone."""
    with connect() as c:
        conn = c.pgconn
        conn.enter_pipeline_mode()
        conn.send_query_params(b"select 1", None)
        conn.send_prepare(b"p", b"select $1::int")
        conn.send_describe_prepared(b"p")
        conn.send_query_prepared(b"p", [b"7"])
        conn.send_query_params(b"select 1/0", None)
        conn.send_query_prepared(b"p", [b"8"])
        conn.pipeline_sync()
        conn.send_query_prepared(b"p", [b"9"])
        conn.pipeline_sync()
        conn.flush()
        seen = []
        while len([s for s in seen if s == "PIPELINE_SYNC"]) < 2:
            result = conn.get_result()
            if result is not None:
                seen.append(pq.ExecStatus(result.status).name)
        conn.exit_pipeline_mode()
        equal(seen, ["TUPLES_OK", "COMMAND_OK", "COMMAND_OK", "TUPLES_OK", "FATAL_ERROR", "PIPELINE_ABORTED", "PIPELINE_SYNC", "TUPLES_OK", "PIPELINE_SYNC"])
