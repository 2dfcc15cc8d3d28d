CREATE TABLE countries (code text PRIMARY KEY, name text NOT NULL);
CREATE TABLE plans (plan text PRIMARY KEY, price numeric(8,2) NOT NULL);
CREATE TABLE tenants (tenant_id bigint PRIMARY KEY, name text NOT NULL, country text, plan text NOT NULL,
                      created date NOT NULL);
CREATE TABLE users (tenant_id bigint NOT NULL REFERENCES tenants, user_id bigint NOT NULL, email text NOT NULL,
                    active boolean NOT NULL, score double precision, PRIMARY KEY (tenant_id, user_id));
CREATE TABLE orders (tenant_id bigint NOT NULL, order_id bigint NOT NULL, user_id bigint NOT NULL,
                     amount numeric(10,2) NOT NULL, status text NOT NULL, placed timestamptz NOT NULL, note text,
                     PRIMARY KEY (tenant_id, order_id), FOREIGN KEY (tenant_id, user_id) REFERENCES users);
CREATE TABLE order_items (tenant_id bigint NOT NULL, order_id bigint NOT NULL, line integer NOT NULL, sku uuid NOT NULL,
                          quantity smallint NOT NULL, price numeric(10,2) NOT NULL, weight real,
                          PRIMARY KEY (tenant_id, order_id, line),
                          FOREIGN KEY (tenant_id, order_id) REFERENCES orders);
CREATE TABLE readings (device text NOT NULL, at timestamp NOT NULL, value double precision, raw bytea,
                       PRIMARY KEY (device, at));
CREATE TABLE notes (id integer PRIMARY KEY, body text, tags text[]);
CREATE INDEX orders_placed ON orders (placed);
