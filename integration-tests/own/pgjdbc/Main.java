/** Checks of pgjdbc, PostgreSQL's driver for Java. */
public final class Main {
    public static void main(String[] arguments) {
        Checks checks = new Checks();
        Basics.add(checks);
        Application.add(checks);
        checks.run();
        System.exit(0);
    }
}
