"""Connecting, statements, types, prepared statements, transactions, errors, notifications, cancel."""

import datetime
import decimal
import os
import threading
import time
import uuid

import psycopg
from checks import check, equal, eventually, refused
from psycopg import pq
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json, Jsonb
from psycopg.types.range import Range


def connect(**options):
    return psycopg.connect("", autocommit=True, **options)


def one(connection, *query, **options):
    return connection.execute(*query, **options).fetchone()[0]


@check
def connect_without_tls():
    with connect(sslmode="disable") as c:
        equal(one(c, "select current_database()"), os.environ["PGDATABASE"])
        equal(c.pgconn.ssl_in_use, False)


@check
def connect_with_tls_and_a_verified_certificate():
    with connect(sslmode="verify-full", sslrootcert=os.environ["SHARDWAY_CA"], host="127.0.0.1") as c:
        equal(c.pgconn.ssl_in_use, True)
        equal(one(c, "select %s + 1", [41]), 42)


@check
def newest_protocol():
    """libpq 18 asks for protocol 3.2 with long cancel keys; PostgreSQL before 18 answers with 3.0."""
    with connect(max_protocol_version="latest") as c:
        assert c.pgconn.protocol_version == 3
        equal(one(c, "select %s::text", ["x"]), "x")
        cancelled_by(c, lambda: c.cancel_safe())


@check
def wrong_password():
    try:
        psycopg.connect("user=nobody_here password=wrong")
    except psycopg.OperationalError as error:
        assert "nobody_here" in str(error), error
    else:
        raise AssertionError("logged in")


@check
def start_up_options():
    with connect(application_name="checks", options="-c work_mem=5MB -c statement_timeout=7s") as c:
        equal([one(c, f"show {n}") for n in ("application_name", "work_mem", "statement_timeout")], ["checks", "5MB", "7s"])


@check
def other_client_encoding():
    with connect(client_encoding="latin1") as c:
        equal(one(c, "select 'é'"), "é")
        equal(c.info.encoding, "iso8859-1")


@check
def reported_parameters():
    with connect() as c:
        for name, value in [("server_encoding", "UTF8"), ("integer_datetimes", "on"), ("standard_conforming_strings", "on")]:
            equal(c.info.parameter_status(name), value)
        c.execute("set timezone to 'Asia/Tokyo'")
        equal(c.info.parameter_status("TimeZone"), "Asia/Tokyo")
        c.execute("set application_name to 'renamed'")
        equal(c.info.parameter_status("application_name"), "renamed")
        assert c.info.server_version >= 140000
        assert c.info.backend_pid


@check
def several_statements_in_one():
    with connect() as c:
        cur = c.execute("select 1; select 2, 3; create temp table several (i int); insert into several values (1), (2)")
        seen = [cur.statusmessage]
        while cur.nextset():
            seen.append(cur.statusmessage)
        equal(seen, ["SELECT 1", "SELECT 1", "CREATE TABLE", "INSERT 0 2"])


@check
def empty_statement():
    with connect() as c:
        equal(c.execute("").pgresult.status, pq.ExecStatus.EMPTY_QUERY)
        equal(c.execute("", prepare=True).pgresult.status, pq.ExecStatus.EMPTY_QUERY)
        equal(c.pgconn.exec_(b"-- nothing").status, pq.ExecStatus.EMPTY_QUERY)


COLUMNS = {
    "i2": ("int2", -7), "i4": ("int4", 2147483647), "i8": ("int8", 9007199254740993), "n": ("numeric(20, 5)", decimal.Decimal("12345678901.12345")),
    "f8": ("float8", 0.1), "b": ("bool", True), "t": ("text", "ünïcødé ' \" \\"), "by": ("bytea", b"\x00\x01\xff"), "j": ("json", {"a": [1, None]}),
    "jb": ("jsonb", {"b": "é"}), "u": ("uuid", uuid.UUID(int=7)), "d": ("date", datetime.date(2024, 2, 29)),
    "ts": ("timestamp", datetime.datetime(2024, 2, 29, 12, 34, 56, 789)), "tz": ("timestamptz", datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)),
    "ti": ("time", datetime.time(1, 2, 3)), "iv": ("interval", datetime.timedelta(days=1, seconds=3)), "ia": ("int[]", [1, 2, None]),
    "ta": ("text[]", ["a,b", 'c"d', "", None]), "na": ("int[]", [[1, 2], [3, 4]]), "r": ("int4range", Range(1, 5)), "nil": ("text", None),
}


