"""The tests of lib/pq, Go's pure driver: the unnamed statement across Sync, COPY, LISTEN, contexts that cancel."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from suites import packages, suite
from suites.suite import FAILED, PASSED, SKIPPED, Target

PATH = Path("/usr/share/gocode/src/github.com/lib/pq")
LINE = re.compile(r"^ *--- (?P<outcome>PASS|FAIL|SKIP): (?P<name>\S+) ", re.MULTILINE)
OUTCOMES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
PARTS = {"pq": ".", "hstore": "hstore"}


def go() -> str:
    found = sorted(Path("/usr/lib").glob("go-*/bin/go"))
    return str(found[-1]) if found else packages.program("go")


class LibPq(suite.Suite):
    name = "lib-pq"
    title = "lib/pq 1.10 (Debian's golang-github-lib-pq-dev)"
    limit = 300
    database = "pqgotest"
    schema = "CREATE EXTENSION hstore;"

    def fetch(self, work: Path) -> None:
        packages.debian("golang-go", "golang-github-lib-pq-dev")
        shutil.copytree(PATH, work / "source", dirs_exist_ok=True)
        environment = os.environ | {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(work / "cache"), "GOFLAGS": ""}
        for part, directory in PARTS.items():
            subprocess.run(
                [go(), "test", "-c", "-o", str(work / part), f"github.com/lib/pq/{directory}".removesuffix("/.")],
                check=True, env=environment, cwd=work,
            )
        shutil.rmtree(work / "cache")

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        results: dict[str, str] = {}
        for part, directory in PARTS.items():
            log = work / f"{target.layout}.{part}.log"
            cwd = work / "source" / directory
            program = str(work / part)
            suite.run([program, "-test.list=^Test"], target, cwd, log, self.limit)
            results |= {f"{part}.{name}": FAILED for name in log.read_text().split()}
            # lib/pq asks for TLS unless it is told not to.
            suite.run(
                [program, "-test.v", "-test.short", "-test.run=^Test", f"-test.timeout={self.limit - 20}s"], target, cwd, log,
                self.limit, {"PGSSLMODE": "disable"},
            )
            results |= {f"{part}.{m['name']}": OUTCOMES[m["outcome"]] for m in LINE.finditer(log.read_text())}
        return results
