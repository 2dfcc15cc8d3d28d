-- point read by the primary key
SELECT * FROM orders WHERE tenant_id = 7 AND order_id = 12

-- point read, key as a string literal
SELECT name, plan FROM tenants WHERE tenant_id = '7'

-- point read that finds nothing
SELECT * FROM orders WHERE tenant_id = 999 AND order_id = 1

-- point read by a parameter
-- values: 7
SELECT tenant_id, name, created FROM tenants WHERE tenant_id = $1

-- two parameters, one cast
-- values: 7, 12
SELECT amount, status FROM orders WHERE tenant_id = $1::bigint AND order_id = $2

-- a NULL parameter finds nothing
-- values: NULL
SELECT * FROM tenants WHERE tenant_id = $1

-- all orders of a tenant, sorted
SELECT order_id, amount, status FROM orders WHERE tenant_id = 3 ORDER BY amount DESC, order_id

-- sort by an expression, limited, one tenant
SELECT order_id FROM orders WHERE tenant_id = 3 ORDER BY amount / 2 + order_id LIMIT 7 OFFSET 2

-- join inside a tenant
SELECT u.email, o.order_id, o.amount FROM users u JOIN orders o ON o.tenant_id = u.tenant_id AND o.user_id = u.user_id
WHERE u.tenant_id = 5 ORDER BY o.order_id

-- join of three tables inside a tenant
SELECT o.order_id, count(*) AS lines, sum(i.price * i.quantity) AS total
FROM orders o JOIN order_items i USING (tenant_id, order_id) JOIN users u USING (tenant_id, user_id)
WHERE o.tenant_id = 11 AND u.active GROUP BY o.order_id ORDER BY total DESC, o.order_id

-- join with reference tables
SELECT t.name, c.name AS country, p.price FROM tenants t LEFT JOIN countries c ON c.code = t.country
JOIN plans p USING (plan) WHERE t.tenant_id = 14

-- window functions inside a tenant
SELECT order_id, amount, rank() OVER (ORDER BY amount DESC), sum(amount) OVER (PARTITION BY status ORDER BY order_id)
FROM orders WHERE tenant_id = 2 ORDER BY order_id

-- recursive query inside a tenant
WITH RECURSIVE chain(order_id, depth) AS (
  SELECT 1::bigint, 1 UNION ALL
  SELECT o.order_id, depth + 1 FROM chain c JOIN orders o ON o.tenant_id = 4 AND o.order_id = c.order_id + 3
  WHERE depth < 6)
SELECT * FROM chain ORDER BY depth

-- subquery and EXISTS inside a tenant
SELECT user_id FROM users u WHERE tenant_id = 9 AND EXISTS
  (SELECT 1 FROM orders o WHERE o.tenant_id = 9 AND o.user_id = u.user_id AND o.status = 'paid') ORDER BY 1

-- HAVING, DISTINCT and set operations inside a tenant
SELECT status FROM orders WHERE tenant_id = 6 GROUP BY status HAVING count(*) > 5
UNION SELECT 'extra' ORDER BY 1

-- count over all shards
SELECT count(*) FROM orders

-- count, sum, min, max over all shards
SELECT count(*), sum(amount), min(amount), max(amount), min(placed), max(placed) FROM orders

-- average over all shards
SELECT avg(amount) FROM orders

-- average of integers and of floats over all shards
SELECT avg(quantity), avg(score) FROM order_items JOIN users USING (tenant_id) WHERE line = 1

-- sums of every number type
SELECT sum(quantity), sum(line), sum(order_id), sum(price), sum(weight) FROM order_items

-- bool_and and bool_or
SELECT bool_and(active), bool_or(active) FROM users

-- aggregates over no rows
SELECT count(*), sum(amount), avg(amount), max(status) FROM orders WHERE amount < 0

-- filtered aggregate
SELECT count(*) FILTER (WHERE status = 'paid'), count(note) FROM orders

-- GROUP BY a column that is not the key
SELECT status, count(*), sum(amount) FROM orders GROUP BY status ORDER BY status

-- GROUP BY without ORDER BY
SELECT status, min(placed), max(order_id) FROM orders GROUP BY status

-- GROUP BY the shard key
SELECT tenant_id, count(*), avg(amount) FROM orders GROUP BY tenant_id ORDER BY tenant_id

-- GROUP BY with a nullable column
SELECT note, count(*) FROM orders GROUP BY note ORDER BY note NULLS FIRST

-- GROUP BY, ORDER BY an aggregate
SELECT user_id, sum(amount) FROM orders GROUP BY user_id ORDER BY sum(amount) DESC

-- ORDER BY the key, all shards, limited
SELECT tenant_id, order_id, amount FROM orders ORDER BY tenant_id, order_id LIMIT 10

-- ORDER BY with ties, limited
SELECT tenant_id, order_id, status FROM orders ORDER BY status LIMIT 10

-- ORDER BY numeric, descending, with an offset
SELECT tenant_id, order_id, amount FROM orders ORDER BY amount DESC, tenant_id, order_id LIMIT 20 OFFSET 15

-- ORDER BY a timestamp and a column that is not selected
SELECT order_id FROM orders ORDER BY placed, tenant_id, order_id LIMIT 25

-- ORDER BY with NULLS FIRST
SELECT tenant_id, user_id, score FROM users ORDER BY score NULLS FIRST, tenant_id, user_id LIMIT 30

-- ORDER BY descending float: NULLs first by default
SELECT tenant_id, user_id, score FROM users ORDER BY score DESC, tenant_id, user_id LIMIT 30

