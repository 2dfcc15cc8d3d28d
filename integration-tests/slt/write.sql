-- insert one row
INSERT INTO tenants VALUES (100, 'new', 'de', 'free', '2026-05-01')

-- insert with a column list and RETURNING
INSERT INTO orders (tenant_id, order_id, user_id, amount, status, placed) VALUES (7, 1001, 2, 12.5, 'open', '2026-05-01 10:00+02') RETURNING *

-- insert by parameters
-- values: 8, 2001, 3, 99.99
INSERT INTO orders (tenant_id, order_id, user_id, amount, status, placed) VALUES ($1, $2, $3, $4, 'open', 'epoch') RETURNING tenant_id, order_id, amount, note

-- insert rows of one tenant
INSERT INTO users VALUES (3, 100, 'a@x', true, 1.5), (3, 101, 'b@x', false, NULL) RETURNING user_id, email

-- insert ... select inside a tenant
INSERT INTO orders SELECT tenant_id, order_id + 5000, user_id, amount, status, placed, note FROM orders WHERE tenant_id = 4 AND order_id < 6

-- on conflict do nothing, by the key
INSERT INTO tenants VALUES (7, 'again', 'de', 'free', '2026-05-01') ON CONFLICT (tenant_id) DO NOTHING

-- on conflict do update, by the key
INSERT INTO tenants VALUES (7, 'again', 'de', 'free', '2026-05-01') ON CONFLICT (tenant_id) DO UPDATE SET name = excluded.name || '!' RETURNING name

-- update one row
UPDATE orders SET amount = amount + 1, note = 'changed' WHERE tenant_id = 7 AND order_id = 3 RETURNING amount, note

-- update all rows of a tenant
UPDATE orders SET status = 'void' WHERE tenant_id = 7

-- update that finds nothing
UPDATE orders SET status = 'void' WHERE tenant_id = 700

-- update from a join inside the tenant
UPDATE orders o SET note = u.email FROM users u WHERE o.tenant_id = 5 AND u.tenant_id = 5 AND u.user_id = o.user_id AND u.active

-- update by parameters
-- values: sent, 7, 3
UPDATE orders SET status = $1 WHERE tenant_id = $2 AND order_id = $3

-- delete one row
DELETE FROM order_items WHERE tenant_id = 7 AND order_id = 3 AND line = 1 RETURNING sku

-- delete all rows of a tenant
DELETE FROM order_items WHERE tenant_id = 7

-- delete using a join inside the tenant
DELETE FROM order_items i USING orders o WHERE i.tenant_id = 5 AND o.tenant_id = 5 AND o.order_id = i.order_id AND o.status = 'void'

-- single table
INSERT INTO notes VALUES (100, 'hundred', '{x,y}') RETURNING *

-- single table, update and delete
UPDATE notes SET body = body || '.' WHERE id < 5 RETURNING id, body

-- text key
DELETE FROM readings WHERE device = 'device-4' AND at > '2026-02-01 02:00' RETURNING at

-- writing CTE on one tenant
WITH gone AS (DELETE FROM order_items WHERE tenant_id = 9 AND order_id = 4 RETURNING tenant_id, order_id)
SELECT count(*) FROM gone

-- unique violation
INSERT INTO tenants VALUES (7, 'again', 'de', 'free', '2026-05-01')

-- foreign key violation
INSERT INTO users VALUES (4711, 1, 'x', true, 0)

-- NOT NULL violation
INSERT INTO tenants VALUES (101, NULL, 'de', 'free', '2026-05-01')

-- a NULL key
INSERT INTO tenants VALUES (NULL, 'x', 'de', 'free', '2026-05-01')

-- value out of range
UPDATE order_items SET quantity = quantity * 30000 WHERE tenant_id = 7

-- rows of several tenants
-- refused
INSERT INTO tenants VALUES (100, 'a', 'de', 'free', '2026-05-01'), (101, 'b', 'de', 'free', '2026-05-01'), (102, 'c', 'de', 'free', '2026-05-01')

-- update everywhere
-- refused
UPDATE orders SET status = 'void' WHERE amount > 900

-- delete everywhere
-- refused
DELETE FROM readings

-- reference table
-- refused
UPDATE countries SET name = upper(name)

-- move to another tenant
-- refused
UPDATE readings SET device = 'elsewhere' WHERE device = 'device-1' AND at < '2026-02-01 00:30'
