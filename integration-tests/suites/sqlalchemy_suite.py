"""SQLAlchemy's dialect suite and its tests of PostgreSQL, by psycopg 3: types, reflection, DDL, RETURNING, cursors."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suites import suite
from suites.suite import Target

VERSION = "2.1.9"
"""What runs beside each other, and in which database: pytest-xdist would make databases of its own."""
PARTS = {"suite": "test/dialect/test_suite.py", "suite_too": "test/dialect/postgresql"}
SCHEMA = "CREATE SCHEMA test_schema; CREATE EXTENSION hstore; CREATE EXTENSION citext;"


class Sqlalchemy(suite.Suite):
    name = "sqlalchemy"
    title = f"SQLAlchemy {VERSION}, dialect suite"
    limit = 3600
    databases = ("suite_too",)
    schema = SCHEMA
    more_schema = SCHEMA
    sample = ["test/dialect/postgresql/test_query.py", "test/dialect/postgresql/test_dialect.py"]

    def fetch(self, work: Path) -> None:
        suite.sdist(f"SQLAlchemy=={VERSION}", work).rename(work / "source")

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        parts = {"suite": self.sample} if sample else {database: [path] for database, path in PARTS.items()}

        def one(database: str) -> dict[str, str]:
            there = dataclasses.replace(target, database=database)
            report = work / f"{target.layout}.{database}.xml"
            report.unlink(missing_ok=True)
            # -s: the installed package, which is compiled, and not the sources beside the tests.
            command = [suite.python(), "-s", "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", "-rf"]
            command += [f"--junitxml={report}", f"--dburi={there.url('postgresql+psycopg')}", *parts[database]]
            suite.run(command, there, work / "source", work / f"{target.layout}.{database}.log", self.limit)
            return suite.junit(report) if report.exists() else {}

        with ThreadPoolExecutor(len(parts)) as pool:
            results: dict[str, str] = {}
            for part in pool.map(one, parts):
                results |= part
            return results
