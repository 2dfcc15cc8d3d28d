"""PostgreSQL's own regression tests: one psql for each file, whose whole output is compared with the expected one."""

import re
import shutil
import subprocess
from pathlib import Path

from suites import postgresql_source, suite
from suites.suite import FAILED, PASSED, Target

LINE = re.compile(r"^(?:test +|     )(?P<name>\S+) +\.\.\. (?P<outcome>ok|FAILED|failed)", re.M)
"""What pg_regress sets for the database that it makes itself; ours is there before it starts."""
SETTINGS = {
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "bytea_output": "hex",
    "timezone_abbreviations": "Default",
}


class Regress(suite.Suite):
    name = "regress"
    title = "PostgreSQL 15 regression tests"
    limit = 900
    database = "regression"
    database_options = "TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    schema = "".join(f"ALTER DATABASE regression SET {name} TO '{value}';" for name, value in SETTINGS.items())
    # The schedule runs up to twenty files at once, most of which tie themselves to a server connection.
    pool = "size = 60"
    sample = ["test_setup", "boolean", "int8", "strings", "transactions", "prepare", "portals_p2"]

    def programs(self, work: Path) -> Path:
        return postgresql_source.installed(work) / "bin"

    def fetch(self, work: Path) -> None:
        postgresql_source.fetch(work)
        modules = work / "modules"
        modules.mkdir(exist_ok=True)
        for name in ["refint.so", "autoinc.so"]:
            shutil.copy(postgresql_source.installed(work) / "lib" / name, modules)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O1", "-w", f"-I{postgresql_source.headers(work)}", "-o", str(modules / "regress.so"),
             str(work / "source" / "src" / "test" / "regress" / "regress.c")],
            check=True,
        )

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        installed = postgresql_source.installed(work)
        files = work / "source" / "src" / "test" / "regress"
        output = work / target.layout
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        suite.accounts.give(output)
        command = [
            str(installed / "lib" / "pgxs" / "src" / "test" / "regress" / "pg_regress"),
            f"--inputdir={files}", f"--outputdir={output}", f"--dlpath={work / 'modules'}", f"--bindir={installed / 'bin'}",
            f"--host={target.host}", f"--port={target.port}", f"--user={target.user}", "--use-existing",
            f"--dbname={target.database}",
        ]
        command += self.sample if sample else [f"--schedule={files / 'parallel_schedule'}"]
        suite.run(command, target, output, work / f"{target.layout}.log", self.limit)
        return outcomes((work / f"{target.layout}.log").read_text())


def outcomes(log: str) -> dict[str, str]:
    """The outcome of each file in what pg_regress prints."""
    return {m["name"]: PASSED if m["outcome"] == "ok" else FAILED for m in LINE.finditer(log)}
