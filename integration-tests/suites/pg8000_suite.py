"""The tests of pg8000, a driver in Python alone with three interfaces: one statement described, bound and executed per
call with Flush, COPY, types, named statements."""

from pathlib import Path

from suites import suite
from suites.suite import Target

VERSION = "1.31.6"


class Pg8000(suite.Suite):
    name = "pg8000"
    title = f"pg8000 {VERSION}"
    # The tests name no database, so that they get the one with the user's name.
    database = "postgres"
    sample = ["test/native/test_query.py", "test/dbapi/test_copy.py", "test/legacy/test_query.py"]

    def fetch(self, work: Path) -> None:
        suite.sdist(f"pg8000=={VERSION}", work).rename(work / "source")

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        report = work / f"{target.layout}.xml"
        command = [suite.python(), "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", "--benchmark-disable"]
        command += [f"--junitxml={report}", *(self.sample if sample else ["test"])]
        suite.run(command, target, work / "source", work / f"{target.layout}.log", self.limit)
        return suite.junit(report)
