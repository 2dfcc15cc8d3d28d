-- a single table beside a sharded one, described where the single table is
-- refused
-- values: 3
SELECT s.id, a.id FROM s JOIN a ON a.n = s.n WHERE a.k = $1 ORDER BY 1, 2

-- a common table expression that nobody reads still names its tables
-- refused
WITH unread AS (SELECT * FROM s) SELECT id FROM a WHERE k = 4 ORDER BY id

-- the name of CASE is that of its ELSE
-- refused
SELECT id, CASE WHEN n > 2 THEN 0 ELSE n END FROM a ORDER BY n, id

-- the name of a scalar subquery is that of its column
-- refused
SELECT id, (SELECT -n FROM ra WHERE ra.id = 1), (SELECT max(-a.n) AS n FROM ra WHERE ra.id = a.id) FROM a ORDER BY n NULLS FIRST, id

-- the name of an element is that of its array
-- refused
SELECT id, arr[2] FROM c ORDER BY arr DESC NULLS LAST, id

-- the name of CASE hides a column of the query around it
-- refused
SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM (SELECT CASE WHEN id > 1000 THEN 0 ELSE k END FROM b) x WHERE k = 3)

-- the columns of * where a join with USING stands behind another item
-- refused
SELECT count(*) FROM (SELECT * FROM c, a JOIN b USING (k)) AS x(p, q, r) WHERE p = 3

-- the same inside a join
-- refused
WITH x(p, q, r) AS (SELECT * FROM ra JOIN (a JOIN b USING (k)) ON true) SELECT count(*) FROM x WHERE p = 3

-- an aggregate of whole rows of the query around it belongs there
-- refused
SELECT (SELECT count(a) FROM ra WHERE ra.id = 1) FROM a

-- the same with a star
-- refused
SELECT (SELECT count(a.*) FROM ra WHERE ra.id = 1) FROM a

-- the same by its FILTER alone
-- refused
SELECT (SELECT count(1) FILTER (WHERE a.n > 1) FROM ra WHERE ra.id = 1) FROM a

-- the same over a function's columns
-- refused
SELECT (SELECT max(g) FROM rb WHERE rb.id = 1) FROM a, generate_series(1, 2) g

-- the same with a subquery beside it
-- refused
SELECT (SELECT sum((SELECT max(rb.id) FROM rb WHERE rb.id = a.id)) FROM ra WHERE ra.id = 1) FROM a

-- one random number for all rows
-- refused
SELECT count(*) FROM (SELECT DISTINCT (VALUES (random())) FROM a) x

-- one random number for all rows, from a function in FROM
-- refused
SELECT DISTINCT r > 2 FROM a, random() r

-- one random number for all rows: as many values
-- rows: counted
-- refused
SELECT DISTINCT r FROM a, random() r

-- one random number for all rows, from VALUES
-- rows: counted
-- refused
SELECT DISTINCT (VALUES (random())) FROM a

-- a random condition in a subquery
-- rows: counted
-- refused
SELECT DISTINCT (SELECT count(*) * 0 + random() FROM ra WHERE random() < 2) FROM a

-- a random condition in a subquery, alone
-- rows: counted
-- refused
SELECT DISTINCT (SELECT min(ra.id) FROM ra WHERE random() < 0.5) FROM a

-- a forward reference in WITH RECURSIVE
-- refused
WITH RECURSIVE x AS (SELECT * FROM b), b AS (SELECT 3 AS k, 77 AS id) SELECT id FROM x WHERE k = 3

-- a subquery in a WINDOW clause
-- refused
SELECT id, count(*) OVER w FROM a WHERE k = 3 WINDOW w AS (PARTITION BY k ORDER BY (SELECT count(*) FROM b)) ORDER BY id

-- a constant that is the time
-- rows: counted
-- refused
SELECT DISTINCT 'now'::timestamptz FROM a

-- no columns, in an order
-- refused
SELECT FROM a ORDER BY n

-- no columns
SELECT FROM a

-- an output column named as a hidden one
-- refused
SELECT n AS shardway_1, id FROM a ORDER BY id

-- whole rows, as text
SELECT a::text FROM a ORDER BY id

-- a name that PostgreSQL gives
-- refused
SELECT id::text FROM a ORDER BY text COLLATE "C"

-- the type's name of a constant
-- refused
SELECT 'x'::text, count(*) FROM a GROUP BY text

-- a text that the parser does not know, on a single table that the home shard does not have
-- refused
SELECT nm.id FROM nm JOIN s ON s.k = nm.k ORDER BY 1 FETCH FIRST (2) ROWS ONLY

-- a time among other words, over several shards
-- refused
SELECT count(*) FROM a WHERE ts < E'today 10:00'
