
-- shape 1
-- refused
SELECT a.id FROM a WHERE a.k = 3 AND EXISTS (SELECT FROM b WHERE b.k = 5 AND b.id > a.id)

-- shape 2
-- refused
SELECT id, (SELECT b.id FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1) FROM a ORDER BY id

-- shape 3
-- refused
SELECT DISTINCT ON (k) k, id FROM a ORDER BY k, id

-- shape 4
-- refused
SELECT a.id, x.id FROM a, LATERAL (SELECT id FROM b WHERE b.k = a.k ORDER BY id LIMIT 1) x ORDER BY 1, 2

-- shape 5
-- refused
SELECT k, count(*) FROM a GROUP BY k HAVING count(*) = (SELECT count(*) FROM a a2 WHERE a2.k = a.k)

-- shape 6
-- refused
SELECT n AS k, count(*) FROM a GROUP BY k ORDER BY 1, 2

-- shape 7
-- refused
SELECT -n AS n, count(*) FROM a GROUP BY n ORDER BY n

-- shape 8
-- refused
SELECT -n AS n, id FROM a ORDER BY n + 0, id

-- shape 9
-- refused
SELECT id, -n AS n FROM a ORDER BY n, id

-- shape 10
-- refused
SELECT n % 2 AS id, count(*) FROM a GROUP BY n % 2 ORDER BY id

-- shape 11
-- refused
SELECT n % 2 AS id, count(*) FROM a GROUP BY 1 ORDER BY id

-- shape 12
-- refused
SELECT count(*) FROM a WHERE (k, n) = ANY (SELECT k, n FROM b)

-- shape 13
-- refused
SELECT count(*) FROM a WHERE (n, k) NOT IN (SELECT n, k FROM b WHERE n IS NOT NULL)

-- shape 14
-- refused
SELECT count(*) FROM b WHERE k NOT IN (SELECT k FROM c)

-- shape 15
-- refused
SELECT count(*) FROM b WHERE k NOT IN (SELECT b2.k FROM c LEFT JOIN b b2 ON b2.k = c.k AND b2.id = c.id)

-- shape 16
-- refused
SELECT count(*) FROM b WHERE k NOT IN (SELECT c.k FROM c LEFT JOIN b b2 ON b2.k = c.k AND b2.id = c.id)

-- shape 17
-- refused
SELECT count(*) FROM b WHERE k NOT IN (SELECT x.k FROM ra LEFT JOIN (SELECT k FROM c) x ON x.k = ra.k)

-- shape 18
-- refused
SELECT count(*) FROM b WHERE b.id NOT IN (SELECT bid FROM vj WHERE vj.k = b.k)

-- shape 19
-- refused
SELECT count(*) FROM b WHERE k NOT IN (SELECT x.k FROM (SELECT c.k FROM ra LEFT JOIN c ON c.k = ra.k) x)

-- shape 20
-- refused
SELECT count(*) FROM b WHERE k <> ALL (SELECT k FROM c)

-- shape 21
-- refused
SELECT k, a.id, b.id FROM a FULL JOIN b USING (k) WHERE k = 3 ORDER BY 1, 2, 3

-- shape 22
-- refused
SELECT k, count(*) FROM a FULL JOIN b USING (k) GROUP BY k ORDER BY k

-- shape 23
-- refused
SELECT a.k, count(*) FROM a FULL JOIN b ON a.k = b.k GROUP BY a.k ORDER BY 1

-- shape 24
-- refused
SELECT b.k, count(*) FROM a LEFT JOIN b ON a.k = b.k AND a.n = 1 GROUP BY b.k ORDER BY 1

-- shape 25
-- refused
SELECT DISTINCT b.k FROM a LEFT JOIN b ON a.k = b.k AND a.n = 1 ORDER BY 1

-- shape 26
-- refused
SELECT DISTINCT a.k FROM a RIGHT JOIN b ON a.k = b.k AND a.n = 1 ORDER BY 1

-- shape 27
-- refused
SELECT a.id, count(*) OVER (PARTITION BY b.k) FROM a LEFT JOIN b ON a.k = b.k AND a.n = 1 ORDER BY 1, 2

