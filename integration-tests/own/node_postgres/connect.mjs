// Connections for the checks, closed whatever a check does.

import pg from "pg";

/** Runs `work` with a client of its own. */
export async function withClient(work, options = {}) {
  const client = new pg.Client(options);
  client.on("error", () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Runs `work` with a pool of `max` clients. */
export async function withPool(max, work) {
  const pool = new pg.Pool({ max });
  try {
    return await work(pool);
  } finally {
    await pool.end();
  }
}