def types_both_ways(binary: bool):
    with connect() as c:
        c.execute("drop table if exists psy_types")
        c.execute(f"create table psy_types (id int primary key, {', '.join(f'{n} {t}' for n, (t, _) in COLUMNS.items())})")
        wrap = {"j": Json, "jb": Jsonb}
        values = [wrap.get(n, lambda v: v)(v) for n, (_, v) in COLUMNS.items()]
        mark = "%b" if binary else "%t"
        for key in (1, 2):
            c.execute(f"insert into psy_types values ({', '.join([mark] * (len(values) + 1))})", [key, *values])
        for row in c.execute(f"select * from psy_types where id > {mark} order by id", [0], binary=binary).fetchall():
            for (name, (_, value)), got in zip(COLUMNS.items(), row[1:]):
                assert got == value, f"{name}: {got!r} is not {value!r}"


@check
def types_both_ways_as_text():
    types_both_ways(False)


@check
def types_both_ways_in_binary():
    types_both_ways(True)


@check
def parameter_types_are_found():
    with connect() as c:
        equal(c.execute("select %s, %s, pg_typeof(%s)::text", [1, "x", 70000]).fetchone(), (1, "x", "integer"))
        equal(one(c, "select %s::int8 = any(%s)", [3, [1, 2, 3]]), True)


@check
def enum():
    with connect() as c:
        c.execute("drop table if exists psy_moods; drop type if exists psy_mood; create type psy_mood as enum ('sad', 'ok', 'happy')")
        register_enum(EnumInfo.fetch(c, "psy_mood"), c)
        c.execute("create table psy_moods (id int primary key, m psy_mood, ms psy_mood[])")
        mood = c.execute("select 'happy'::psy_mood").fetchone()[0]
        for binary in (True, False):
            c.execute("delete from psy_moods")
            mark = "%b" if binary else "%t"
            c.execute(f"insert into psy_moods values (%s, {mark}, {mark})", [1, mood, [mood, type(mood).sad]])
            row = c.execute(f"select m, ms from psy_moods where m = {mark}", [mood], binary=binary).fetchone()
            equal(row, (mood, [mood, type(mood).sad]))


@check
def composite():
    from psycopg.types.composite import CompositeInfo, register_composite

    with connect() as c:
        c.execute("drop table if exists psy_points; drop type if exists psy_point; create type psy_point as (x int, label text)")
        info = CompositeInfo.fetch(c, "psy_point")
        register_composite(info, c)
        c.execute("create table psy_points (id int primary key, p psy_point, ps psy_point[])")
        point = info.python_type(1, "a, b")
        for binary in (True, False):
            c.execute("delete from psy_points")
            mark = "%b" if binary else "%t"
            c.execute(f"insert into psy_points values (1, {mark}, {mark})", [point, [point, point]])
            equal(c.execute("select p, ps from psy_points", binary=binary).fetchone(), (point, [point, point]))


@check
def prepared_threshold():
    with connect() as c:
        for i in range(30):
            equal(one(c, "select %s::int + 1", [i]), i + 1)
        c.prepare_threshold = 0
        for i in range(300):
            equal(one(c, f"select {i} + %s::int", [1]), i + 1)
        c.execute("deallocate all")
        equal(one(c, "select %s::int + 1", [4]), 5)


@check
def prepared_statement_after_a_schema_change():
    with connect() as c:
        c.execute("drop table if exists psy_changing; create table psy_changing (id int primary key, a int); insert into psy_changing values (1, 2)")
        read = "select a from psy_changing where id = %s"
        equal(one(c, read, [1], prepare=True), 2)
        c.execute("alter table psy_changing add column b text default 'new'")
        equal(one(c, read, [1], prepare=True), 2)
        c.execute("alter table psy_changing alter column a type text using a::text")
        equal(one(c, read, [1], prepare=True), "2")
        c.execute("drop table psy_changing")
        with refused("42P01"):
            c.execute(read, [1], prepare=True)