-- shape 28
-- refused
SELECT id, sum(n) OVER (PARTITION BY k ORDER BY id) FROM a ORDER BY id

-- shape 29
-- refused
SELECT id, row_number() OVER w2 FROM a WINDOW w AS (PARTITION BY n), w2 AS (w ORDER BY id) ORDER BY id

-- shape 30
-- refused
SELECT k, sum(count(*)) OVER (PARTITION BY k) FROM a GROUP BY k ORDER BY k

-- shape 31
-- refused
SELECT k, sum(count(*)) OVER () FROM a GROUP BY k ORDER BY k

-- shape 32
-- refused
SELECT k, rank() OVER (ORDER BY count(*)) FROM a GROUP BY k ORDER BY k

-- shape 33
-- refused
SELECT k, n, count(*) FROM a GROUP BY CUBE (k, n) ORDER BY 1, 2, 3

-- shape 34
-- refused
SELECT k, count(*) FROM a GROUP BY GROUPING SETS ((k), ()) ORDER BY 1, 2

-- shape 35
-- refused
SELECT max(n) FROM a HAVING max(n) > 100

-- shape 36
-- refused
SELECT count(*) FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.k = a.k AND b.k = 3)

-- shape 37
-- refused
SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.k = 3 HAVING count(*) < 100)

-- shape 38
-- refused
SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.k = 3 GROUP BY GROUPING SETS (()))

-- shape 39
-- refused
SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.k = 3 ORDER BY count(*))

-- shape 40
-- refused
SELECT count(*) FROM a WHERE k IN (SELECT max(k) FROM b WHERE b.k = 3)

-- shape 41
-- refused
SELECT count(*) FROM a WHERE k = ANY (SELECT k FROM b WHERE k = 3)

-- shape 42
-- refused
SELECT count(*) FROM a WHERE k IN (SELECT k FROM b WHERE k IN (3, 4) ORDER BY k LIMIT 1)

-- shape 43
-- refused
SELECT count(*) FROM a WHERE k IN (SELECT k FROM b ORDER BY k LIMIT 1)

-- shape 44
-- refused
SELECT count(*) FROM a WHERE k IN (SELECT k FROM b UNION SELECT k FROM c)

-- shape 45
-- refused
SELECT k, generate_series(1, 2) FROM a ORDER BY 1, 2 LIMIT 5

-- shape 46
-- refused
SELECT DISTINCT k, generate_series(1, 2) FROM a ORDER BY 1, 2

-- shape 47
-- refused
SELECT DISTINCT generate_series(1, 2) FROM a ORDER BY 1

-- shape 48
-- refused
SELECT count(*) FROM a LIMIT 0

-- shape 49
-- refused
SELECT count(*) FROM a OFFSET 1

-- shape 50
-- refused
SELECT sum(n), count(*), avg(v), min(t COLLATE "C") FROM a WHERE k = 3 AND k = 4

-- shape 51
-- refused
SELECT count(*) FROM a, b WHERE a.k = b.k AND b.k = 3 OR a.n = 2

-- shape 52
-- refused
SELECT count(*) FROM a JOIN b ON a.k = b.k::bigint

-- shape 53
-- refused
SELECT a.* FROM a JOIN c USING (k) WHERE c.k = 3 ORDER BY id, c.id

-- shape 54
-- refused
SELECT * FROM a JOIN c USING (k) WHERE k = 3 ORDER BY a.id, c.id

-- shape 55
-- refused
SELECT id FROM nm WHERE name = 'b'::char(3) ORDER BY id

-- shape 56
-- refused
SELECT id FROM nm WHERE name = ANY ('{a,"b "}') ORDER BY id

-- shape 57
-- refused
SELECT id FROM nm WHERE name IN ('b'::char(2), 'a') ORDER BY id

-- shape 58
-- refused
SELECT count(*) FROM a WHERE k BETWEEN SYMMETRIC 5 AND 3

-- shape 59
-- refused
SELECT id FROM a ORDER BY n FETCH FIRST 2 ROWS WITH TIES

-- shape 60
-- refused
SELECT * FROM vg WHERE k = 3

-- shape 61
-- refused
SELECT k, id FROM vo WHERE k = 3 AND rn = 1

