"""The tests of psycopg2, the libpq driver of Python's DB-API: simple protocol, named cursors, COPY, large objects, two
phases, asynchronous connections, notices and notifications."""

from pathlib import Path

from suites import suite
from suites.suite import Target

VERSION = "2.9.13"


class Psycopg2(suite.Suite):
    name = "psycopg2"
    title = f"psycopg2 {VERSION}"
    schema = "CREATE EXTENSION hstore;"
    sample = ["tests/test_cursor.py", "tests/test_transaction.py", "tests/test_lobject.py"]

    def fetch(self, work: Path) -> None:
        suite.sdist(f"psycopg2=={VERSION}", work).rename(work / "source")

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        report = work / f"{target.layout}.xml"
        command = [suite.python(), "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += self.sample if sample else ["tests"]
        log = work / f"{target.layout}.log"
        suite.run(command, target, work / "source", log, self.limit, {"PSYCOPG2_TESTDB": target.database})
        return suite.junit(report)
