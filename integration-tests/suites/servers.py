"""PostgreSQL clusters and the proxy before them, for the time of one run of a suite."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from suites import accounts
from suites.suite import Suite, Target

SUPERUSER = "postgres"
PASSWORD = "postgres"
LAYOUTS = {"direct": 1, "one": 1, "two": 2, "sharded": 2}
"""The layouts with their numbers of shards. In `sharded` the suite says which of its tables are split over them."""

SETTINGS = {
    "listen_addresses": "'127.0.0.1'",
    "unix_socket_directories": "''",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "max_prepared_transactions": "50",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
}


def binaries() -> Path:
    """`SHARDWAY_PG_BIN`, else Debian's newest version."""
    if chosen := os.environ.get("SHARDWAY_PG_BIN"):
        return Path(chosen)
    versions = [p for p in Path("/usr/lib/postgresql").iterdir() if (p / "bin" / "initdb").exists()]
    return max(versions, key=lambda p: int(p.name)) / "bin"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, child: subprocess.Popen, what: str, log: Path) -> None:
    """Returns when the port is open; fails with the log when the process ended or 30 seconds are over."""
    end = time.monotonic() + 30
    while time.monotonic() < end and child.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{what} did not start:\n{log.read_text()}")


@contextlib.contextmanager
def cluster(suite: Suite, port: int, work: Path):
    """A running PostgreSQL; gives its port."""
    programs = suite.programs(work) or binaries()
    directory = Path(tempfile.mkdtemp(prefix="shardway-suite-"))
    accounts.give(directory)
    data = directory / "data"
    try:
        subprocess.run(
            accounts.prefix() + [str(programs / "initdb"), "-D", str(data), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8",
                                 "--locale=C.UTF-8", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd=directory,
        )
        settings = SETTINGS | suite.settings | {"port": str(port)}
        if suite.tls:
            cert, key = certificate(directory)
            settings |= {"ssl": "on", "ssl_cert_file": f"'{cert}'", "ssl_key_file": f"'{key}'"}
        with (data / "postgresql.conf").open("a") as conf:
            for name, value in settings.items():
                conf.write(f"{name} = {value}\n")
        if suite.hba is not None:
            (data / "pg_hba.conf").write_text(suite.hba)
        log = directory / "log"
        with log.open("wb") as out:
            child = subprocess.Popen(
                accounts.prefix() + [str(programs / "postgres"), "-D", str(data)], stdout=out, stderr=out, cwd=directory,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )
        try:
            wait_for(port, child, "postgres", log)
            yield port
        finally:
            child.send_signal(signal.SIGQUIT)
            child.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    certificate, key = directory / "tls.crt", directory / "tls.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)],
        check=True, stderr=subprocess.DEVNULL,
    )
    key.chmod(0o600)
    accounts.give(directory)
    return certificate, key


def psql(port: int, database: str, sql: str) -> None:
    """Runs SQL as superuser on a server itself."""
    subprocess.run(
        ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(port), "-U", SUPERUSER, "-d", database],
        input=sql, text=True, check=True, env=os.environ | {"PGPASSWORD": PASSWORD, "PGOPTIONS": "-c client_min_messages=warning"},
    )


def configuration(
    suite: Suite, layout: str, port: int, shards: list[tuple[int, str]], tls: tuple[Path, Path] | None
) -> str:
    lines = ["[listen]", f'address = "127.0.0.1:{port}"', suite.listen]
    if tls is not None:
        lines += ["[listen.tls]", f'certificate = "{tls[0]}"', f'key = "{tls[1]}"']
    lines += ["[pool]", 'mode = "transaction"', suite.pool]
    users = {SUPERUSER: f'password = "{PASSWORD}"\nserver_password = "{PASSWORD}"'} | suite.users
    for name, text in users.items():
        lines += ["[[user]]", f'name = "{name}"', text]
    for database in [suite.database, *suite.databases]:
        lines += [f"[database.{database}]", f'control = "{SUPERUSER}:{PASSWORD}"']
        lines += [suite.sharded] if layout == "sharded" and database == suite.database else []
        for number, (shard_port, _) in enumerate(shards):
            url = f"postgresql://{SUPERUSER}:{PASSWORD}@127.0.0.1:{shard_port}/{database}"
            lines += [f"[[database.{database}.shard]]", f'name = "s{number}"', f'primary = "{url}"']
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def proxy(suite: Suite, layout: str, shards: list[tuple[int, str]], binary: Path, log: Path):
    """The proxy before the shards; gives its port."""
    directory = Path(tempfile.mkdtemp(prefix="shardway-suite-"))
    port = suite.port or free_port()
    try:
        tls = certificate(directory) if suite.tls else None
        (directory / "shardway.toml").write_text(configuration(suite, layout, port, shards, tls))
        accounts.give(directory)
        with log.open("wb") as out:
            child = subprocess.Popen(
                accounts.prefix() + [str(binary), "run", "--config", str(directory / "shardway.toml")], stdout=out, stderr=out,
                cwd=directory, stdin=subprocess.DEVNULL, start_new_session=True,
            )
        try:
            wait_for(port, child, "shardway", log)
            yield port
            if child.poll() is not None:
                raise RuntimeError(f"shardway ended during the suite with {child.returncode}; see {log}")
        finally:
            child.kill()
            child.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def target(suite: Suite, layout: str, binary: Path, log: Path):
    """Fresh clusters with the suite's database, and for all layouts but `direct` the proxy before them."""
    with contextlib.ExitStack() as stack:
        shards = []
        for _ in range(LAYOUTS[layout]):
            wanted = suite.port if layout == "direct" else None
            port = stack.enter_context(cluster(suite, wanted or free_port(), log.parent))
            psql(port, "postgres", f"ALTER USER {SUPERUSER} PASSWORD '{PASSWORD}'")
            for database in {suite.database, *suite.databases} - {"postgres"}:
                psql(port, "postgres", f"CREATE DATABASE {database} {suite.database_options}")
            psql(port, suite.database, suite.schema)
            for database in suite.databases:
                psql(port, database, suite.more_schema)
            shards.append((port, suite.database))
        port = shards[0][0] if layout == "direct" else stack.enter_context(proxy(suite, layout, shards, binary, log))
        yield Target(layout, "127.0.0.1", port, suite.database, SUPERUSER, PASSWORD, shards)
