"""The suites, in the order in which they run."""

from suites.asyncpg_suite import Asyncpg
from suites.libpq_pipeline_suite import LibpqPipeline
from suites.regress_suite import Regress
from suites.suite import Suite

SUITES: list[type[Suite]] = [Regress, LibpqPipeline, Asyncpg]
