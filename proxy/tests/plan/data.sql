-- Rows for the plan cases; tables that are not on one shard are loaded by key where they are spread.
INSERT INTO tenants SELECT t, 'tenant ' || t, CASE t % 4 WHEN 0 THEN NULL WHEN 1 THEN 'free' WHEN 2 THEN 'team' ELSE 'gone' END,
  CASE WHEN t % 5 = 0 THEN NULL ELSE date '2024-01-01' + t::int * 17 END FROM generate_series(1, 12) t;
INSERT INTO users SELECT t, u, CASE WHEN u = 3 THEN NULL ELSE 'u' || u || '@t' || t END, CASE WHEN u = 2 THEN NULL ELSE (t + u) % 2 = 0 END,
  CASE WHEN u = 1 THEN NULL ELSE (t * u) / 4.0 END FROM generate_series(1, 12) t, generate_series(1, 3) u;
INSERT INTO orders SELECT t, o, CASE WHEN o % 4 = 0 THEN NULL ELSE 1 + o % 3 END,
  (ARRAY['cz', 'de', 'fr', NULL, 'us', 'xx'])[1 + (t * 7 + o * 3) % 6], CASE WHEN (t + o) % 7 = 0 THEN NULL ELSE (t * 31 + o * 17) % 211 + 0.25 END,
  CASE WHEN (t * o) % 5 = 0 THEN NULL ELSE (t * o) % 5 END, timestamp '2024-03-01' + ((t * 11 + o * 5) % 40) * interval '7 hours',
  CASE WHEN o % 3 = 0 THEN NULL ELSE (ARRAY['Zebra', 'apple', 'Banane', 'čaj'])[1 + (t + o) % 4] END
  FROM generate_series(1, 11) t, generate_series(1, 6) o;
INSERT INTO order_items SELECT t, o, l, (ARRAY['bag', 'cup', 'pen', 'hat'])[1 + (t + o + l) % 4], CASE WHEN (t + l) % 6 = 0 THEN NULL ELSE (t * o + l) % 13 END
  FROM generate_series(1, 9) t, generate_series(1, 4) o, generate_series(1, 2) l WHERE (t + o) % 3 <> 0;
INSERT INTO countries VALUES ('cz', 'Česko', 'eu', 3), ('de', 'Deutschland', 'eu', 1), ('fr', 'France', 'eu', 2), ('us', 'United States', 'us', 1), ('jp', NULL, NULL, NULL);
INSERT INTO plans VALUES ('free', 0), ('team', 9.90), ('none', NULL);
INSERT INTO accounts VALUES ('ann', 10, 'Ann'), ('Bob', 20, 'bob'), ('cid', NULL, NULL), ('', 0, 'Ž'), ('ann ', 5, 'zed'), ('žluť', 7, 'a');
INSERT INTO devices VALUES ('00000000-0000-0000-0000-000000000001', 'a', 1.5), ('6f1c0000-0000-0000-0000-00000000000a', 'b', NULL),
  ('ffffffff-ffff-ffff-ffff-ffffffffffff', 'a', '-0'), ('12345678-1234-1234-1234-123456789abc', NULL, 'NaN'), ('12345678-1234-1234-1234-123456789abd', 'c', 0);
INSERT INTO readings SELECT r, d, timestamp '2024-05-01' + d * interval '1 hour', CASE WHEN d = 4 THEN NULL ELSE d * 1.5 END FROM unnest(ARRAY['eu', 'us', 'as']) r, generate_series(1, 5) d;
INSERT INTO events SELECT date '2023-11-15' + e::int * 40, e, CASE WHEN e % 3 = 0 THEN NULL ELSE 'k' || e % 3 END FROM generate_series(1, 12) e;
INSERT INTO parcels SELECT (ARRAY['a', 'b', 'c', 'd'])[1 + p % 4], p, CASE WHEN p % 5 = 0 THEN NULL ELSE p * 10 END FROM generate_series(1, 12) p;
INSERT INTO loose VALUES (NULL, 1), (NULL, 2), (1, 3), (2, NULL), (2, 4), (7, 5);
INSERT INTO tickets (tenant_id, id, title) SELECT t, t * 10, 'ticket ' || t FROM generate_series(1, 6) t;
INSERT INTO audited SELECT t, t * 2 FROM generate_series(1, 5) t;
INSERT INTO guarded SELECT t, t * 3 FROM generate_series(1, 5) t;
INSERT INTO mails SELECT t, 'm' || t FROM generate_series(1, 5) t;
INSERT INTO settings VALUES ('color', 'red'), ('size', NULL);
INSERT INTO counters (n) VALUES (1), (2);
INSERT INTO far VALUES (1, 'x'), (2, NULL);
INSERT INTO moods VALUES (1, 'sad'), (2, 'happy'), (3, NULL), (4, 'ok');
