"""PostgreSQL's own source, the headers of its server and the programs of the source's version, fetched by apt: its tests
are in no binary package, and what servers and psql print changes between minor versions."""

import re
import shutil
import subprocess
from pathlib import Path

MAJOR = "15"
PACKAGE = f"postgresql-{MAJOR}"
APT = Path("/etc/apt")


def fetch(work: Path) -> None:
    """Puts the source's tree under `work/source`, the headers and libraries for servers under `work/dev`, and the programs
    of server and clients under `work/programs`."""
    options = source_lists(work / "apt")
    subprocess.run(["apt-get", *options, "update", "-q"], check=True, cwd=work, stdout=subprocess.DEVNULL)
    told = subprocess.run(["apt-cache", *options, "showsrc", PACKAGE], check=True, cwd=work, capture_output=True, text=True)
    # The newest version is not in every mirror's pool; the tests of any minor version do.
    for version in sorted(re.findall(r"^Version: (\S+)", told.stdout, re.M), reverse=True):
        command = ["apt-get", *options, "source", "-q", "--download-only", f"{PACKAGE}={version}"]
        if subprocess.run(command, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            break
    archive = next(work.glob(f"{PACKAGE}_*.orig.tar.bz2"))
    shutil.rmtree(work / "source", ignore_errors=True)
    shutil.unpack_archive(archive, work / "unpacked")
    next((work / "unpacked").iterdir()).rename(work / "source")
    unpack(f"postgresql-server-dev-{MAJOR}={version}", work, "dev")
    unpack(f"postgresql-client-{MAJOR}={version}", work, "programs")
    unpack(f"postgresql-{MAJOR}={version}", work, "programs")


def unpack(package: str, work: Path, directory: str) -> None:
    """Unpacks a binary package under `work` without installing it."""
    subprocess.run(["apt-get", "download", "-q", package], check=True, cwd=work, stdout=subprocess.DEVNULL)
    archive = next(work.glob(f"{package.split('=')[0]}_*.deb"))
    subprocess.run(["dpkg", "-x", str(archive), str(work / directory)], check=True)


def source_lists(directory: Path) -> list[str]:
    """Lists of sources made from the machine's own lists of packages; apt's options that make it use them."""
    parts = directory / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    (directory / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    for path in [APT / "sources.list", *(APT / "sources.list.d").glob("*")]:
        if path.suffix not in (".list", ".sources") or not path.exists():
            continue
        text = re.sub(r"^Types:.*$", "Types: deb-src", path.read_text(), flags=re.M)
        (parts / path.name).write_text(re.sub(r"^deb(?=[ \t])", "deb-src", text, flags=re.M))
    return [
        "-o", "Dir::Etc::sourcelist=/dev/null",
        "-o", f"Dir::Etc::sourceparts={parts}",
        "-o", f"Dir::State::lists={directory / 'lists'}",
    ]


def headers(work: Path) -> Path:
    return work / "dev" / "usr" / "include" / "postgresql" / MAJOR / "server"


def libraries(work: Path) -> Path:
    """Where the static libraries of server and programs are: libpgcommon.a, libpgport.a."""
    return work / "dev" / "usr" / "lib" / "postgresql" / MAJOR / "lib"


def installed(work: Path) -> Path:
    """The server and the programs for clients, of the source's own version: it has `bin` and `lib`."""
    return work / "programs" / "usr" / "lib" / "postgresql" / MAJOR
