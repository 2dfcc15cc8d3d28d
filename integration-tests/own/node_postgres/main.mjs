// Checks of node-postgres, with pg-cursor, pg-query-stream and pg-copy-streams.

import { run } from "./checks.mjs";
import { basics } from "./basics.mjs";
import { application } from "./application.mjs";
import { streams } from "./streams.mjs";

await run({ ...basics, ...streams, ...application });
process.exit(0);
