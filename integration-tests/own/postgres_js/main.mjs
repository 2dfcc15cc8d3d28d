// Checks of postgres.js: it prepares every statement with parameters, pipelines, and describes with Flush, not Sync.

import { run } from "./checks.mjs";
import { basics } from "./basics.mjs";
import { application } from "./application.mjs";
import { streams } from "./streams.mjs";

await run({ ...basics, ...streams, ...application });
process.exit(0);
