import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.List;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;

/** A small application: tenants with orders, countries that all share; and COPY. */
final class Application {
    static void add(Checks checks) {
        checks.add("application schema and rows", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_orders, jdbc_tenants, jdbc_countries",
                    "create table jdbc_countries (code text primary key, name text not null)",
                    "create table jdbc_tenants (tenant_id bigint primary key, name text not null, country text references jdbc_countries)",
                    "create table jdbc_orders (tenant_id bigint references jdbc_tenants, order_id bigint generated always as identity, total numeric(12, 2) not null,"
                        + " primary key (tenant_id, order_id))");
                c.setAutoCommit(false);
                Database.update(c, "insert into jdbc_countries values ('ch', 'Switzerland'), ('se', 'Sweden')");
                try (PreparedStatement s = c.prepareStatement("insert into jdbc_tenants values (?, ?, ?)")) {
                    for (long i = 1; i <= 20; i++) {
                        s.setLong(1, i);
                        s.setString(2, "tenant " + i);
                        s.setString(3, i % 2 == 0 ? "ch" : "se");
                        s.addBatch();
                    }
                    s.executeBatch();
                }
                try (PreparedStatement s = c.prepareStatement("insert into jdbc_orders (tenant_id, total) values (?, ?)", new String[] {"order_id"})) {
                    for (long i = 1; i <= 20; i++) {
                        for (int n = 1; n <= 5; n++) {
                            s.setLong(1, i);
                            s.setBigDecimal(2, BigDecimal.valueOf(n * 10));
                            s.addBatch();
                        }
                    }
                    s.executeBatch();
                    Checks.equal(Database.rows(s.getGeneratedKeys()).stream().distinct().count(), 100L);
                }
                c.commit();
                Checks.equal(Database.one(c, "select count(*) from jdbc_orders"), 100L);
            }
        });
        checks.add("rows of tenants", () -> {
            try (Connection c = Database.connect("prepareThreshold=1")) {
                for (long tenant = 1; tenant <= 20; tenant++) {
                    Checks.equal(Database.one(c, "select sum(total) from jdbc_orders where tenant_id = ?", tenant), new BigDecimal("150.00"));
                }
                Checks.equal(Database.rows(c, "select tenant_id, count(*) from jdbc_orders where tenant_id = any(?) group by 1 order by 1", c.createArrayOf("int8", new Object[] {2, 11})),
                    List.of(List.of(2L, 5L), List.of(11L, 5L)));
            }
        });
        checks.add("joins and aggregates", () -> {
            try (Connection c = Database.connect("prepareThreshold=1")) {
                for (int i = 0; i < 3; i++) {
                    Checks.equal(Database.rows(c, "select c.name, count(*), sum(o.total), avg(o.total) from jdbc_tenants t join jdbc_countries c on c.code = t.country"
                            + " join jdbc_orders o using (tenant_id) where o.total > ? group by c.name order by c.name", new BigDecimal("5")),
                        List.of(List.of("Sweden", 50L, new BigDecimal("1500.00"), new BigDecimal("30.0000000000000000")),
                            List.of("Switzerland", 50L, new BigDecimal("1500.00"), new BigDecimal("30.0000000000000000"))));
                }
            }
        });
        checks.add("pagination", () -> {
            try (Connection c = Database.connect()) {
                int seen = 0;
                for (int offset = 0; offset < 100; offset += 30) {
                    seen += Database.rows(c, "select tenant_id, order_id from jdbc_orders order by tenant_id, order_id limit ? offset ?", 30, offset).size();
                }
                Checks.equal(seen, 100);
            }
        });
        checks.add("rows limited by the driver", () -> {
            try (Connection c = Database.connect(); Statement s = c.createStatement()) {
                s.setMaxRows(7);
                Checks.equal(Database.rows(s.executeQuery("select * from jdbc_orders")).size(), 7);
            }
        });
        checks.add("transaction over tenants", () -> {
            try (Connection c = Database.connect()) {
                c.setAutoCommit(false);
                for (long tenant = 1; tenant <= 4; tenant++) {
                    Checks.equal(Database.update(c, "update jdbc_orders set total = total + 1 where tenant_id = ?", tenant), 5);
                }
                c.commit();
                Checks.equal(Database.one(c, "select sum(total) from jdbc_orders"), new BigDecimal("3020.00"));
                Checks.equal(Database.update(c, "update jdbc_orders set total = total - 1 where tenant_id between ? and ?", 1L, 4L), 20);
                c.rollback();
                Checks.equal(Database.one(c, "select sum(total) from jdbc_orders"), new BigDecimal("3020.00"));
            }
        });
        checks.add("fetch size over tenants", () -> {
            try (Connection c = Database.connect()) {
                c.setAutoCommit(false);
                try (Statement s = c.createStatement()) {
                    s.setFetchSize(13);
                    ResultSet r = s.executeQuery("select tenant_id, order_id from jdbc_orders order by 1, 2");
                    int n = 0;
                    while (r.next()) n++;
                    Checks.equal(n, 100);
                }
                c.commit();
            }
        });
        checks.add("foreign keys", () -> {
            try (Connection c = Database.connect()) {
                Checks.refused("23503", () -> Database.update(c, "insert into jdbc_orders (tenant_id, total) values (?, 1)", 99L));
                Checks.refused("23503", () -> Database.update(c, "delete from jdbc_tenants where tenant_id = ?", 1L));
            }
        });
        checks.add("migration", () -> {
            try (Connection c = Database.connect()) {
                c.setAutoCommit(false);
                Database.run(c, "alter table jdbc_orders add column status text not null default 'new'", "create index on jdbc_orders (tenant_id, status)");
                c.commit();
                Checks.equal(Database.one(c, "select count(*) from jdbc_orders where status = ?", "new"), 100L);
                Database.run(c, "alter table jdbc_orders drop column status");
                c.rollback();
                Checks.equal(Database.one(c, "select count(*) from jdbc_orders where status = ?", "new"), 100L);
            }
        });
        checks.add("copy in and out", () -> {
            try (Connection c = Database.connect()) {
                Database.run(c, "drop table if exists jdbc_copied", "create table jdbc_copied (tenant_id bigint, id int, t text)");
                CopyManager manager = c.unwrap(PGConnection.class).getCopyAPI();
                StringBuilder text = new StringBuilder();
                for (int i = 0; i < 3000; i++) {
                    text.append(i % 7).append('\t').append(i).append("\trow ").append(i).append('\n');
                }
                Checks.equal(manager.copyIn("copy jdbc_copied from stdin", new StringReader(text.toString())), 3000L);
                StringWriter out = new StringWriter();
                Checks.equal(manager.copyOut("copy jdbc_copied to stdout", out), 3000L);
                Checks.equal(out.toString().lines().sorted().toList(), text.toString().lines().sorted().toList());
                Checks.refused("22P02", () -> manager.copyIn("copy jdbc_copied from stdin", new StringReader("1\tx\ty\n")));
                CopyIn given = manager.copyIn("copy jdbc_copied from stdin");
                given.writeToCopy("1\t1\ta\n".getBytes(), 0, 6);
                given.cancelCopy();
                Checks.equal(Database.one(c, "select count(*) from jdbc_copied"), 3000L);
            }
        });
    }
}