-- shape 62
-- refused
SELECT count(*) FROM vg

-- shape 63
-- refused
SELECT sum(cnt) FROM vg JOIN a USING (k)

-- shape 64
-- refused
SELECT cnt, count(*) FROM vg GROUP BY cnt ORDER BY 1

-- shape 65
-- refused
SELECT avg(x) FROM (SELECT sum(n) AS x FROM a GROUP BY k) y

-- shape 66
-- refused
SELECT avg(x) FROM (SELECT sum(n) AS x FROM a GROUP BY n) y

-- shape 67
-- refused
SELECT count(DISTINCT k) FROM a

-- shape 68
-- refused
SELECT max(t COLLATE "C"), min(tc), max(ch) FROM a

-- shape 69
-- refused
SELECT k, array_agg(id ORDER BY id) FROM a GROUP BY k ORDER BY k

-- shape 70
-- refused
SELECT id, (SELECT array_agg(id ORDER BY id) FROM ra) FROM a ORDER BY id

-- shape 71
-- refused
SELECT count(*) FROM a JOIN co ON co.k = a.k

-- shape 72
-- refused
SELECT count(*) FROM co JOIN co2 USING (region, k)

-- shape 73
-- refused
SELECT count(*) FROM co JOIN co2 ON co.k = co2.k

-- shape 74
-- refused
SELECT region, k, count(*) FROM co GROUP BY region, k ORDER BY region COLLATE "C", k

-- shape 75
-- refused
SELECT k, count(*) FROM co GROUP BY k ORDER BY k

-- shape 76
-- refused
SELECT id FROM co WHERE region = 'eu' ORDER BY id

-- shape 77
-- refused
SELECT id FROM co2 WHERE (k, region) = (2, 'us') ORDER BY id

-- shape 78
-- refused
SELECT id FROM co WHERE (region, k) IN (('eu', 1), ('us', 2), ('EU', 3)) ORDER BY id

-- shape 79
-- refused
SELECT id FROM ev WHERE d >= '2024-01-03' AND d < '2024-01-05' ORDER BY id

-- shape 80
-- refused
SELECT id FROM ev WHERE NOT d < '2024-01-03' ORDER BY id

-- shape 81
-- refused
SELECT id FROM ev WHERE (d, id) < ('2024-01-03', 5) ORDER BY id

-- shape 82
-- refused
SELECT id FROM ev WHERE d > '2024-01-02' AND d < '2024-01-03' ORDER BY id

-- shape 83
-- refused
SELECT id FROM ev WHERE d <= '2024-01-03 00:00'::timestamp ORDER BY id

-- shape 84
-- refused
SELECT id FROM ev WHERE d = ANY (ARRAY['2024-01-03', '2024-01-09']::date[]) ORDER BY id

-- shape 85
-- refused
SELECT count(*), max(id) FROM li WHERE plan = 'nothing'

-- shape 86
-- refused
SELECT x.k, x.id FROM (a JOIN b USING (k)) AS x(k, id) WHERE x.k = 3 ORDER BY 1, 2

-- shape 87
-- refused
TABLE b

-- shape 88
-- refused
SELECT count(*) FROM ONLY a

-- shape 89
-- refused
SELECT count(*) FROM a WHERE k = 3::numeric

-- shape 90
-- refused
SELECT 1 FROM a WHERE k = 1 HAVING count(*) > 0

-- shape 91
-- refused
SELECT k, k FROM a ORDER BY k

-- shape 92
-- refused
SELECT *, n AS extra FROM a ORDER BY extra, id

-- shape 93
-- refused
SELECT n AS id, id AS n FROM a ORDER BY id, n

-- shape 94
-- refused
SELECT *, -n AS n FROM a ORDER BY n, id

-- shape 95
-- refused
SELECT id FROM a ORDER BY (SELECT max(b.id) FROM b WHERE b.k = a.k), id

-- shape 96
-- refused
SELECT id FROM a ORDER BY random() LIMIT 40

-- shape 97
-- refused
SELECT a.k, x FROM a, unnest(ARRAY[a.n, a.id]) x ORDER BY 1, 2