@check
def cached_plan_must_not_change_result_type():
    with connect() as c, connect() as other:
        c.execute("drop table if exists psy_changing; create table psy_changing (id int primary key, a int); insert into psy_changing values (1, 2)")
        read = "select * from psy_changing where id = %s"
        equal(c.execute(read, [1], prepare=True).fetchone(), (1, 2))
        other.execute("alter table psy_changing add column b text default 'new'")
        with refused("0A000") as caught:
            c.execute(read, [1], prepare=True)
        assert "cached plan must not change result type" in str(caught[0]), caught
        c.execute("deallocate all")
        equal(c.execute(read, [1], prepare=True).fetchone(), (1, 2, "new"))


@check
def transaction_commits_and_rolls_back():
    with connect() as c:
        c.execute("drop table if exists psy_tx; create table psy_tx (id int primary key)")
    with psycopg.connect("") as c:
        c.execute("insert into psy_tx values (1)")
        c.commit()
        c.execute("insert into psy_tx values (2)")
        c.rollback()
        equal(c.execute("select id from psy_tx").fetchall(), [(1,)])


@check
def nested_transactions():
    with connect() as c:
        c.execute("drop table if exists psy_tx; create table psy_tx (id int primary key)")
        with c.transaction():
            c.execute("insert into psy_tx values (1)")
            with refused("23505"), c.transaction():
                c.execute("insert into psy_tx values (2)")
                c.execute("insert into psy_tx values (1)")
            with c.transaction(force_rollback=True):
                c.execute("insert into psy_tx values (3)")
            with c.transaction("named"):
                c.execute("insert into psy_tx values (4)")
        equal(c.execute("select id from psy_tx order by id").fetchall(), [(1,), (4,)])


@check
def failed_transaction():
    with connect() as c:
        c.execute("begin")
        with refused("42P01"):
            c.execute("select * from psy_missing")
        equal(c.info.transaction_status, pq.TransactionStatus.INERROR)
        with refused("25P02"):
            c.execute("select %s", [1])
        equal(c.execute("commit").statusmessage, "ROLLBACK")
        equal(c.info.transaction_status, pq.TransactionStatus.IDLE)


@check
def characteristics_of_transactions():
    with psycopg.connect("") as c:
        c.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        c.read_only = True
        equal(one(c, "show transaction_isolation"), "serializable")
        with refused("25006"):
            c.execute("create table psy_never (i int)")


@check
def two_phase_commit_by_the_client():
    with psycopg.connect("") as c:
        c.execute("drop table if exists psy_2pc")
        c.execute("create table psy_2pc (id int)")
        c.commit()
        c.tpc_begin("psy-gid")
        c.execute("insert into psy_2pc values (1)")
        c.tpc_prepare()
        c.tpc_commit()
        equal(one(c, "select count(*) from psy_2pc"), 1)


@check
def fields_of_an_error():
    with connect() as c:
        c.execute("drop table if exists psy_errors; create table psy_errors (id int primary key, n int not null check (n > 0))")
        c.execute("insert into psy_errors values (1, 1)")
        with refused("23505") as caught:
            c.execute("insert into psy_errors values (%s, 1)", [1])
        diag = caught[0].diag
        equal((diag.table_name, diag.constraint_name, diag.schema_name, diag.message_detail),
              ("psy_errors", "psy_errors_pkey", "public", "Key (id)=(1) already exists."))
        with refused("23502") as caught:
            c.execute("insert into psy_errors values (2)")
        equal(caught[0].diag.column_name, "n")
        with refused("42703") as caught:
            c.execute("select id, nothing from psy_errors where id = %s", [1])
        equal(caught[0].diag.statement_position, "12")
        for sqlstate, query, values in [("23514", "insert into psy_errors values (2, -1)", []), ("22P02", "select %s::int", ["abc"]),
                                        ("22012", "select 1 / %s", [0]), ("42601", "selct 1", []), ("42883", "select nothing(%s)", [1])]:
            with refused(sqlstate):
                c.execute(query, values)


@check
def notices():
    with connect() as c:
        seen = []
        c.add_notice_handler(lambda d: seen.append((d.severity, d.message_primary)))
        c.execute("drop table if exists psy_not_there")
        equal(seen, [("NOTICE", 'table "psy_not_there" does not exist, skipping')])


