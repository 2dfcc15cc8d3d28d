"""Server cursors and results that are streamed."""

import psycopg
from basics import connect, one
from checks import check, equal, refused


def fill(c):
    c.execute("drop table if exists psy_events; create table psy_events (tenant_id bigint, id int, t text, primary key (tenant_id, id))")
    c.execute("insert into psy_events select i %% 10, i, 'event ' || i from generate_series(1, %s) i", [1000])


@check
def server_cursor():
    with psycopg.connect("") as c:
        fill(c)
        with c.cursor("psy_cursor") as cur:
            cur.itersize = 70
            cur.execute("select id from psy_events where id > %s order by id", [10])
            equal([r[0] for r in cur], list(range(11, 1001)))


@check
def server_cursor_that_scrolls():
    with psycopg.connect("") as c:
        with c.cursor("psy_cursor", scrollable=True) as cur:
            cur.execute("select i from generate_series(1, 100) i")
            equal(cur.fetchmany(3), [(1,), (2,), (3,)])
            cur.scroll(10)
            equal(cur.fetchone(), (14,))
            cur.scroll(0, mode="absolute")
            equal(cur.fetchone(), (1,))


@check
def server_cursor_with_hold():
    with psycopg.connect("") as c:
        cur = c.cursor("psy_held", withhold=True)
        cur.execute("select i from generate_series(1, 10) i")
        c.commit()
        equal(cur.fetchmany(4), [(1,), (2,), (3,), (4,)])
        c.rollback()
        equal(len(cur.fetchall()), 6)
        cur.close()


@check
def server_cursor_in_binary():
    with psycopg.connect("") as c:
        with c.cursor("psy_cursor", binary=True) as cur:
            cur.execute("select i, 'x' || i from generate_series(1, 5) i")
            equal(cur.fetchall(), [(i, f"x{i}") for i in range(1, 6)])


@check
def server_cursor_of_one_tenant():
    with psycopg.connect("") as c:
        fill(c)
        c.commit()
        with c.cursor("psy_cursor") as cur:
            cur.execute("select id from psy_events where tenant_id = %s order by id", [3])
            equal(cur.fetchmany(2), [(3,), (13,)])
            equal(len(cur.fetchall()), 98)


@check
def two_cursors_at_once():
    with psycopg.connect("") as c:
        with c.cursor("psy_a") as a, c.cursor("psy_b") as b:
            a.execute("select i from generate_series(1, 10) i")
            b.execute("select -i from generate_series(1, 10) i")
            equal([(a.fetchone()[0], b.fetchone()[0]) for _ in range(3)], [(1, -1), (2, -2), (3, -3)])


@check
def cursor_outside_a_transaction():
    with connect() as c:
        with refused("25P01"):
            c.cursor("psy_cursor").execute("select 1")


@check
def stream_of_single_rows():
    with connect() as c:
        total = 0
        for (n,) in c.cursor().stream("select i from generate_series(1, %s) i", [2000]):
            total += n
        equal(total, 2001000)
        equal(one(c, "select 1"), 1)


@check
def stream_in_chunks():
    with connect() as c:
        fill(c)
        rows = list(c.cursor().stream("select id from psy_events order by id", size=64))
        equal([r[0] for r in rows], list(range(1, 1001)))


@check
def stream_left_early():
    with connect() as c:
        for (n,) in c.cursor().stream("select i from generate_series(1, 100000) i"):
            if n == 5:
                break
        equal(one(c, "select 1"), 1)
