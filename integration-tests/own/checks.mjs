// Runs named checks of a Node.js client and tells each outcome on a line of its own: `ok NAME`, `not ok NAME: reason`.

import assert from "node:assert/strict";

const LIMIT_MS = 30_000;

export const environment = process.env;
export const sharded = environment.SHARDWAY_LAYOUT === "sharded";

/** Runs the checks in order; one that takes too long has failed, and the next one runs all the same. */
export async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer in ${LIMIT_MS / 1000} seconds`)), LIMIT_MS);
    });
    try {
      await Promise.race([check(), late]);
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`not ok ${name}: ${[error?.message, error?.parent?.hint, error?.stack ?? error].filter(Boolean).join(" | ").replaceAll("\n", " | ")}`);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Fails unless `action` is refused with this SQLSTATE; gives the error. */
export async function refused(sqlstate, action) {
  let error;
  try {
    await action();
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `expected ${sqlstate}, got no error`);
  assert.equal(error.code, sqlstate, error.message);
  return error;
}

/** Waits until `condition` gives something true, at most five seconds. */
export async function eventually(condition, what) {
  for (let tries = 0; tries < 250; tries += 1) {
    const found = await condition();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail(`never: ${what}`);
}
