"""The suites, in the order in which they run."""

from suites import own
from suites.asyncpg_suite import Asyncpg
from suites.django_suite import Django
from suites.lib_pq_suite import LibPq
from suites.libpq_pipeline_suite import LibpqPipeline
from suites.pg8000_suite import Pg8000
from suites.psycopg2_suite import Psycopg2
from suites.regress_suite import Regress
from suites.sqlalchemy_suite import Sqlalchemy
from suites.suite import Suite
from suites.tokio_postgres_suite import TokioPostgres

SUITES: list[type[Suite]] = [
    Regress,
    LibpqPipeline,
    Asyncpg,
    Psycopg2,
    Pg8000,
    TokioPostgres,
    LibPq,
    Django,
    Sqlalchemy,
    own.NodePostgres,
    own.PostgresJs,
    own.Psycopg3,
    own.Pgjdbc,
    own.Pdo,
    own.Sqlx,
    own.Diesel,
    own.TypeOrm,
    own.Sequelize,
    own.PrismaClient,
]
