-- syntax error
SELECT * FROM orders WHERE

-- unknown table
SELECT * FROM nowhere

-- unknown column
SELECT nothing FROM orders WHERE tenant_id = 1

-- unknown column over all shards
SELECT nothing FROM orders

-- unknown function
SELECT no_such_function(1)

-- unknown schema
SELECT * FROM nowhere.orders

-- division by zero on one shard
SELECT 1 / (order_id - order_id) FROM orders WHERE tenant_id = 1

-- division by zero over all shards
SELECT 1 / (order_id - order_id) FROM orders ORDER BY order_id

-- wrong literal for the key
SELECT * FROM orders WHERE tenant_id = 'x'

-- key out of range
SELECT * FROM orders WHERE tenant_id = '99999999999999999999'

-- wrong parameter for the key
-- values: x
SELECT * FROM orders WHERE tenant_id = $1

-- ambiguous column
SELECT tenant_id FROM users u JOIN orders o ON u.tenant_id = o.tenant_id

-- column must appear in GROUP BY
SELECT status, amount FROM orders GROUP BY status

-- aggregate in WHERE
SELECT * FROM orders WHERE count(*) > 1

-- type mismatch
SELECT * FROM orders WHERE tenant_id = true

-- negative LIMIT
SELECT tenant_id FROM tenants ORDER BY tenant_id LIMIT -1

-- ORDER BY position out of range
SELECT tenant_id FROM tenants ORDER BY 2

-- insert into an unknown column
INSERT INTO tenants (tenant_id, nothing) VALUES (1, 2)

-- too many values
INSERT INTO notes VALUES (1, 'a', '{}', 4)