-- shape 98
-- refused
SELECT coalesce(a.k, b.k) AS k FROM a FULL JOIN b ON a.k = b.k ORDER BY k

-- shape 99
-- refused
SELECT k FROM a GROUP BY k ORDER BY count(*), k

-- shape 100
-- refused
SELECT n, sum(v) FROM a GROUP BY n ORDER BY sum(v), n

-- shape 101
-- refused
SELECT n, sum(v), avg(v), sum(f), avg(f), min(iv), max(iv) FROM a GROUP BY n

-- shape 102
-- refused
SELECT b FROM a GROUP BY b ORDER BY b NULLS FIRST

-- shape 103
-- refused
SELECT v, count(*) FROM a GROUP BY v ORDER BY v

-- shape 104
-- refused
SELECT f, count(*) FROM a GROUP BY f ORDER BY f

-- shape 105
-- refused
SELECT ch, count(*) FROM a GROUP BY ch

-- shape 106
-- refused
SELECT count(*), sum(n), avg(v), min(t COLLATE "C"), max(k) FROM empty

-- shape 107
-- refused
SELECT 'x', NULL, 3, count(*) FROM a

-- shape 108
-- refused
SELECT count(*) + 1 FROM a

-- shape 109
-- refused
SELECT count(*) FROM a x WHERE x.k = 3 AND (SELECT count(*) FROM b WHERE b.k = 4) > 0

-- shape 110
-- refused
SELECT count(*) FROM ra LEFT JOIN b ON b.k = 3 AND b.id = ra.id

-- shape 111
-- refused
SELECT count(*) FROM ra FULL JOIN b ON b.k = 3 AND b.id = ra.id

-- shape 112
-- refused
SELECT count(*) FROM ra WHERE NOT EXISTS (SELECT FROM b WHERE b.id = ra.id)

-- shape 113
-- refused
SELECT count(*) FROM ra WHERE id IN (SELECT id FROM b)

-- shape 114
-- refused
SELECT ra.id, (SELECT count(*) FROM b WHERE b.k = ra.k) FROM ra ORDER BY 1

-- shape 115
-- refused
SELECT a.id FROM a LEFT JOIN ra ON ra.id = a.id LEFT JOIN b ON b.k = a.k AND b.id = ra.id ORDER BY 1, b.id

-- shape 116
-- refused
SELECT count(*) FROM a JOIN (ra LEFT JOIN b ON b.k = ra.k) ON ra.k = a.k

-- shape 117
-- refused
SELECT count(*) FROM (a LEFT JOIN (b LEFT JOIN c ON b.k = c.k) ON a.k = c.k)

-- shape 118
-- refused
SELECT count(*) FROM a LEFT JOIN (b JOIN c ON true) ON a.k = b.k AND c.k = a.k

-- shape 119
-- refused
SELECT count(*) FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.n

-- shape 120
-- refused
SELECT count(*) FROM a NATURAL JOIN b

-- shape 121
-- refused
SELECT count(*) FROM a NATURAL LEFT JOIN vk

-- shape 122
-- refused
SELECT count(*) FROM va a JOIN vk USING (k, id)

-- shape 123
-- refused
SELECT k, id FROM a INTERSECT SELECT k, id FROM b ORDER BY 1, 2

-- shape 124
-- refused
(SELECT k FROM a WHERE k = 3) UNION ALL (SELECT k FROM b WHERE k = 3) ORDER BY 1

-- shape 125
-- refused
(SELECT id FROM a ORDER BY id LIMIT 3)

-- shape 126
-- refused
WITH x AS (SELECT k, count(*) AS c FROM a GROUP BY k) SELECT x.k, y.c FROM x JOIN x y USING (k) ORDER BY 1

-- shape 127
-- refused
WITH x AS MATERIALIZED (SELECT k, id FROM a ORDER BY id LIMIT 5) SELECT count(*) FROM x JOIN b USING (k)

-- shape 128
-- refused
WITH x AS (SELECT 3 AS k) SELECT count(*) FROM a JOIN x USING (k)

-- shape 129
-- refused
WITH a AS (SELECT k FROM b) SELECT count(*) FROM a WHERE k = 3

-- shape 130
-- refused
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT count(*) FROM a, r

