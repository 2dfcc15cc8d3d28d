<?php
// Runs named checks of PDO and tells each outcome on a line of its own: `ok NAME` or `not ok NAME: reason`.

const LIMIT_SECONDS = 30;

function environment(string $name): string {
    return getenv($name) ?: '';
}

/** Runs the checks in order; one that takes too long has failed, and the next one runs all the same. */
function run(array $checks): void {
    foreach ($checks as $name => $check) {
        try {
            $check();
            echo "ok $name\n";
        } catch (Throwable $error) {
            $reason = get_class($error) . ' ' . $error->getMessage() . ' (' . basename($error->getFile()) . ':' . $error->getLine();
            foreach ($error->getTrace() as $frame) {
                $reason .= isset($frame['file']) ? ' ' . basename($frame['file']) . ':' . $frame['line'] : '';
            }
            echo "not ok $name: " . str_replace("\n", ' | ', "$reason)") . "\n";
        }
    }
}

function equal(mixed $got, mixed $expected): void {
    if ($got !== $expected) {
        throw new Exception('got ' . json_encode($got) . ', expected ' . json_encode($expected));
    }
}

/** Fails unless the action is refused with this SQLSTATE; gives the error. */
function refused(string $sqlstate, callable $action): PDOException {
    try {
        $action();
    } catch (PDOException $error) {
        if (($error->errorInfo[0] ?? '') !== $sqlstate) {
            throw $error;
        }
        return $error;
    }
    throw new Exception("expected $sqlstate, got no error");
}

function connect(array $options = [], string $more = ''): PDO {
    $dsn = 'pgsql:host=' . environment('PGHOST') . ';port=' . environment('PGPORT') . ';dbname=' . environment('PGDATABASE') . $more;
    return new PDO($dsn, environment('PGUSER'), environment('PGPASSWORD'), $options + [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_NUM,
    ]);
}

function rows(PDO $c, string $text, array $values = []): array {
    $s = $c->prepare($text);
    $s->execute($values);
    return $s->fetchAll();
}

function one(PDO $c, string $text, array $values = []): mixed {
    return rows($c, $text, $values)[0][0];
}
