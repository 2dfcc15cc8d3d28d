import java.math.BigDecimal;
import java.sql.Array;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.PGStatement;
import org.postgresql.util.PGobject;

/** Connecting, statements, types, prepared statements, transactions, errors, notifications, cancel. */
final class Basics {
    static void add(Checks checks) {
        connecting(checks);
        types(checks);
        prepared(checks);
        transactions(checks);
        sessions(checks);
    }

    private static void connecting(Checks checks) {
        checks.add("connect without TLS", () -> {
            try (Connection c = Database.connect("sslmode=disable")) {
                Checks.equal(Database.one(c, "select current_database()"), Database.environment("PGDATABASE"));
                Checks.equal(c.isValid(2), true);
            }
        });
        checks.add("connect with TLS and a verified certificate", () -> {
            try (Connection c = Database.connect("sslmode=verify-full&sslrootcert=" + Database.environment("SHARDWAY_CA"))) {
                Checks.equal(Database.one(c, "select ? + 1", 41), 42);
            }
        });
        checks.add("options of the connection", () -> {
            try (Connection c = Database.connect("ApplicationName=checks&currentSchema=pg_catalog,public&options=-c%20work_mem=5MB&readOnly=true")) {
                Checks.equal(Database.one(c, "show application_name"), "checks");
                Checks.equal(Database.one(c, "show search_path"), "pg_catalog,public");
                Checks.equal(Database.one(c, "show work_mem"), "5MB");
                Checks.equal(c.getSchema(), "pg_catalog");
            }
        });
        checks.add("client info", () -> {
            try (Connection c = Database.connect()) {
                c.setClientInfo("ApplicationName", "renamed");
                Checks.equal(Database.one(c, "show application_name"), "renamed");
                Checks.equal(c.getMetaData().getDatabaseProductName(), "PostgreSQL");
            }
        });
        checks.add("simple query mode", () -> {
            try (Connection c = Database.connect("preferQueryMode=simple")) {
                Checks.equal(Database.one(c, "select ? + 1", 41), 42);
                Checks.equal(Database.one(c, "select ?::text", "it's"), "it's");
            }
        });
        checks.add("extended for prepared only", () -> {
            try (Connection c = Database.connect("preferQueryMode=extendedForPrepared")) {
                Database.run(c, "select 1");
                Checks.equal(Database.one(c, "select ? + 1", 41), 42);
            }
        });
        checks.add("extended with cache of everything", () -> {
            try (Connection c = Database.connect("preferQueryMode=extendedCacheEverything")) {
                for (int i = 0; i < 10; i++) {
                    Database.run(c, "select 1", "select 2");
                    Checks.equal(Database.one(c, "select ?", i), i);
                }
            }
        });
        checks.add("several statements in one", () -> {
            try (Connection c = Database.connect(); Statement s = c.createStatement()) {
                Checks.equal(s.execute("select 1; select 2, 3"), true);
                Checks.equal(Database.rows(s.getResultSet()), List.of(List.of(1)));
                Checks.equal(s.getMoreResults(), true);
                Checks.equal(Database.rows(s.getResultSet()), List.of(List.of(2, 3)));
            }
        });
        checks.add("empty statement", () -> {
            try (Connection c = Database.connect(); Statement s = c.createStatement()) {
                Checks.equal(s.execute(""), false);
                Checks.equal(s.execute("-- nothing"), false);
            }
        });
        checks.add("many connections", () -> {
            List<Connection> all = new ArrayList<>();
            try {
                for (int i = 0; i < 60; i++) {
                    all.add(Database.connect());
                }
                for (int i = 0; i < all.size(); i++) {
                    Checks.equal(Database.one(all.get(i), "select ? * 2", i), i * 2);
                }
            } finally {
                for (Connection c : all) {
                    c.close();
                }
            }
        });
    }

