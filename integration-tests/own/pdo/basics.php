<?php
// Connecting, statements, types, prepared statements, transactions, errors, notifications, COPY, cursors.

return [
    'connect without TLS' => function () {
        equal(one(connect([], ';sslmode=disable'), 'select current_database()'), environment('PGDATABASE'));
    },

    'connect with TLS and a verified certificate' => function () {
        $c = connect([], ';sslmode=verify-full;sslrootcert=' . environment('SHARDWAY_CA'));
        equal(one($c, 'select ?::int + 1', [41]), 42);
    },

    'wrong password' => function () {
        try {
            new PDO('pgsql:host=' . environment('PGHOST') . ';port=' . environment('PGPORT') . ';dbname=' . environment('PGDATABASE'), 'nobody_here', 'wrong');
        } catch (PDOException $error) {
            equal(str_contains($error->getMessage(), 'nobody_here'), true);
            return;
        }
        throw new Exception('logged in');
    },

    'options of the connection' => function () {
        $c = connect([], ";application_name=checks;options='-c work_mem=5MB'");
        equal([one($c, 'show application_name'), one($c, 'show work_mem')], ['checks', '5MB']);
        equal(str_contains($c->getAttribute(PDO::ATTR_CONNECTION_STATUS), 'Connection OK'), true);
        equal($c->getAttribute(PDO::ATTR_SERVER_VERSION) >= '14', true);
    },

    'several statements in one' => function () {
        $c = connect([PDO::ATTR_EMULATE_PREPARES => true]);
        $c->exec("drop table if exists pdo_several; create table pdo_several (id int); insert into pdo_several values (1), (2)");
        equal(one($c, 'select count(*) from pdo_several'), 2);
        equal($c->query('select 1; select 2')->fetchAll(), [[2]]);
    },

    'named parameters' => function () {
        equal(rows(connect(), 'select :b::text, :a::int, :b::text', ['a' => 1, 'b' => 'x']), [['x', 1, 'x']]);
    },

    'emulated prepared statements' => function () {
        $c = connect([PDO::ATTR_EMULATE_PREPARES => true]);
        equal(rows($c, "select ?::text, ?::int", ["it's \\", 3]), [["it's \\", 3]]);
        refused('22012', fn() => rows($c, 'select 1 / ?::int', [0]));
        equal(one($c, 'select 1'), 1);
    },

    'prepared statements disabled' => function () {
        $c = connect([PDO::PGSQL_ATTR_DISABLE_PREPARES => true]);
        equal(rows($c, "select ?::text, ?::int", ["it's", 3]), [["it's", 3]]);
    },

    'prepared statement, reused' => function () {
        $c = connect();
        $s = $c->prepare('select ?::int + 1');
        for ($i = 0; $i < 20; $i++) {
            $s->execute([$i]);
            equal($s->fetchColumn(), $i + 1);
        }
    },

    'many prepared statements, closed by DEALLOCATE' => function () {
        $c = connect();
        for ($i = 0; $i < 200; $i++) {
            equal(one($c, "select $i + ?::int", [1]), $i + 1);
        }
        $kept = $c->prepare('select ?::int');
        $kept->execute([5]);
        unset($kept);
        equal(one($c, 'select 1'), 1);
    },

    'statement closed in a failed transaction' => function () {
        $c = connect();
        $c->beginTransaction();
        $s = $c->prepare('select 1 / ?::int');
        refused('22012', fn() => $s->execute([0]));
        unset($s);
        refused('25P02', fn() => $c->query('select 1'));
        $c->rollBack();
        equal(one($c, 'select ?::int', [1]), 1);
    },

    'prepared statement after a schema change' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_changing; create table pdo_changing (id int primary key, a int); insert into pdo_changing values (1, 2)');
        $all = $c->prepare('select * from pdo_changing where id = ?');
        $all->execute([1]);
        equal($all->fetchAll(), [[1, 2]]);
        $c->exec("alter table pdo_changing add column b text default 'new'");
        refused('0A000', fn() => $all->execute([1]));
        equal(rows($c, 'select * from pdo_changing where id = ?', [1]), [[1, 2, 'new']]);
    },

    'types both ways' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_types; create table pdo_types (id int primary key, i8 int8, n numeric(20, 5), f8 float8, b bool, t text, by bytea,
            jb jsonb, u uuid, d date, tz timestamptz, ia int[], ta text[], nil text)');
        $s = $c->prepare('insert into pdo_types values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
        $values = [1, '9007199254740993', '12345678901.12345', 0.1, true, "ünïcødé ' \" \\", "\x00\x01\xff", '{"a": [1, null]}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
            '2024-02-29', '2024-02-29 12:34:56.789+00', '{1,2,NULL}', '{"a,b","c\"d",""}', null];
        foreach ($values as $i => $value) {
            $type = match (true) { $i === 6 => PDO::PARAM_LOB, is_bool($value) => PDO::PARAM_BOOL, is_int($value) => PDO::PARAM_INT, $value === null => PDO::PARAM_NULL, default => PDO::PARAM_STR };
            $s->bindValue($i + 1, $value, $type);
        }
        $s->execute();
        $c->exec("set timezone to 'UTC'");
        $row = rows($c, 'select * from pdo_types where id = ?', [1])[0];
        equal([$row[0], $row[1], $row[2], (float) $row[3], $row[4], $row[5]], [1, 9007199254740993, '12345678901.12345', 0.1, true, "ünïcødé ' \" \\"]);
        equal(stream_get_contents($row[6]), "\x00\x01\xff");
        equal(array_slice($row, 7), ['{"a": [1, null]}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2024-02-29', '2024-02-29 12:34:56.789+00', '{1,2,NULL}', '{"a,b","c\"d",""}', null]);
    },

    'enum' => function () {
        $c = connect();
        $c->exec("drop table if exists pdo_moods; drop type if exists pdo_mood; create type pdo_mood as enum ('sad', 'ok', 'happy')");
        $c->exec('create table pdo_moods (id int primary key, m pdo_mood)');
        rows($c, 'insert into pdo_moods values (?, ?)', [1, 'happy']);
        equal(rows($c, 'select m from pdo_moods where m > ?', ['sad']), [['happy']]);
        refused('22P02', fn() => rows($c, 'insert into pdo_moods values (2, ?)', ['angry']));
    },

    'metadata of columns' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_meta; create table pdo_meta (id int primary key, name varchar(20))');
        $s = $c->query('select id, name from pdo_meta');
        $meta = $s->getColumnMeta(1);
        equal([$meta['name'], $meta['native_type'], $meta['precision'], $meta['table']], ['name', 'varchar', 24, 'pdo_meta']);
    },

    'transaction commits and rolls back' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_tx; create table pdo_tx (id int primary key)');
        $c->beginTransaction();
        rows($c, 'insert into pdo_tx values (?)', [1]);
        equal($c->inTransaction(), true);
        $c->commit();
        $c->beginTransaction();
        rows($c, 'insert into pdo_tx values (?)', [2]);
        $c->rollBack();
        equal($c->inTransaction(), false);
        equal(rows($c, 'select id from pdo_tx'), [[1]]);
    },

    'savepoints' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_tx; create table pdo_tx (id int primary key)');
        $c->beginTransaction();
        $c->exec('insert into pdo_tx values (1)');
        $c->exec('savepoint a');
        refused('23505', fn() => $c->exec('insert into pdo_tx values (1)'));
        refused('25P02', fn() => $c->exec('insert into pdo_tx values (2)'));
        $c->exec('rollback to savepoint a');
        $c->exec('insert into pdo_tx values (3)');
        $c->commit();
        equal(rows($c, 'select id from pdo_tx order by id'), [[1], [3]]);
    },

    'fields of an error' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_errors; create table pdo_errors (id int primary key, n int not null check (n > 0))');
        rows($c, 'insert into pdo_errors values (?, 1)', [1]);
        $error = refused('23505', fn() => rows($c, 'insert into pdo_errors values (?, 1)', [1]));
        equal(str_contains($error->errorInfo[2], 'Key (id)=(1) already exists.'), true);
        refused('23502', fn() => rows($c, 'insert into pdo_errors values (?)', [2]));
        refused('23514', fn() => rows($c, 'insert into pdo_errors values (2, ?)', [-1]));
        refused('42P01', fn() => rows($c, 'select * from pdo_missing where id = ?', [1]));
        refused('42601', fn() => $c->exec('selct 1'));
        refused('42703', fn() => rows($c, 'select nothing from pdo_errors where id = ?', [1]));
    },

    'notifications' => function () {
        $listener = connect();
        $sender = connect();
        $listener->exec('listen pdo_channel');
        $sender->exec("notify pdo_channel, 'one'");
        rows($sender, 'select pg_notify(?, ?)', ['pdo_channel', 'two']);
        $heard = [];
        for ($tries = 0; $tries < 50 && count($heard) < 2; $tries++) {
            if ($note = $listener->pgsqlGetNotify(PDO::FETCH_ASSOC, 100)) {
                $heard[] = [$note['message'], $note['payload']];
            }
        }
        equal($heard, [['pdo_channel', 'one'], ['pdo_channel', 'two']]);
    },

    'session settings stay' => function () {
        $c = connect();
        $c->exec("set app.tenant = '7'");
        $c->exec('set search_path to pg_catalog, public');
        for ($i = 0; $i < 5; $i++) {
            equal(one(connect(), "select coalesce(current_setting('app.tenant', true), '')"), '');
        }
        equal([one($c, 'show app.tenant'), one($c, 'show search_path')], ['7', 'pg_catalog, public']);
    },

    'temporary tables' => function () {
        $c = connect();
        $c->exec('create temp table pdo_temp (id int); insert into pdo_temp values (1), (2)');
        equal(one($c, 'select count(*) from pdo_temp'), 2);
        refused('42P01', fn() => one(connect(), 'select count(*) from pdo_temp'));
    },

    'statement time-out' => function () {
        $c = connect();
        $c->exec("set statement_timeout = '200ms'");
        refused('57014', fn() => $c->query('select pg_sleep(5)'));
        $c->exec('reset statement_timeout');
        equal(one($c, 'select 1'), 1);
    },

    'scrolling cursor' => function () {
        $c = connect();
        $c->beginTransaction();
        $s = $c->prepare('select i from generate_series(1, 10) i', [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]);
        $s->execute();
        equal($s->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_FIRST), [1]);
        equal($s->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_ABS, 5), [5]);
        equal($s->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_PRIOR), [4]);
        equal($s->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_LAST), [10]);
        unset($s);
        $c->commit();
    },

    'large objects' => function () {
        $c = connect();
        $c->beginTransaction();
        $oid = $c->pgsqlLOBCreate();
        $stream = $c->pgsqlLOBOpen($oid, 'w');
        fwrite($stream, 'hello');
        fclose($stream);
        $stream = $c->pgsqlLOBOpen($oid, 'r');
        equal(stream_get_contents($stream), 'hello');
        fclose($stream);
        $c->pgsqlLOBUnlink($oid);
        $c->commit();
    },

    'copy in and out' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_copied; create table pdo_copied (tenant_id bigint, id int, t text)');
        $given = [];
        for ($i = 0; $i < 1000; $i++) {
            $given[] = ($i % 7) . "\t$i\trow $i\n";
        }
        equal($c->pgsqlCopyFromArray('pdo_copied', $given), true);
        $got = $c->pgsqlCopyToArray('pdo_copied');
        sort($got);
        sort($given);
        equal($got, $given);
        refused('22P02', fn() => $c->pgsqlCopyFromArray('pdo_copied', ["1\tx\ty\n"]));
        equal(one($c, 'select count(*) from pdo_copied'), 1000);
    },

    'many connections' => function () {
        $all = [];
        for ($i = 0; $i < 50; $i++) {
            $all[] = connect();
        }
        foreach ($all as $i => $c) {
            equal(one($c, 'select ?::int * 2', [$i]), $i * 2);
        }
    },

    'persistent connection' => function () {
        for ($i = 0; $i < 3; $i++) {
            $c = connect([PDO::ATTR_PERSISTENT => true]);
            equal(one($c, 'select ?::int', [$i]), $i);
            unset($c);
        }
    },
];
