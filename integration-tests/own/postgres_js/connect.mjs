// Connections for the checks, closed whatever a check does.

import postgres from "postgres";
import { environment } from "./checks.mjs";

/** Runs `work` with a client (a pool of `max` connections, one unless told). */
export async function withSql(work, options = {}) {
  const sql = postgres({
    host: environment.PGHOST,
    port: Number(environment.PGPORT),
    database: environment.PGDATABASE,
    username: environment.PGUSER,
    password: environment.PGPASSWORD,
    max: 1,
    onnotice: () => {},
    ...options,
  });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 2 });
  }
}
