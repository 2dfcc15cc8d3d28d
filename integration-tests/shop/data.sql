INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France'), ('jp', 'Japan'), ('us', 'United States');
INSERT INTO plans VALUES ('free', 0), ('trial', 0), ('team', 49.90), ('company', 499);
INSERT INTO tenants
  SELECT t, 'tenant ' || t, CASE WHEN t % 7 = 0 THEN NULL ELSE (ARRAY['de', 'fr', 'jp', 'us'])[1 + t % 4] END,
         (ARRAY['free', 'trial', 'team', 'company'])[1 + t % 4], date '2024-01-01' + (t * 5)::int
  FROM generate_series(1, 24) t;
INSERT INTO users
  SELECT t, u, format('user%s@tenant%s.example', u, t), (t + u) % 3 <> 0,
         CASE WHEN u = 5 THEN NULL ELSE (t * 31 + u * 17) % 100 / 8.0 END
  FROM generate_series(1, 24) t, generate_series(1, 6) u;
INSERT INTO orders
  SELECT t, o, 1 + o % 6, ((t * 7919 + o * 104729) % 100000) / 100.0, (ARRAY['open', 'paid', 'sent', 'void'])[1 + (t + o) % 4],
         timestamptz '2026-01-01 00:00+00' + ((t * 37 + o * 11) % 240) * interval '1 hour',
         CASE WHEN o % 5 = 0 THEN NULL ELSE 'note ' || ((t * o) % 13) END
  FROM generate_series(1, 24) t, generate_series(1, 30) o;
INSERT INTO order_items
  SELECT t, o, l, md5(format('%s/%s', o % 11, l))::uuid, 1 + (t + o + l) % 5, ((o * 37 + l * 11) % 5000) / 100.0,
         CASE WHEN l = 3 THEN NULL ELSE ((o + l) % 40) / 4.0 END
  FROM generate_series(1, 24) t, generate_series(1, 30) o, generate_series(1, 3) l WHERE (o + l) % 3 > 0;
INSERT INTO readings
  SELECT 'device-' || d, timestamp '2026-02-01' + s * interval '10 minutes', CASE WHEN s = 7 THEN 'NaN' ELSE d + s / 4.0 END,
         decode(md5(d || '/' || s), 'hex')
  FROM generate_series(1, 15) d, generate_series(1, 20) s;
INSERT INTO notes SELECT n, CASE WHEN n % 4 = 0 THEN NULL ELSE 'note number ' || n END, ARRAY['a' || n % 3, 'b']
  FROM generate_series(1, 20) n;
