"""The suites, in the order in which they run."""

from suites.asyncpg_suite import Asyncpg
from suites.lib_pq_suite import LibPq
from suites.suite import Suite
from suites.tokio_postgres_suite import TokioPostgres

SUITES: list[type[Suite]] = [Asyncpg, TokioPostgres, LibPq]
