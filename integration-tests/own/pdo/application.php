<?php
// A small application: tenants with orders, countries that all share.

return [
    'application schema and rows' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_orders, pdo_tenants, pdo_countries;
            create table pdo_countries (code text primary key, name text not null);
            create table pdo_tenants (tenant_id bigint primary key, name text not null, country text references pdo_countries);
            create table pdo_orders (tenant_id bigint references pdo_tenants, order_id bigserial, total numeric(12, 2) not null, primary key (tenant_id, order_id))');
        $c->exec("insert into pdo_countries values ('ch', 'Switzerland'), ('se', 'Sweden')");
        $c->beginTransaction();
        $tenant = $c->prepare('insert into pdo_tenants values (?, ?, ?)');
        $order = $c->prepare('insert into pdo_orders (tenant_id, total) values (?, ?) returning order_id');
        $ids = [];
        for ($i = 1; $i <= 20; $i++) {
            $tenant->execute([$i, "tenant $i", $i % 2 ? 'se' : 'ch']);
            for ($n = 1; $n <= 5; $n++) {
                $order->execute([$i, $n * 10]);
                $ids[] = $order->fetchColumn();
            }
        }
        $c->commit();
        equal(count(array_unique($ids)), 100);
    },

    'last insert id' => function () {
        $c = connect();
        $c->exec('drop table if exists pdo_notes; create table pdo_notes (id serial primary key, t text)');
        rows($c, 'insert into pdo_notes (t) values (?)', ['a']);
        $id = $c->lastInsertId();
        equal(one($c, 'select t from pdo_notes where id = ?', [$id]), 'a');
        rows($c, 'insert into pdo_notes (t) values (?)', ['b']);
        equal(one($c, 'select t from pdo_notes where id = ?', [$c->lastInsertId('pdo_notes_id_seq')]), 'b');
    },

    'rows of tenants' => function () {
        $c = connect();
        $s = $c->prepare('select sum(total) from pdo_orders where tenant_id = :t');
        for ($i = 1; $i <= 20; $i++) {
            $s->execute(['t' => $i]);
            equal($s->fetchColumn(), '150.00');
        }
        equal(rows($c, 'select tenant_id, count(*) from pdo_orders where tenant_id in (?, ?, ?) group by 1 order by 1', [2, 11, 17]), [[2, 5], [11, 5], [17, 5]]);
    },

    'joins and aggregates' => function () {
        foreach ([false, true] as $emulate) {
            $c = connect([PDO::ATTR_EMULATE_PREPARES => $emulate]);
            equal(rows($c, 'select c.name, count(*), sum(o.total) from pdo_tenants t join pdo_countries c on c.code = t.country
                join pdo_orders o using (tenant_id) where o.total > ? group by c.name order by c.name', [5]), [['Sweden', 50, '1500.00'], ['Switzerland', 50, '1500.00']]);
        }
    },

    'pagination' => function () {
        $c = connect();
        $seen = [];
        $s = $c->prepare('select tenant_id, order_id from pdo_orders order by tenant_id, order_id limit ? offset ?');
        for ($offset = 0; $offset < 100; $offset += 30) {
            $s->execute([30, $offset]);
            array_push($seen, ...$s->fetchAll());
        }
        equal([count($seen), $seen[99][0]], [100, 20]);
    },

    'transaction over tenants' => function () {
        $c = connect();
        $c->beginTransaction();
        $s = $c->prepare('update pdo_orders set total = total + 1 where tenant_id = ?');
        foreach ([1, 2, 3, 4] as $tenant) {
            $s->execute([$tenant]);
            equal($s->rowCount(), 5);
        }
        $c->commit();
        equal(one($c, 'select sum(total) from pdo_orders'), '3020.00');
        $c->beginTransaction();
        equal($c->exec('update pdo_orders set total = total - 1 where tenant_id <= 4'), 20);
        $c->rollBack();
        equal(one($c, 'select sum(total) from pdo_orders'), '3020.00');
    },

    'foreign keys' => function () {
        $c = connect();
        refused('23503', fn() => rows($c, 'insert into pdo_orders (tenant_id, total) values (?, 1)', [99]));
        refused('23503', fn() => rows($c, 'delete from pdo_tenants where tenant_id = ?', [1]));
    },

    'upsert' => function () {
        $c = connect();
        $text = 'insert into pdo_tenants values (?, ?) on conflict (tenant_id) do update set name = excluded.name returning name';
        equal([one($c, $text, [30, 'a']), one($c, $text, [30, 'b'])], ['a', 'b']);
        equal($c->exec('delete from pdo_tenants where tenant_id = 30'), 1);
    },

    'migration' => function () {
        $c = connect();
        $c->beginTransaction();
        $c->exec("alter table pdo_orders add column status text not null default 'new'; create index on pdo_orders (tenant_id, status)");
        $c->commit();
        equal(one($c, 'select count(*) from pdo_orders where status = ?', ['new']), 100);
        $c->beginTransaction();
        $c->exec('alter table pdo_orders drop column status');
        $c->rollBack();
        equal(one($c, 'select count(*) from pdo_orders where status = ?', ['new']), 100);
    },

    'introspection' => function () {
        equal(rows(connect(), "select column_name, data_type from information_schema.columns where table_name = ? order by ordinal_position", ['pdo_tenants']),
            [['tenant_id', 'bigint'], ['name', 'text'], ['country', 'text']]);
    },
];