    private static void types(Checks checks) {
        for (boolean binary : new boolean[] {false, true}) {
            checks.add("types both ways, " + (binary ? "binary" : "text"), () -> types(binary));
        }
        checks.add("enum and own types", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_moods; drop type if exists jdbc_mood", "create type jdbc_mood as enum ('sad', 'ok', 'happy')",
                    "create table jdbc_moods (id int primary key, m jdbc_mood, ms jdbc_mood[])");
                PGobject mood = new PGobject();
                mood.setType("jdbc_mood");
                mood.setValue("happy");
                Array moods = c.createArrayOf("jdbc_mood", new Object[] {"sad", "ok"});
                for (int i = 0; i < 8; i++) {
                    Database.update(c, "insert into jdbc_moods values (?, ?, ?)", i, mood, moods);
                }
                try (PreparedStatement s = Database.prepared(c, "select m, ms from jdbc_moods where m = ? and id = 3", mood); ResultSet r = s.executeQuery()) {
                    r.next();
                    Checks.equal(r.getString(1), "happy");
                    Checks.equal((Object[]) r.getArray(2).getArray(), new Object[] {"sad", "ok"});
                    Checks.equal(r.getMetaData().getColumnTypeName(1), "jdbc_mood");
                }
                Checks.refused("22P02", () -> Database.update(c, "insert into jdbc_moods values (100, ?::jdbc_mood)", "angry"));
            }
        });
        checks.add("nulls", () -> {
            try (Connection c = Database.connect(); PreparedStatement s = c.prepareStatement("select ?::int, ?::text, ?::numeric is null")) {
                s.setNull(1, Types.INTEGER);
                s.setNull(2, Types.VARCHAR);
                s.setNull(3, Types.NUMERIC);
                ResultSet r = s.executeQuery();
                r.next();
                Checks.equal(r.getObject(1), null);
                Checks.equal(r.getString(2), null);
                Checks.equal(r.getBoolean(3), true);
            }
        });
        checks.add("metadata of statement and parameters", () -> {
            try (Connection c = Database.connect(); PreparedStatement s = c.prepareStatement("select ?::int8 as a, ?::text as b, now() as c")) {
                Checks.equal(s.getParameterMetaData().getParameterTypeName(1), "int8");
                Checks.equal(s.getParameterMetaData().getParameterCount(), 2);
                Checks.equal(s.getMetaData().getColumnName(2), "b");
                Checks.equal(s.getMetaData().getColumnTypeName(3), "timestamptz");
                s.setLong(1, 5);
                s.setString(2, "x");
                ResultSet r = s.executeQuery();
                r.next();
                Checks.equal(r.getLong(1), 5L);
            }
        });
    }

    private static void types(boolean binary) throws Exception {
        try (Connection c = Database.connect("binaryTransfer=" + binary + "&prepareThreshold=" + (binary ? "-1" : "5"))) {
            Database.run(c, "drop table if exists jdbc_types", "create table jdbc_types (id int primary key, i2 int2, i4 int4, i8 int8, n numeric(20, 5),"
                + " f8 float8, b bool, t text, by bytea, jb jsonb, u uuid, d date, ts timestamp, tz timestamptz, ia int[], ta text[])");
            PGobject json = new PGobject();
            json.setType("jsonb");
            json.setValue("{\"a\": [1, null]}");
            UUID uuid = UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
            OffsetDateTime moment = OffsetDateTime.of(2024, 2, 29, 12, 34, 56, 789_000_000, ZoneOffset.UTC);
            for (int id = 0; id < 8; id++) {
                Database.update(c, "insert into jdbc_types values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", id, (short) -7, 2147483647,
                    9007199254740993L, new BigDecimal("12345678901.12345"), 0.1, true, "ünïcødé ' \" \\", new byte[] {0, 1, -1}, json, uuid,
                    LocalDate.of(2024, 2, 29), LocalDateTime.of(2024, 2, 29, 12, 34, 56), moment, c.createArrayOf("int4", new Object[] {1, 2, null}),
                    c.createArrayOf("text", new Object[] {"a,b", "c\"d", ""}));
            }
            for (int id = 0; id < 8; id++) {
                try (PreparedStatement s = Database.prepared(c, "select * from jdbc_types where id = ?", id); ResultSet r = s.executeQuery()) {
                    Checks.equal(r.next(), true);
                    Checks.equal(r.getShort("i2"), (short) -7);
                    Checks.equal(r.getLong("i8"), 9007199254740993L);
                    Checks.equal(r.getBigDecimal("n"), new BigDecimal("12345678901.12345"));
                    Checks.equal(r.getDouble("f8"), 0.1);
                    Checks.equal(r.getBoolean("b"), true);
                    Checks.equal(r.getString("t"), "ünïcødé ' \" \\");
                    Checks.equal(r.getBytes("by"), new byte[] {0, 1, -1});
                    Checks.equal(r.getString("jb"), "{\"a\": [1, null]}");
                    Checks.equal(r.getObject("u"), uuid);
                    Checks.equal(r.getObject("d", LocalDate.class), LocalDate.of(2024, 2, 29));
                    Checks.equal(r.getObject("ts", LocalDateTime.class), LocalDateTime.of(2024, 2, 29, 12, 34, 56));
                    Checks.equal(r.getObject("tz", OffsetDateTime.class), moment);
                    Checks.equal((Object[]) r.getArray("ia").getArray(), new Object[] {1, 2, null});
                    Checks.equal((Object[]) r.getArray("ta").getArray(), new Object[] {"a,b", "c\"d", ""});
                }
            }
        }
    }

    private static void prepared(Checks checks) {
        checks.add("server-prepared after five uses", () -> {
            try (Connection c = Database.connect(); PreparedStatement s = c.prepareStatement("select ? + 1")) {
                for (int i = 0; i < 20; i++) {
                    s.setInt(1, i);
                    ResultSet r = s.executeQuery();
                    r.next();
                    Checks.equal(r.getInt(1), i + 1);
                }
                Checks.equal(s.unwrap(PGStatement.class).isUseServerPrepare(), true);
            }
        });
        checks.add("more statements than the cache holds", () -> {
            try (Connection c = Database.connect("prepareThreshold=1&preparedStatementCacheQueries=10")) {
                for (int round = 0; round < 3; round++) {
                    for (int i = 0; i < 40; i++) {
                        Checks.equal(Database.one(c, "select " + i + " + ?", 1), i + 1);
                    }
                }
            }
        });
        checks.add("prepared statement after a schema change", () -> {
            try (Connection c = Database.connect("prepareThreshold=1"); Connection other = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_changing", "create table jdbc_changing (id int primary key, a int)", "insert into jdbc_changing values (1, 2)");
                PreparedStatement s = c.prepareStatement("select * from jdbc_changing where id = ?");
                s.setInt(1, 1);
                for (int i = 0; i < 3; i++) {
                    Checks.equal(Database.rows(s.executeQuery()), List.of(List.of(1, 2)));
                }
                Database.run(other, "alter table jdbc_changing add column b text default 'new'");
                // In autocommit the driver prepares again by itself.
                Checks.equal(Database.rows(s.executeQuery()), List.of(List.of(1, 2, "new")));
                Database.run(other, "alter table jdbc_changing drop column b");
                Checks.equal(Database.rows(s.executeQuery()), List.of(List.of(1, 2)));
            }
        });
        checks.add("schema change inside a transaction", () -> {
            try (Connection c = Database.connect("prepareThreshold=1"); Connection other = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_changing", "create table jdbc_changing (id int primary key, a int)", "insert into jdbc_changing values (1, 2)");
                PreparedStatement s = c.prepareStatement("select * from jdbc_changing where id = ?");
                s.setInt(1, 1);
                s.executeQuery();
                s.executeQuery();
                Database.run(other, "alter table jdbc_changing add column b int");
                c.setAutoCommit(false);
                Database.run(c, "select 1");
                Checks.refused("0A000", s::executeQuery);
                c.rollback();
                c.setAutoCommit(true);
                Checks.equal(Database.rows(s.executeQuery()), List.of(Arrays.asList(1, 2, null)));
            }
        });
        checks.add("batch of a prepared statement", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_batch", "create table jdbc_batch (id int primary key, t text)");
                try (PreparedStatement s = c.prepareStatement("insert into jdbc_batch values (?, ?)")) {
                    for (int i = 0; i < 500; i++) {
                        s.setInt(1, i);
                        s.setString(2, "row " + i);
                        s.addBatch();
                    }
                    Checks.equal(Arrays.stream(s.executeBatch()).sum(), 500);
                    s.setInt(1, 1000);
                    s.setString(2, "new");
                    s.addBatch();
                    s.setInt(1, 3);
                    s.setString(2, "twice");
                    s.addBatch();
                    Checks.refused("23505", s::executeBatch);
                }
                Checks.equal(Database.one(c, "select count(*) from jdbc_batch"), 500L);
            }
        });
        checks.add("batch with rewritten inserts", () -> {
            try (Connection c = Database.connect("reWriteBatchedInserts=true")) {
                Database.run(c, "drop table if exists jdbc_batch", "create table jdbc_batch (id int primary key, t text)");
                try (PreparedStatement s = c.prepareStatement("insert into jdbc_batch values (?, ?)")) {
                    for (int i = 0; i < 300; i++) {
                        s.setInt(1, i);
                        s.setString(2, "row");
                        s.addBatch();
                    }
                    s.executeBatch();
                }
                Checks.equal(Database.one(c, "select count(*) from jdbc_batch"), 300L);
            }
        });
        checks.add("batch of different statements", () -> {
            try (Connection c = Database.connect(); Statement s = c.createStatement()) {
                s.addBatch("drop table if exists jdbc_batch");
                s.addBatch("create table jdbc_batch (id int primary key, t text)");
                s.addBatch("insert into jdbc_batch values (1, 'a'), (2, 'b')");
                s.addBatch("update jdbc_batch set t = 'c'");
                Checks.equal(s.executeBatch(), new int[] {0, 0, 2, 2});
            }
        });
        checks.add("batch with generated keys", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_keys", "create table jdbc_keys (id serial primary key, t text)");
                try (PreparedStatement s = c.prepareStatement("insert into jdbc_keys (t) values (?)", Statement.RETURN_GENERATED_KEYS)) {
                    for (int i = 0; i < 20; i++) {
                        s.setString(1, "row " + i);
                        s.addBatch();
                    }
                    s.executeBatch();
                    Checks.equal(Database.rows(s.getGeneratedKeys()).size(), 20);
                }
            }
        });
    }

    private static void transactions(Checks checks) {
        checks.add("transaction commits and rolls back", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_tx", "create table jdbc_tx (id int primary key)");
                c.setAutoCommit(false);
                Database.update(c, "insert into jdbc_tx values (?)", 1);
                c.commit();
                Database.update(c, "insert into jdbc_tx values (?)", 2);
                c.rollback();
                Checks.equal(Database.rows(c, "select id from jdbc_tx"), List.of(List.of(1)));
                for (int i = 10; i < 30; i++) {
                    Database.update(c, "insert into jdbc_tx values (?)", i);
                    if (i % 2 == 0) c.commit(); else c.rollback();
                }
                Checks.equal(Database.one(c, "select count(*) from jdbc_tx"), 11L);
            }
        });
        checks.add("savepoints", () -> {
            try (Connection c = Database.connect("autosave=never")) {
                Database.run(c, "drop table if exists jdbc_tx", "create table jdbc_tx (id int primary key)");
                c.setAutoCommit(false);
                Database.update(c, "insert into jdbc_tx values (1)");
                Savepoint s = c.setSavepoint("a point");
                Checks.refused("23505", () -> Database.update(c, "insert into jdbc_tx values (1)"));
                Checks.refused("25P02", () -> Database.one(c, "select 1"));
                c.rollback(s);
                Database.update(c, "insert into jdbc_tx values (2)");
                c.releaseSavepoint(s);
                c.commit();
                Checks.equal(Database.one(c, "select count(*) from jdbc_tx"), 2L);
            }
        });
        checks.add("autosave", () -> {
            try (Connection c = Database.connect("autosave=always")) {
                Database.run(c, "drop table if exists jdbc_tx", "create table jdbc_tx (id int primary key)");
                c.setAutoCommit(false);
                Database.update(c, "insert into jdbc_tx values (1)");
                Checks.refused("23505", () -> Database.update(c, "insert into jdbc_tx values (1)"));
                Database.update(c, "insert into jdbc_tx values (2)");
                c.commit();
                Checks.equal(Database.one(c, "select count(*) from jdbc_tx"), 2L);
            }
        });
        checks.add("characteristics of transactions", () -> {
            try (Connection c = Database.connect()) {
                c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                c.setReadOnly(true);
                c.setAutoCommit(false);
                Checks.equal(Database.one(c, "show transaction_isolation"), "serializable");
                Checks.refused("25006", () -> Database.update(c, "create table jdbc_never (id int)"));
                c.rollback();
                Checks.equal(c.getTransactionIsolation(), Connection.TRANSACTION_SERIALIZABLE);
            }
        });
        checks.add("fetch size in a transaction", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_events", "create table jdbc_events (tenant_id bigint, id int, primary key (tenant_id, id))",
                    "insert into jdbc_events select i % 10, i from generate_series(1, 1000) i");
                c.setAutoCommit(false);
                try (PreparedStatement s = Database.prepared(c, "select id from jdbc_events where id > ? order by id", 10)) {
                    s.setFetchSize(77);
                    ResultSet r = s.executeQuery();
                    int next = 11;
                    while (r.next()) {
                        Checks.equal(r.getInt(1), next++);
                        if (next % 200 == 0) {
                            Checks.equal(Database.one(c, "select 7"), 7);
                        }
                    }
                    Checks.equal(next, 1001);
                }
                c.commit();
            }
        });
        checks.add("fields of an error", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_errors", "create table jdbc_errors (id int primary key, n int not null check (n > 0))");
                Database.update(c, "insert into jdbc_errors values (?, 1)", 1);
                var message = Checks.refused("23505", () -> Database.update(c, "insert into jdbc_errors values (?, 1)", 1)).getServerErrorMessage();
                Checks.equal(List.of(message.getTable(), message.getConstraint(), message.getDetail()), List.of("jdbc_errors", "jdbc_errors_pkey", "Key (id)=(1) already exists."));
                Checks.refused("23502", () -> Database.update(c, "insert into jdbc_errors values (?)", 2));
                Checks.refused("23514", () -> Database.update(c, "insert into jdbc_errors values (2, ?)", -1));
                Checks.refused("22P02", () -> Database.one(c, "select ?::int", "abc"));
                Checks.refused("42P01", () -> Database.one(c, "select * from jdbc_missing where id = ?", 1));
                Checks.refused("42601", () -> Database.run(c, "selct 1"));
                Checks.equal(Checks.refused("42703", () -> Database.run(c, "select id, nothing from jdbc_errors")).getServerErrorMessage().getPosition(), 12);
            }
        });
    }

    private static void sessions(Checks checks) {
        checks.add("warnings", () -> {
            try (Connection c = Database.connect(); Statement s = c.createStatement()) {
                s.execute("drop table if exists jdbc_not_there");
                Checks.equal(s.getWarnings().getMessage(), "table \"jdbc_not_there\" does not exist, skipping");
            }
        });
        checks.add("listen and notify", () -> {
            try (Connection listener = Database.connect(); Connection sender = Database.connect()) {
                Database.run(listener, "listen jdbc_channel");
                Database.run(sender, "notify jdbc_channel, 'one'");
                Database.one(sender, "select pg_notify('jdbc_channel', ?)", "two");
                List<String> heard = new ArrayList<>();
                for (int tries = 0; tries < 100 && heard.size() < 2; tries++) {
                    PGNotification[] some = listener.unwrap(PGConnection.class).getNotifications(100);
                    for (PGNotification n : some == null ? new PGNotification[0] : some) {
                        heard.add(n.getName() + " " + n.getParameter());
                    }
                }
                Checks.equal(heard, List.of("jdbc_channel one", "jdbc_channel two"));
            }
        });
        checks.add("cancel", () -> {
            try (Connection c = Database.connect(); Statement s = c.createStatement()) {
                Thread canceller = new Thread(() -> {
                    try {
                        Thread.sleep(300);
                        s.cancel();
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                });
                canceller.start();
                Checks.refused("57014", () -> s.execute("select pg_sleep(20)"));
                canceller.join();
                Checks.equal(Database.one(c, "select 1"), 1);
            }
        });
        checks.add("query time-out", () -> {
            try (Connection c = Database.connect(); Statement s = c.createStatement()) {
                s.setQueryTimeout(1);
                Checks.refused("57014", () -> s.execute("select pg_sleep(20)"));
                Checks.equal(Database.one(c, "select 1"), 1);
            }
        });
        checks.add("session settings stay", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "set app.tenant = '7'", "set search_path to pg_catalog, public");
                for (int i = 0; i < 5; i++) {
                    try (Connection other = Database.connect()) {
                        Object seen = Database.one(other, "select current_setting('app.tenant', true)");
                        Checks.equal(seen == null || seen.equals(""), true);
                    }
                }
                Checks.equal(Database.one(c, "show app.tenant"), "7");
                c.setSchema("public");
                Checks.equal(Database.one(c, "show search_path"), "public");
            }
        });
        checks.add("temporary tables", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "create temp table jdbc_temp (id int)", "insert into jdbc_temp values (1), (2)");
                Checks.equal(Database.one(c, "select count(*) from jdbc_temp"), 2L);
            }
        });
        checks.add("call of a function", () -> {
            try (Connection c = Database.connect(); CallableStatement s = c.prepareCall("{? = call upper(?)}")) {
                s.registerOutParameter(1, Types.VARCHAR);
                s.setString(2, "abc");
                s.execute();
                Checks.equal(s.getString(1), "ABC");
            }
        });
        checks.add("large object", () -> {
            try (Connection c = Database.connect()) {
                c.setAutoCommit(false);
                var manager = c.unwrap(PGConnection.class).getLargeObjectAPI();
                long oid = manager.createLO();
                var object = manager.open(oid);
                object.write("hello".getBytes());
                object.close();
                object = manager.open(oid);
                Checks.equal(new String(object.read(100)), "hello");
                object.close();
                manager.delete(oid);
                c.commit();
            }
        });
        checks.add("threads at once", () -> {
            ExecutorService threads = Executors.newFixedThreadPool(20);
            List<Future<Integer>> running = new ArrayList<>();
            for (int n = 0; n < 20; n++) {
                int number = n;
                Callable<Integer> work = () -> {
                    int wrong = 0;
                    try (Connection c = Database.connect()) {
                        for (int i = 0; i < 60; i++) {
                            if (!Database.one(c, "select ?::int * 1000 + ?::int", number, i).equals(number * 1000 + i)) wrong++;
                        }
                    }
                    return wrong;
                };
                running.add(threads.submit(work));
            }
            for (Future<Integer> one : running) {
                Checks.equal(one.get(), 0);
            }
            threads.shutdown();
        });
        checks.add("metadata of the database", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_meta", "create table jdbc_meta (id serial primary key, name varchar(20) not null default 'x', n numeric(10, 2))",
                    "create index jdbc_meta_name on jdbc_meta (name)");
                DatabaseMetaData meta = c.getMetaData();
                List<String> names = new ArrayList<>();
                try (ResultSet r = meta.getColumns(null, "public", "jdbc_meta", null)) {
                    while (r.next()) {
                        names.add(r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME"));
                    }
                }
                Checks.equal(names, List.of("id serial", "name varchar", "n numeric"));
                try (ResultSet r = meta.getPrimaryKeys(null, "public", "jdbc_meta")) {
                    r.next();
                    Checks.equal(r.getString("COLUMN_NAME"), "id");
                }
                try (ResultSet r = meta.getIndexInfo(null, "public", "jdbc_meta", false, false)) {
                    Checks.equal(r.next(), true);
                }
                try (ResultSet r = meta.getTables(null, "public", "jdbc_meta", new String[] {"TABLE"})) {
                    Checks.equal(r.next(), true);
                }
                try (ResultSet r = meta.getTypeInfo()) {
                    Checks.equal(r.next(), true);
                }
            }
        });
        checks.add("updatable result set", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_updated", "create table jdbc_updated (id int primary key, t text)", "insert into jdbc_updated values (1, 'a')");
                try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_SENSITIVE, ResultSet.CONCUR_UPDATABLE); ResultSet r = s.executeQuery("select id, t from jdbc_updated")) {
                    r.next();
                    r.updateString("t", "b");
                    r.updateRow();
                    r.moveToInsertRow();
                    r.updateInt("id", 2);
                    r.updateString("t", "c");
                    r.insertRow();
                }
                Checks.equal(Database.rows(c, "select t from jdbc_updated order by id"), List.of(List.of("b"), List.of("c")));
            }
        });
    }
}
