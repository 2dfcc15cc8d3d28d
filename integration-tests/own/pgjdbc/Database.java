import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Connections and short ways to run a statement. */
final class Database {
    static String environment(String name) {
        return System.getenv(name);
    }

    static String url(String options) {
        return "jdbc:postgresql://" + environment("PGHOST") + ":" + environment("PGPORT") + "/" + environment("PGDATABASE") + "?user="
            + environment("PGUSER") + "&password=" + environment("PGPASSWORD") + (options.isEmpty() ? "" : "&" + options);
    }

    static Connection connect() throws SQLException {
        return connect("");
    }

    static Connection connect(String options) throws SQLException {
        return DriverManager.getConnection(url(options));
    }

    static void run(Connection c, String... texts) throws SQLException {
        try (Statement s = c.createStatement()) {
            for (String text : texts) {
                s.execute(text);
            }
        }
    }

    static PreparedStatement prepared(Connection c, String text, Object... values) throws SQLException {
        PreparedStatement s = c.prepareStatement(text);
        for (int i = 0; i < values.length; i++) {
            s.setObject(i + 1, values[i]);
        }
        return s;
    }

    /** The rows of a query, each value as the driver gives it. */
    static List<List<Object>> rows(Connection c, String text, Object... values) throws SQLException {
        try (PreparedStatement s = prepared(c, text, values); ResultSet r = s.executeQuery()) {
            return rows(r);
        }
    }

    static List<List<Object>> rows(ResultSet r) throws SQLException {
        List<List<Object>> rows = new ArrayList<>();
        int columns = r.getMetaData().getColumnCount();
        while (r.next()) {
            Object[] row = new Object[columns];
            for (int i = 0; i < columns; i++) {
                row[i] = r.getObject(i + 1);
            }
            rows.add(Arrays.asList(row));
        }
        return rows;
    }

    static Object one(Connection c, String text, Object... values) throws SQLException {
        return rows(c, text, values).get(0).get(0);
    }

    static int update(Connection c, String text, Object... values) throws SQLException {
        try (PreparedStatement s = prepared(c, text, values)) {
            return s.executeUpdate();
        }
    }
}