@check
def listen_and_notify():
    with connect() as listener, connect() as sender:
        listener.execute("listen psy_channel")
        sender.execute("notify psy_channel, 'one'")
        sender.execute("select pg_notify(%s, %s)", ["psy_channel", "two"])
        heard = [(n.channel, n.payload) for n in listener.notifies(timeout=5, stop_after=2)]
        equal(heard, [("psy_channel", "one"), ("psy_channel", "two")])


@check
def notification_tells_the_senders_pid():
    with connect() as c:
        c.execute("listen psy_own")
        c.execute("notify psy_own")
        [note] = c.notifies(timeout=5, stop_after=1)
        equal(note.pid, c.info.backend_pid)


def cancelled_by(c, cancel):
    timer = threading.Timer(0.3, cancel)
    timer.start()
    with refused("57014"):
        c.execute("select pg_sleep(20)")
    timer.join()
    equal(one(c, "select 1"), 1)


@check
def cancel():
    with connect() as c:
        cancelled_by(c, c.cancel)


@check
def cancel_over_tls():
    with connect(sslmode="require") as c:
        cancelled_by(c, c.cancel_safe)


@check
def cancel_in_a_transaction():
    with connect() as c:
        c.execute("begin")
        threading.Timer(0.3, c.cancel).start()
        with refused("57014"):
            c.execute("select pg_sleep(20)")
        equal(c.info.transaction_status, pq.TransactionStatus.INERROR)
        c.execute("rollback")


@check
def statement_time_out():
    with connect() as c:
        c.execute("set statement_timeout = '200ms'")
        with refused("57014"):
            c.execute("select pg_sleep(5)")
        c.execute("reset statement_timeout")
        equal(one(c, "select 1"), 1)


@check
def session_settings_stay():
    with connect() as c:
        c.execute("set search_path to pg_catalog, public")
        c.execute("select set_config('app.account', %s, false)", ["7"])
        with c.transaction():
            c.execute("set local work_mem = '9MB'")
        with refused("22012"), c.transaction():
            c.execute("set app.account = 'other'")
            c.execute("select 1/0")
        for _ in range(5):
            with connect() as other:
                equal(one(other, "select current_setting('app.account', true)") or None, None)
        equal(one(c, "show search_path"), "pg_catalog, public")
        equal(one(c, "show app.account"), "7")
        assert one(c, "show work_mem") != "9MB"


@check
def temporary_tables():
    with connect() as c, connect() as other:
        c.execute("create temp table psy_temp as select i from generate_series(1, 10) i")
        with refused("42P01"):
            other.execute("select * from psy_temp")
        equal(one(c, "select sum(i) from psy_temp"), 55)


@check
def session_advisory_lock():
    with connect() as a, connect() as b:
        a.execute("select pg_advisory_lock(515151)")
        equal(one(b, "select pg_try_advisory_lock(515151)"), False)
        equal(one(a, "select pg_advisory_unlock(515151)"), True)
        equal(one(b, "select pg_try_advisory_lock(515151)"), True)


@check
def discard_all():
    with connect() as c:
        c.execute("set work_mem = '9MB'")
        c.execute("select %s", [1], prepare=True)
        c.execute("discard all")
        assert one(c, "show work_mem") != "9MB"
        c.execute("select %s", [1])


@check
def many_connections():
    connections = [connect() for _ in range(80)]
    try:
        for round_ in range(3):
            for i, c in enumerate(connections):
                equal(one(c, "select %s * 2", [i + round_]), 2 * (i + round_))
    finally:
        for c in connections:
            c.close()


@check
def threads_at_once():
    def work(number):
        with connect() as c:
            for i in range(50):
                if one(c, "select %s::int * 1000 + %s::int", [number, i], prepare=True) != number * 1000 + i:
                    wrong.append((number, i))
        done.append(number)

    wrong, done = [], []
    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(done) == 20, "twenty threads")
    equal(wrong, [])


@check
def connection_is_checked_and_closed():
    with connect() as c:
        c.execute("")
        started = time.monotonic()
    assert c.closed and time.monotonic() - started < 2
