"""The suites, in the order in which they run."""

from suites import own
from suites.asyncpg_suite import Asyncpg
from suites.suite import Suite

SUITES: list[type[Suite]] = [Asyncpg, own.NodePostgres, own.PostgresJs, own.Psycopg3, own.Pgjdbc, own.Pdo, own.TypeOrm, own.Sequelize, own.Sqlx, own.Diesel, own.PrismaClient]
