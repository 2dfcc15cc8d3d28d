"""What a suite needs besides Python packages: Debian packages, and the sources of a crate."""

import json
import os
import shutil
import subprocess
from pathlib import Path


class NotRun(Exception):
    """The suite cannot run on this machine; says what is missing."""


def program(name: str) -> str:
    """The path of a program that only the caller's own PATH knows."""
    found = shutil.which(name)
    if found is None:
        raise NotRun(f"there is no {name}")
    return found


def installed(package: str) -> bool:
    asked = subprocess.run(["dpkg-query", "-W", "-f=${Status}", package], capture_output=True, text=True)
    return asked.stdout == "install ok installed"


def debian(*names: str) -> None:
    """Installs packages that are missing, as root or by `sudo` where that asks for no password."""
    if shutil.which("dpkg-query") is None or shutil.which("apt-get") is None:
        raise NotRun(f"needs {' '.join(names)} (Debian's names; only apt-get is known)")
    missing = [name for name in names if not installed(name)]
    if not missing:
        return
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if as_root and (shutil.which("sudo") is None or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode != 0):
        raise NotRun(f"please run: sudo apt-get install -y --no-install-recommends {' '.join(missing)}")
    subprocess.run(as_root + ["apt-get", "update", "-qq"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        as_root + ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
        check=True, stdout=subprocess.DEVNULL,
    )


def crate(name: str, version: str, work: Path) -> Path:
    """A copy under `work` of a published crate's sources, which hold its tests; its directory."""
    cargo = program("cargo")
    asking = work / "asking"
    (asking / "src").mkdir(parents=True, exist_ok=True)
    (asking / "src" / "lib.rs").touch()
    manifest = asking / "Cargo.toml"
    manifest.write_text(
        '[workspace]\n[package]\nname = "asking"\nversion = "0.0.0"\nedition = "2024"\n'
        f'[dependencies]\n{name} = "={version}"\n'
    )
    told = subprocess.run(
        [cargo, "metadata", "--format-version=1", f"--manifest-path={manifest}"], check=True, capture_output=True, text=True,
    )
    package = next(p for p in json.loads(told.stdout)["packages"] if p["name"] == name)
    source = work / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(Path(package["manifest_path"]).parent, source)
    # The copy lies inside this repository's workspace and is none of its members.
    with (source / "Cargo.toml").open("a") as text:
        text.write("\n[workspace]\n")
    return source


def test_binary(source: Path, target: Path, *options: str) -> Path:
    """Builds a crate's tests; the program of its only integration test."""
    built = subprocess.run(
        [program("cargo"), "test", "--no-run", "--message-format=json", "--quiet", f"--target-dir={target}", *options],
        cwd=source, check=True, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0"},
    )
    messages = (json.loads(line) for line in built.stdout.splitlines())
    tests = [m["executable"] for m in messages if m["reason"] == "compiler-artifact" and m["target"]["kind"] == ["test"]]
    return Path(tests[0])
