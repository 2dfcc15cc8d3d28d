"""Who runs servers and suites: initdb refuses root, and some suites expect a user that files can be hidden from."""

import os
import pwd
import shutil
from pathlib import Path

SERVER_ACCOUNT = "postgres"


def prefix() -> list[str]:
    """What to put before a command so that it does not run as root; nothing when nobody is root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={SERVER_ACCOUNT}", f"--regid={SERVER_ACCOUNT}", "--init-groups"]


def home() -> Path:
    """A home that the account may write to."""
    return Path(pwd.getpwnam(SERVER_ACCOUNT).pw_dir) if os.geteuid() == 0 else Path.home()


def give(path: Path) -> None:
    """Makes a directory and all in it the account's own."""
    if os.geteuid() != 0:
        return
    entry = pwd.getpwnam(SERVER_ACCOUNT)
    shutil.chown(path, entry.pw_uid, entry.pw_gid)
    for directory, names, files in os.walk(path):
        for name in names + files:
            os.chown(os.path.join(directory, name), entry.pw_uid, entry.pw_gid, follow_symlinks=False)
