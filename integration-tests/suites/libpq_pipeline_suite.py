"""The tests of libpq's pipeline mode: a program of PostgreSQL's own tests, whose messages are compared byte by byte."""

import subprocess
from pathlib import Path

from suites import postgresql_source, suite
from suites.suite import FAILED, PASSED, Target

PROGRAM = "libpq_pipeline"
"""How many rows the tests of long pipelines write, as in PostgreSQL's own run of them."""
ROWS = "700"


class LibpqPipeline(suite.Suite):
    name = "libpq_pipeline"
    title = "PostgreSQL 15 libpq_pipeline"
    limit = 60

    def fetch(self, work: Path) -> None:
        postgresql_source.fetch(work)
        include = "/usr/include/postgresql"
        subprocess.run(
            ["gcc", "-O1", "-w", f"-I{include}", f"-I{include}/internal", f"-I{postgresql_source.headers(work)}", "-o",
             str(work / PROGRAM), str(sources(work) / f"{PROGRAM}.c"), f"-L{postgresql_source.libraries(work)}", "-lpq",
             "-lpgcommon", "-lpgport"],
            check=True,
        )

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        names = subprocess.run([work / PROGRAM, "tests"], check=True, capture_output=True, text=True).stdout.split()
        output = work / target.layout
        output.mkdir(exist_ok=True)
        suite.accounts.give(output)
        results = {}
        for name in names:
            results |= self.one(target, work, output, name)
        return results

    def one(self, target: Target, work: Path, output: Path, name: str) -> dict[str, str]:
        """One test, and where PostgreSQL's sources say which messages it exchanges, whether it exchanged these."""
        expected = sources(work) / "traces" / f"{name}.trace"
        trace = output / f"{name}.trace"
        trace.unlink(missing_ok=True)
        command = [str(work / PROGRAM), "-r", ROWS]
        if expected.exists():
            command += ["-t", str(trace)]
        # No connection string: libpq's variables say where to.
        code = suite.run([*command, name, ""], target, output, output / f"{name}.log", self.limit)
        results = {name: PASSED if code == 0 else FAILED}
        if expected.exists():
            same = trace.exists() and trace.read_text() == expected.read_text()
            results[f"{name} (messages)"] = PASSED if same else FAILED
        return results


def sources(work: Path) -> Path:
    return work / "source" / "src" / "test" / "modules" / PROGRAM
