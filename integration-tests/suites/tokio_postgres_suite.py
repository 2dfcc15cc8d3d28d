"""The tests of tokio-postgres: binary formats of every type, pipelining, portals, COPY, cancel, notices, LISTEN."""

import re
import shutil
from pathlib import Path

from suites import packages, suite
from suites.suite import FAILED, PASSED, SKIPPED, Target

VERSION = "0.7.18"
"""What the tests expect in place of their own 5433, which may be taken; compiled in, thus always the same."""
PORT = 15433
FEATURES = (
    "runtime,array-impls,with-bit-vec-0_6,with-bit-vec-0_7,with-bit-vec-0_8,with-chrono-0_4,with-eui48-1,with-geo-types-0_7,"
    "with-serde_json-1,with-smol_str-01,with-time-0_3,with-uuid-1"
)
LINE = re.compile(r"^test (?P<name>\S+)(?: - .*)? \.\.\. (?P<outcome>ok|FAILED|ignored)", re.MULTILINE)
OUTCOMES = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}


class TokioPostgres(suite.Suite):
    name = "tokio-postgres"
    title = f"tokio-postgres {VERSION}"
    limit = 300
    port = PORT
    database = "postgres"
    settings = {"wal_level": "logical"}
    hba = (
        "host all pass_user 127.0.0.1/32 password\n"
        "host all md5_user 127.0.0.1/32 md5\n"
        "host all scram_user 127.0.0.1/32 scram-sha-256\n"
        "host all all 127.0.0.1/32 trust\n"
    )
    schema = (
        "CREATE ROLE pass_user PASSWORD 'password' LOGIN;"
        "SET password_encryption = 'md5'; CREATE ROLE md5_user PASSWORD 'password' LOGIN; RESET password_encryption;"
        "CREATE ROLE scram_user PASSWORD 'password' LOGIN;"
        "CREATE ROLE ssl_user LOGIN;"
        "CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree;"
    )
    users = {
        "postgres": 'auth = "trust"\nserver_password = "postgres"',
        "pass_user": 'password = "password"',
        "md5_user": 'password = "password"',
        "scram_user": 'password = "password"',
    }

    def fetch(self, work: Path) -> None:
        source = packages.crate("tokio-postgres", VERSION, work)
        for name in ("main.rs", "runtime.rs"):
            path = source / "tests" / "test" / name
            path.write_text(path.read_text().replace("5433", str(PORT)))
        program = packages.test_binary(source, work / "target", "--test=test", f"--features={FEATURES}")
        shutil.copy(program, work / "tests")
        shutil.rmtree(work / "target")

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        log = work / f"{target.layout}.log"
        program = str(work / "tests")
        suite.run([program, "--list", "--format=terse"], target, work, log, self.limit)
        names = [line.removesuffix(": test") for line in log.read_text().splitlines() if line.endswith(": test")]
        suite.run([program, "--test-threads=2"], target, work, log, self.limit)
        outcomes = {m["name"]: OUTCOMES[m["outcome"]] for m in LINE.finditer(log.read_text())}
        return {name: outcomes.get(name, FAILED) for name in names}
