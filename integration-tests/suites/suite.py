"""What a suite is: where it comes from, what its database needs, how it runs, which of its tests passed."""

import os
import shutil
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from suites import accounts

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Target:
    """Where a suite connects: PostgreSQL itself, or the proxy before one shard or two."""

    layout: str
    host: str
    port: int
    database: str
    user: str
    password: str
    """The shards themselves as (port, database), for what has to be prepared behind the proxy's back."""
    shards: list[tuple[int, str]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """libpq's variables, over what the caller's environment has."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        return kept | {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGDATABASE": self.database,
            "PGUSER": self.user,
            "PGPASSWORD": self.password,
            "HOME": str(accounts.home()),
            "LC_ALL": "C.UTF-8",
        }

    def url(self, scheme: str = "postgresql") -> str:
        return f"{scheme}://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"


class Suite:
    """One suite. The class attributes say what the runner has to give; the methods do the suite's own work."""

    name = ""
    """What the table in README calls it, with its version."""
    title = ""
    """Seconds after which a run counts as hanging and is killed; its tests without a result count as failed."""
    limit = 1800
    """Lines for postgresql.conf, besides those every suite gets."""
    settings: dict[str, str] = {}
    """The whole pg_hba.conf, where the suite wants another than `trust`."""
    hba: str | None = None
    """Users besides `postgres` that the proxy's configuration is to have: name -> TOML lines."""
    users: dict[str, str] = {}
    """TOML lines for the proxy's [listen] and [pool] tables."""
    listen = ""
    pool = ""
    """SQL that runs as superuser on every shard before the proxy starts."""
    schema = ""
    """TOML lines for the proxy's database that split the suite's tables; without them it has no layout `sharded`."""
    sharded = ""
    database = "suite"
    """Databases besides it, on the same servers, that the proxy serves too."""
    databases: list[str] = []
    """Servers and proxy take TLS, with a certificate made for the run."""
    tls = False
    """SQL that runs on each of them, as `schema` on the first."""
    more_schema = ""
    """The port that the suite's sources have built in; None: any."""
    port: int | None = None
    """What CREATE DATABASE gets besides the name."""
    database_options = ""
    """A part of the suite for `--sample`, small enough for every test run; None: all of it."""
    sample: list[str] | None = None

    def fetch(self, work: Path) -> None:
        """Brings the sources into `work` and builds them. Called until it succeeded once."""

    def programs(self, work: Path) -> Path | None:
        """Where `initdb` and `postgres` are, where it may not be the installed PostgreSQL."""
        return None

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        """Runs the suite and tells each test's outcome by name: PASSED, FAILED or SKIPPED."""
        raise NotImplementedError


def sdist(requirement: str, work: Path) -> Path:
    """A Python package's source distribution, unpacked under `work`; its directory."""
    subprocess.run(
        [python(), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
         "--no-binary", ":all:", "--dest", str(work), requirement],
        check=True,
    )
    name, version = requirement.split("==")
    archive = next(p for p in work.glob("*.tar.gz") if p.name.lower().startswith(f"{name.lower()}-{version}"))
    shutil.unpack_archive(archive, work)
    return next(p for p in work.iterdir() if p.is_dir() and p.name.lower() == archive.name[: -len(".tar.gz")].lower())


def python() -> str:
    """The interpreter of the suites' own virtual environment."""
    return str(Path(__file__).resolve().parents[2] / ".local" / "suites" / "venv" / "bin" / "python")


def run(command: list[str], target: Target, cwd: Path, log: Path, limit: int, extra: dict[str, str] | None = None) -> int | None:
    """Runs a suite's program as the account that suites run under, in a process group of its own; its output goes to
    `log`. Returns its exit code, or None when it took longer than `limit` seconds and was killed."""
    with log.open("wb") as out:
        child = subprocess.Popen(
            accounts.prefix() + command, cwd=cwd, env=target.environment() | (extra or {}), stdin=subprocess.DEVNULL,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


def junit(path: Path) -> dict[str, str]:
    """The outcomes in a JUnit file, as pytest writes it: `module.Class::test`."""
    results: dict[str, str] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = FAILED if kinds & {"failure", "error"} else SKIPPED if "skipped" in kinds else PASSED
        name = f"{case.get('classname')}::{case.get('name')}"
        # A test that is reported twice (its call and its teardown) has passed when both have.
        results[name] = outcome if results.get(name) in (None, PASSED) else results[name]
    return results