-- ORDER BY text and an ordinal
SELECT email, tenant_id FROM users ORDER BY 1 LIMIT 12

-- ORDER BY an expression, all shards
SELECT tenant_id, order_id FROM orders ORDER BY amount * 2 - order_id, tenant_id, order_id LIMIT 9

-- LIMIT and OFFSET as parameters
-- values: 5, 3
SELECT tenant_id, name FROM tenants ORDER BY tenant_id LIMIT $1 OFFSET $2

-- LIMIT without ORDER BY
SELECT tenant_id FROM orders LIMIT 4

-- LIMIT 0 and LIMIT ALL
SELECT tenant_id FROM tenants ORDER BY tenant_id LIMIT 0

-- every row of all shards
SELECT * FROM tenants

-- every row, sorted
SELECT * FROM users ORDER BY tenant_id DESC, user_id

-- DISTINCT
SELECT DISTINCT status FROM orders

-- DISTINCT on two columns, sorted
SELECT DISTINCT status, user_id FROM orders ORDER BY user_id, status DESC

-- DISTINCT with NULLs
SELECT DISTINCT country FROM tenants ORDER BY country

-- a few keys
SELECT tenant_id, name FROM tenants WHERE tenant_id IN (2, 3, 5, 7, 11) ORDER BY tenant_id

-- keys as an array parameter
-- values: {2;3;9}
SELECT tenant_id, name FROM tenants WHERE tenant_id = ANY (translate($1, ';', ',')::bigint[]) ORDER BY tenant_id

-- OR of keys
SELECT count(*) FROM orders WHERE tenant_id = 4 OR tenant_id = 15

-- contradiction
SELECT * FROM tenants WHERE tenant_id = 1 AND tenant_id = 2

-- contradiction under an aggregate
SELECT count(*), sum(tenant_id) FROM tenants WHERE tenant_id = 1 AND tenant_id = 2

-- key in an expression does not prune
SELECT count(*) FROM orders WHERE tenant_id % 10 = 3

-- key in CASE, FILTER and NOT does not prune
SELECT count(*) FILTER (WHERE tenant_id = 3), count(CASE WHEN tenant_id = 4 THEN 1 END) FROM tenants WHERE NOT tenant_id = 5

-- key compared with a float does not prune by hash
SELECT name FROM tenants WHERE tenant_id = 7.0::float8

-- range of keys
SELECT count(*) FROM orders WHERE tenant_id BETWEEN 5 AND 9

-- colocated join over all shards
SELECT t.name, count(*) FROM tenants t JOIN orders o USING (tenant_id) GROUP BY t.tenant_id, t.name ORDER BY t.tenant_id

-- colocated outer join over all shards
SELECT u.tenant_id, u.user_id, o.order_id FROM users u LEFT JOIN orders o
  ON o.tenant_id = u.tenant_id AND o.user_id = u.user_id AND o.amount > 900
ORDER BY u.tenant_id, u.user_id, o.order_id

-- join with a reference table over all shards
SELECT c.name, count(*) FROM tenants t JOIN countries c ON c.code = t.country GROUP BY c.name ORDER BY c.name

-- text key
SELECT * FROM readings WHERE device = 'device-3' ORDER BY at LIMIT 5

-- text keys, NaN and bytea
SELECT device, max(value), count(*) FROM readings WHERE device IN ('device-1', 'device-2', 'device-9') GROUP BY device ORDER BY device

-- bytea and timestamps sorted over all shards
SELECT raw, at FROM readings ORDER BY raw LIMIT 8

-- reference tables alone
SELECT * FROM countries JOIN plans ON true ORDER BY code, plan

-- single table
SELECT id, body, tags FROM notes ORDER BY id

-- single table, aggregated
SELECT count(*), max(body) FROM notes WHERE tags @> ARRAY['a1']

-- no table
SELECT 1 AS one, 'text' AS two, NULL AS three, now() > '2020-01-01' AS four

-- values
VALUES (1, 'a'), (2, 'b')

-- set-returning function
SELECT n, n * n FROM generate_series(1, 5) n

-- column types and names
SELECT tenant_id AS "Tenant", amount::float4, placed::date, note::varchar(10), '{1,2}'::int[] AS list, 1.50 AS n
FROM orders WHERE tenant_id = 1 AND order_id = 1

-- count distinct of the key
-- refused
SELECT count(DISTINCT tenant_id) FROM orders

-- count distinct of another column
-- refused
SELECT count(DISTINCT user_id) FROM orders

-- HAVING over all shards
-- refused
SELECT status, count(*) FROM orders GROUP BY status HAVING count(*) > 170 ORDER BY status

-- expression over aggregates
-- refused
SELECT sum(amount) / count(*) FROM orders

-- window over all shards
-- refused
SELECT tenant_id, order_id, rank() OVER (ORDER BY amount DESC) FROM orders ORDER BY 3, 1, 2 LIMIT 10

-- join that is not colocated
-- refused
SELECT count(*) FROM users a JOIN users b ON a.email < b.email

-- scalar subquery over all shards
-- refused
SELECT count(*) FROM orders WHERE amount > (SELECT avg(amount) FROM orders)

-- union over all shards
-- refused
SELECT status FROM orders UNION SELECT plan FROM tenants ORDER BY 1

-- array_agg over all shards
-- refused
SELECT array_agg(name ORDER BY tenant_id) FROM tenants

-- derived table
-- refused
SELECT max(n) FROM (SELECT tenant_id, count(*) AS n FROM orders GROUP BY tenant_id) x
