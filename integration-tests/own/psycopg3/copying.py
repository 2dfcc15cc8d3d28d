"""COPY in and out, text and binary."""

import psycopg
from basics import connect, one
from checks import check, equal, refused
from cursors import fill

TABLE = "drop table if exists psy_copied; create table psy_copied (tenant_id bigint, id int, t text)"


@check
def copy_out():
    with connect() as c:
        fill(c)
        with c.cursor().copy("copy (select id, t from psy_events where tenant_id = 1 order by id limit 2) to stdout") as copy:
            equal(b"".join(copy), b"1\tevent 1\n11\tevent 11\n")
        with c.cursor().copy("copy psy_events to stdout with (format csv, header)") as copy:
            lines = b"".join(copy).decode().splitlines()
        equal((lines[0], len(lines)), ("tenant_id,id,t", 1001))


@check
def copy_out_rows_in_binary():
    with connect() as c:
        fill(c)
        with c.cursor().copy("copy psy_events (id, t) to stdout with (format binary)") as copy:
            copy.set_types(["int4", "text"])
            rows = sorted(copy.rows())
        equal((len(rows), rows[0]), (1000, (1, "event 1")))


@check
def copy_in_rows():
    with connect() as c:
        c.execute(TABLE)
        with c.cursor().copy("copy psy_copied from stdin") as copy:
            for i in range(5000):
                copy.write_row((i % 7, i, f"row\t{i}\n" if i % 2 else None))
        equal(c.execute("select count(*), sum(id), count(t) from psy_copied").fetchone(), (5000, 12497500, 2500))
        equal(one(c, "select t from psy_copied where id = 1"), "row\t1\n")


@check
def copy_in_rows_in_binary():
    with connect() as c:
        c.execute(TABLE)
        with c.cursor().copy("copy psy_copied from stdin with (format binary)") as copy:
            copy.set_types(["int8", "int4", "text"])
            for i in range(1000):
                copy.write_row((i % 7, i, f"row {i}"))
        equal(one(c, "select count(*) from psy_copied where tenant_id = 3"), 143)


@check
def copy_in_that_fails():
    with connect() as c:
        c.execute(TABLE)
        with refused("22P02") as caught, c.cursor().copy("copy psy_copied from stdin") as copy:
            copy.write("1\t1\ta\n2\tx\tb\n")
        assert "COPY psy_copied, line 2" in caught[0].diag.context, caught[0].diag.context
        equal(one(c, "select count(*) from psy_copied"), 0)


@check
def copy_in_that_the_client_gives_up():
    with connect() as c:
        c.execute(TABLE)
        try:
            with c.cursor().copy("copy psy_copied from stdin") as copy:
                copy.write_row((1, 1, "a"))
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        equal(one(c, "select count(*) from psy_copied"), 0)


@check
def copy_in_a_transaction():
    with psycopg.connect("") as c:
        c.execute(TABLE)
        c.commit()
        with c.cursor().copy("copy psy_copied from stdin with (format csv)") as copy:
            copy.write("1,1,a\n2,2,b\n")
        equal(one(c, "select count(*) from psy_copied"), 2)
        c.rollback()
        equal(one(c, "select count(*) from psy_copied"), 0)


@check
def copy_from_one_connection_to_another():
    with connect() as a, connect() as b:
        fill(a)
        b.execute(TABLE)
        with a.cursor().copy("copy psy_events to stdout with (format binary)") as source, \
                b.cursor().copy("copy psy_copied from stdin with (format binary)") as target:
            for data in source:
                target.write(data)
        equal(one(a, "select count(*) from psy_copied"), 1000)
