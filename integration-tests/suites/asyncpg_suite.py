"""The tests of asyncpg, the asyncio driver: binary formats, prepared statements, cursors, COPY, LISTEN, pools."""

from pathlib import Path

from suites import suite
from suites.suite import Target

VERSION = "0.32.0"


class Asyncpg(suite.Suite):
    name = "asyncpg"
    title = f"asyncpg {VERSION}"
    # The tests of pools connect to this database, whatever the environment says.
    database = "postgres"
    sample = ["tests/test_prepare.py", "tests/test_cursor.py"]

    def fetch(self, work: Path) -> None:
        suite.sdist(f"asyncpg=={VERSION}", work).rename(work / "source")
        # The tests are to use the installed driver, not the sources beside them, which are not compiled.
        (work / "source" / "asyncpg").rename(work / "source" / "asyncpg.not-used")

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        report = work / f"{target.layout}.xml"
        command = [suite.python(), "-m", "pytest", "-q", "-rf", f"--junitxml={report}"]
        command += self.sample if sample else ["tests"]
        suite.run(command, target, work / "source", work / f"{target.layout}.log", self.limit)
        return suite.junit(report)