-- shape 131
-- refused
WITH RECURSIVE r(k, d) AS (SELECT k, 1 FROM a UNION ALL SELECT k, d + 1 FROM r WHERE d < 3) SELECT count(*) FROM r

-- shape 132
-- refused
SELECT count(*) FROM a WHERE k = 3 IS TRUE

-- shape 133
-- refused
SELECT count(*) FROM a WHERE (k = 3) IS NOT FALSE

-- shape 134
-- refused
SELECT count(*) FROM a WHERE CASE WHEN k = 3 THEN true END

-- shape 135
-- refused
SELECT count(*) FROM a WHERE k IN (3, NULL)

-- shape 136
-- refused
SELECT count(*) FROM a WHERE k IS NULL OR k = 3

-- shape 137
-- refused
SELECT count(*) FROM a WHERE NOT (k = 3 OR k = 4)

-- shape 138
-- refused
SELECT count(*) FROM a WHERE k = 3 OR (k = 4 AND n > 1) OR k IS NULL

-- shape 139
-- refused
SELECT "a"."k" FROM "a" WHERE "a"."k" = 3

-- shape 140
-- refused
SELECT count(*) FROM a WHERE 'now' = t

-- shape 141
-- refused
SELECT count(*) FROM a WHERE ts < 'today 10:00'

-- shape 142
-- refused
SELECT count(*) FROM a WHERE ts < E'now'

-- shape 143
-- refused
SELECT DISTINCT $$now$$::timestamptz > '2000-01-01' FROM a

-- shape 144
-- refused
SELECT min(current_setting('TimeZone')) FROM a

-- shape 145
-- refused
SELECT DISTINCT current_setting('port') FROM a

-- shape 146
-- refused
SELECT DISTINCT current_user, current_schema FROM a

-- shape 147
-- refused
SELECT pg_typeof(k), count(*) FROM a GROUP BY 1

-- shape 148
-- refused
SELECT row_to_json(b) FROM b ORDER BY b.id

-- shape 149
-- refused
SELECT count(b) FROM b

-- shape 150
-- refused
SELECT (b).id FROM b ORDER BY 1

-- shape 151
-- refused
SELECT b.* FROM b ORDER BY b.k, b.id

-- shape 152
-- refused
SELECT array(SELECT id FROM c WHERE c.k = b.k ORDER BY id) FROM b ORDER BY b.id

-- shape 153
-- refused
SELECT id FROM a WHERE j @> '{"a": 1}' ORDER BY id

-- shape 154
-- refused
SELECT DISTINCT j FROM a

-- shape 155
-- refused
SELECT DISTINCT arr FROM c

-- shape 156
-- refused
SELECT x, count(*) FROM a GROUP BY x ORDER BY x

-- shape 157
-- refused
SELECT lower(t) AS l, count(*) FROM a GROUP BY lower(t)

-- shape 158
-- refused
SELECT lower(t) AS t, count(*) FROM a GROUP BY 1

-- shape 159
-- refused
SELECT t || 'x' AS t, count(*) FROM a GROUP BY t

-- shape 160
-- refused
SELECT 1 AS one, count(*) FROM a GROUP BY one

-- shape 161
-- refused
SELECT d, count(*) FILTER (WHERE n > 1), count(n) FILTER (WHERE EXISTS (SELECT FROM b WHERE b.k = a.k)) FROM a GROUP BY d ORDER BY d

-- shape 162
-- refused
SELECT sum((SELECT count(*) FROM b WHERE b.k = a.k)) FROM a

-- shape 163
-- refused
SELECT sum(n) FROM a WHERE k IN (SELECT k FROM b GROUP BY k HAVING count(*) > 4)

-- shape 164
-- refused
SELECT a.k, sum(a.n) FROM a JOIN b USING (k) GROUP BY a.k, b.id ORDER BY 1, 2

-- shape 165
-- refused
SELECT b.id % 2, sum(a.n) FROM a JOIN b USING (k) GROUP BY b.id % 2 ORDER BY 1

-- shape 166
-- refused
SELECT b.id % 2 + 1, sum(a.n) FROM a JOIN b USING (k) GROUP BY b.id % 2 ORDER BY 1
