import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executors;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Runs named checks and tells each outcome on a line of its own: `ok NAME` or `not ok NAME: reason`. */
final class Checks {
    static final long LIMIT_SECONDS = 30;

    interface Check {
        void run() throws Exception;
    }

    private final Map<String, Check> checks = new LinkedHashMap<>();

    void add(String name, Check check) {
        checks.put(name, check);
    }

    /** Runs the checks in order; one that takes too long has failed, and the next one runs all the same. */
    void run() {
        ExecutorService worker = Executors.newCachedThreadPool(runnable -> {
            Thread thread = new Thread(runnable);
            thread.setDaemon(true);
            return thread;
        });
        checks.forEach((name, check) -> {
            Future<?> running = worker.submit(() -> {
                check.run();
                return null;
            });
            try {
                running.get(LIMIT_SECONDS, TimeUnit.SECONDS);
                System.out.println("ok " + name);
            } catch (java.util.concurrent.ExecutionException failed) {
                System.out.println("not ok " + name + ": " + reason(failed.getCause()));
            } catch (Exception late) {
                System.out.println("not ok " + name + ": no answer in " + LIMIT_SECONDS + " seconds");
            }
        });
        System.out.flush();
    }

    private static String reason(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString());
        for (StackTraceElement frame : error.getStackTrace()) {
            if (frame.getFileName() != null && !frame.getClassName().startsWith("java.") && !frame.getClassName().startsWith("org.postgresql")) {
                text.append(" | ").append(frame.getFileName()).append(':').append(frame.getLineNumber());
            }
        }
        return text.toString().replace("\n", " | ");
    }

    static void equal(Object got, Object expected) {
        if (!Objects.deepEquals(got, expected)) {
            throw new AssertionError("got " + got + ", expected " + expected);
        }
    }

    /** Fails unless the block is refused with this SQLSTATE; gives the error. */
    static org.postgresql.util.PSQLException refused(String sqlstate, Check block) throws Exception {
        try {
            block.run();
        } catch (java.sql.SQLException error) {
            java.sql.SQLException last = error;
            while (last.getNextException() != null) {
                last = last.getNextException();
            }
            if (!sqlstate.equals(last.getSQLState())) {
                throw error;
            }
            return last instanceof org.postgresql.util.PSQLException found ? found : null;
        }
        throw new AssertionError("expected " + sqlstate + ", got no error");
    }
}
