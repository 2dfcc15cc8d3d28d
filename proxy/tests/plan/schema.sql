-- The schema of all plan cases: a shop of many tenants on three shards.
CREATE TABLE tenants (tenant_id bigint PRIMARY KEY, name text NOT NULL, plan_code text, created date);
CREATE TABLE users (tenant_id bigint NOT NULL, id bigint NOT NULL, email text, active boolean, score real,
  PRIMARY KEY (tenant_id, id));
CREATE TABLE orders (tenant_id bigint NOT NULL, id bigint NOT NULL, user_id bigint, country text, amount numeric(12,2),
  quantity integer, placed timestamp, note text, PRIMARY KEY (tenant_id, id));
CREATE TABLE order_items (tenant_id integer NOT NULL, order_id bigint NOT NULL, line integer NOT NULL, item text,
  price numeric(12,2), PRIMARY KEY (tenant_id, order_id, line));
CREATE TABLE countries (code text PRIMARY KEY, name text, region text, rank integer);
CREATE TABLE plans (code text PRIMARY KEY, price numeric(12,2));
CREATE TABLE accounts (login text PRIMARY KEY, balance bigint, nick text COLLATE "en-x-icu");
CREATE TABLE devices (id uuid PRIMARY KEY, kind text, weight double precision);
CREATE TABLE readings (region text NOT NULL, device bigint NOT NULL, at timestamp NOT NULL, value double precision,
  PRIMARY KEY (region, device, at));
CREATE TABLE events (day date NOT NULL, id bigint NOT NULL, kind text, PRIMARY KEY (day, id));
CREATE TABLE parcels (zone text NOT NULL, id bigint NOT NULL, weight integer, PRIMARY KEY (zone, id));
CREATE TABLE loose (tenant_id bigint, v integer);
CREATE TABLE tickets (tenant_id bigint NOT NULL, id bigserial, title text, PRIMARY KEY (tenant_id, id));
CREATE TABLE audited (tenant_id bigint PRIMARY KEY, v integer);
CREATE TABLE guarded (tenant_id bigint PRIMARY KEY, v integer);
CREATE TABLE mails (tenant_id bigint PRIMARY KEY, mail text UNIQUE);
CREATE TABLE settings (name text PRIMARY KEY, value text);
CREATE TABLE counters (id serial PRIMARY KEY, n integer);
CREATE TABLE far (id integer PRIMARY KEY, v text);
CREATE SEQUENCE numbers;
CREATE VIEW order_totals AS SELECT tenant_id, sum(amount) AS total, count(*) AS orders FROM orders GROUP BY tenant_id;
CREATE VIEW big_orders AS SELECT tenant_id AS tenant, id, amount FROM orders WHERE amount > 100;
CREATE VIEW first_tenant AS SELECT id, amount FROM orders WHERE tenant_id = 1;
CREATE VIEW country_count AS SELECT country, count(*) AS orders FROM orders GROUP BY country;
CREATE VIEW named_settings AS SELECT name FROM settings;
CREATE FUNCTION double(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE FUNCTION order_count() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM orders';
CREATE FUNCTION log_it(text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM 1; END $$;
CREATE PROCEDURE tidy() LANGUAGE plpgsql AS $$ BEGIN NULL; END $$;
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER audit BEFORE INSERT OR UPDATE ON audited FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY everyone ON guarded USING (true);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE moods (tenant_id bigint PRIMARY KEY, m mood);
