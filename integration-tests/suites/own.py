"""Checks of our own for clients that bring no tests: one program for each client, in `integration-tests/own/`.

A program connects with libpq's variables, makes its tables, and prints `ok NAME` or `not ok NAME: reason` for each of
its checks. It is the same program in every layout; in `sharded` the tables that have a column `tenant_id` are split by
it over two shards and all others are reference tables.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from suites import accounts, suite
from suites.suite import FAILED, PASSED, Target

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "integration-tests" / "own"
TLS = ROOT / ".local" / "suites" / "own-tls"
OUTCOME = re.compile(r"^(?P<not>not )?ok (?P<name>[^:]+?)(?:: .*)?$")

SHARDED = """
unlisted_tables = "reference"
[[database.own.shard_map]]
name = "tenants"
key = ["bigint"]
function = "hash"
[[database.own.column_rule]]
column = "tenant_id"
shard_map = "tenants"
"""


class Own(suite.Suite):
    """What the programs share. A subclass names its directory, how it is installed and how it is started."""

    limit = 600
    database = "own"
    sharded = SHARDED
    settings = {"ssl": "on", "ssl_cert_file": f"'{TLS}/server.crt'", "ssl_key_file": f"'{TLS}/server.key'"}
    listen = f'[listen.tls]\ncertificate = "{TLS}/server.crt"\nkey = "{TLS}/server.key"'
    """The programs or files that must be there, with the Debian packages that bring them."""
    needs: dict[str, str] = {}

    def fetch(self, work: Path) -> None:
        certificate()
        missing = sorted({package for program, package in self.needs.items() if shutil.which(program) is None and not Path(program).exists()})
        if missing:
            install_packages(self.name, missing)
        self.install(work)

    def install(self, work: Path) -> None:
        """Brings the client into `work`."""

    def command(self, work: Path) -> list[str]:
        """How the program is started, in `work`, with what `copy` left there."""
        raise NotImplementedError

    def copy(self, work: Path) -> None:
        """Brings the program itself into `work`, before every run, so that it is as it stands now."""
        shutil.copytree(PROGRAMS / self.name, work, dirs_exist_ok=True)

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        self.copy(work)
        accounts.give(work)
        log = work / f"{target.layout}.log"
        extra = {"SHARDWAY_LAYOUT": target.layout, "SHARDWAY_CA": str(TLS / "server.crt")}
        code = suite.run(self.command(work), target, work, log, self.limit, extra)
        results = outcomes(log)
        if code != 0:
            results["ends by itself"] = FAILED
            print(f"  the checks of {self.name} ended with {code}; see {log}")
        return results


def outcomes(log: Path) -> dict[str, str]:
    """What a program told of its checks."""
    matches = (OUTCOME.match(line) for line in log.read_text(errors="replace").splitlines())
    return {m["name"]: FAILED if m["not"] else PASSED for m in matches if m}


def certificate() -> None:
    """A self-signed certificate for 127.0.0.1 and localhost, made once."""
    if (TLS / "server.crt").exists():
        return
    TLS.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE",
         "-keyout", str(TLS / "server.key"), "-out", str(TLS / "server.crt")],
        check=True, stderr=subprocess.DEVNULL,
    )
    (TLS / "server.key").chmod(0o600)
    accounts.give(TLS)


def install_packages(name: str, packages: list[str]) -> None:
    """Installs Debian packages where that needs no asking; says what is missing where it does."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"{name} needs more than is installed; please run: apt-get install {' '.join(packages)}")
    print(f"  installing {' '.join(packages)}")
    quiet = {"stdout": subprocess.DEVNULL, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "check": True}
    subprocess.run(["apt-get", "update", "-qq"], **quiet)
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], **quiet)


class Node(Own):
    """A program for Node.js with its packages pinned in package-lock.json."""

    needs = {"node": "nodejs", "npm": "npm"}

    def install(self, work: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PROGRAMS / self.name / name, work)
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=work, check=True)

    def copy(self, work: Path) -> None:
        super().copy(work)
        shutil.copy(PROGRAMS / "checks.mjs", work)

    def command(self, work: Path) -> list[str]:
        return ["node", "main.mjs"]


class NodePostgres(Node):
    name = "node_postgres"
    title = "node-postgres 8.23.1 with pg-cursor, pg-query-stream, pg-copy-streams (own checks)"


class PostgresJs(Node):
    name = "postgres_js"
    title = "postgres.js 3.4.9 (own checks)"


class Psycopg3(Own):
    name = "psycopg3"
    title = "psycopg 3.3.9 (own checks)"

    def copy(self, work: Path) -> None:
        super().copy(work)
        shutil.copy(PROGRAMS / "checks.py", work)

    def command(self, work: Path) -> list[str]:
        return [suite.python(), "-B", "main.py"]


class Pgjdbc(Own):
    name = "pgjdbc"
    title = "pgjdbc 42.5 (own checks)"
    jar = Path("/usr/share/java/postgresql.jar")
    needs = {"javac": "default-jdk-headless", "java": "default-jdk-headless", str(jar): "libpostgresql-jdbc-java"}

    def copy(self, work: Path) -> None:
        super().copy(work)
        sources = [str(p) for p in sorted(work.glob("*.java"))]
        subprocess.run(["javac", "-encoding", "UTF-8", "-cp", str(self.jar), "-d", str(work / "classes"), *sources], check=True)

    def command(self, work: Path) -> list[str]:
        return ["java", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", f"classes:{self.jar}", "Main"]


class Pdo(Own):
    name = "pdo"
    title = "PDO of PHP 8.2 (own checks)"
    needs = {"php": "php-cli", "/etc/php/8.2/mods-available/pdo_pgsql.ini": "php-pgsql"}

    def command(self, work: Path) -> list[str]:
        return ["php", "main.php"]


class TypeOrm(Node):
    name = "typeorm"
    title = "TypeORM 1.1.1 (own checks)"


class Sequelize(Node):
    name = "sequelize"
    title = "Sequelize 6.37.8 (own checks)"


class Crate(Own):
    """A cargo project of its own, outside the workspace, built in the suite's directory."""

    needs = {"cargo": "cargo"}

    def build(self, work: Path) -> None:
        subprocess.run(
            ["cargo", "build", "--quiet", "--locked", "--manifest-path", str(PROGRAMS / self.name / "Cargo.toml")],
            check=True, env=os.environ | {"CARGO_TARGET_DIR": str(work / "target")},
        )

    def install(self, work: Path) -> None:
        self.build(work)

    def copy(self, work: Path) -> None:
        self.build(work)

    def command(self, work: Path) -> list[str]:
        return [str(work / "target" / "debug" / f"shardway-checks-{self.name}")]


class Sqlx(Crate):
    name = "sqlx"
    title = "sqlx 0.9.0 (own checks)"


class Diesel(Crate):
    name = "diesel"
    title = "diesel 2.3.14 (own checks)"
    needs = Crate.needs | {"/usr/include/postgresql/libpq-fe.h": "libpq-dev"}


class PrismaClient(Node):
    name = "prisma"
    title = "Prisma 7.10.0 with adapter-pg (own checks)"

    def install(self, work: Path) -> None:
        super().install(work)
        for name in ("schema.prisma", "prisma.config.mjs"):
            shutil.copy(PROGRAMS / self.name / name, work)
        # Generating needs no schema engine, which npm does not bring, but looks for one.
        engine = {"PRISMA_SCHEMA_ENGINE_BINARY": shutil.which("true") or "/bin/true"}
        subprocess.run(["npx", "--no-install", "prisma", "generate"], cwd=work, check=True, env=os.environ | engine, stdout=subprocess.DEVNULL)
