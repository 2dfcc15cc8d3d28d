// node-postgres through the proxy: parameters as text with unknown types, named statements, pools.
const assert = require('node:assert');
const { Client, Pool } = require('pg');

async function main() {
  const client = new Client();
  await client.connect();
  let result = await client.query('SELECT * FROM orders WHERE tenant_id = $1 AND order_id = $2', [7, 12]);
  assert.equal(result.rows[0].tenant_id, '7');
  assert.equal(result.command, 'SELECT');
  assert.ok(result.rows[0].placed instanceof Date);
  result = await client.query('SELECT count(*), sum(amount) FROM orders');
  assert.equal(result.rows[0].count, '720');
  result = await client.query('SELECT tenant_id FROM tenants ORDER BY tenant_id DESC LIMIT $1', [3]);
  assert.deepEqual(result.rows.map((r) => r.tenant_id), ['24', '23', '22']);
  result = await client.query('SELECT tenant_id FROM tenants WHERE tenant_id = ANY($1) ORDER BY 1', [[2, 3, 9]]);
  assert.deepEqual(result.rows.map((r) => r.tenant_id), ['2', '3', '9']);
  // A named statement for keys of different shards.
  for (let tenant = 1; tenant < 20; tenant++) {
    result = await client.query({ name: 'by-key', text: 'SELECT name FROM tenants WHERE tenant_id = $1', values: [tenant] });
    assert.equal(result.rows[0].name, `tenant ${tenant}`);
  }
  // Several statements in one query without parameters.
  const results = await client.query("SELECT 1 AS one; SELECT name FROM tenants WHERE tenant_id = 4");
  assert.equal(results.length, 2);
  assert.equal(results[1].rows[0].name, 'tenant 4');
  // A transaction.
  await client.query('BEGIN');
  result = await client.query("INSERT INTO tenants VALUES ($1, 'node', 'de', 'free', '2026-01-01') RETURNING name", [202]);
  assert.equal(result.rowCount, 1);
  await assert.rejects(client.query("INSERT INTO tenants VALUES ($1, 'node', 'de', 'free', '2026-01-01')", [202]), { code: '23505' });
  await assert.rejects(client.query('SELECT 1'), { code: '25P02' });
  await client.query('ROLLBACK');
  await assert.rejects(client.query('SELECT * FROM nowhere'), { code: '42P01' });
  result = await client.query('SELECT count(*) FROM tenants WHERE tenant_id = 202');
  assert.equal(result.rows[0].count, '0');
  await client.end();

  const pool = new Pool({ max: 4 });
  const names = await Promise.all(
    Array.from({ length: 16 }, (_, i) => pool.query('SELECT name FROM tenants WHERE tenant_id = $1', [i + 1])));
  assert.deepEqual(names.map((r) => r.rows[0].name), Array.from({ length: 16 }, (_, i) => `tenant ${i + 1}`));
  await pool.end();
  console.log('node-postgres is content');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
