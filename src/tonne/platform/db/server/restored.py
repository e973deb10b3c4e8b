"""A backup of the operator's own PostgreSQL, restored into a new folder and started there for a test."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tonne.platform.db.server.backup import remove_server
from tonne.platform.db.server.backup_file import BackupError
from tonne.platform.db.server.postmaster import Postmaster, make_private_folder, postgres_environment, unprivileged

# In a command, what stands for the folder to restore into.
DATA = "{data}"
_CONFIGURATION = {"config_file": "postgresql.conf", "hba_file": "pg_hba.conf", "ident_file": "pg_ident.conf"}
# The copy must neither archive, nor wait for a replica, nor need what only the original has. They precede what
# ALTER SYSTEM has set. Without `hot_standby` it accepts connections once it has replayed all that was archived.
_OPTIONS = {
    "archive_mode": "off",
    "archive_command": "",
    "synchronous_standby_names": "",
    "hot_standby": "off",
    "shared_preload_libraries": "",
    "ssl": "off",
    "logging_collector": "off",
    "log_destination": "stderr",
    "fsync": "off",
}
# Where Debian and Red Hat have the programs of each version.
_BINARIES = ("/usr/lib/postgresql/{major}/bin", "/usr/pgsql-{major}/bin")


class _RestoredServer(Postmaster):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # It stays when the folder is removed.
        self.log = folder.with_name(f"{folder.name}.log")

    def _options(self) -> tuple[str, ...]:
        files = {name: str(self.folder / file) for name, file in _CONFIGURATION.items()}
        more = [word for name, value in (_OPTIONS | files).items() for word in ("-c", f"{name}={value}")]
        return (*super()._options(), *more)

    def _program(self, name: str) -> str:
        major = self.data_major()
        for folder in _BINARIES:
            if (path := Path(folder.format(major=major)) / name).exists():
                return str(path)
        if (found := shutil.which(name)) is not None:
            return found
        raise BackupError(f"The backup is of PostgreSQL {major}, whose program {name} is not found: add it to PATH.")


@contextmanager
def restored_server(folder: Path, command: str) -> Iterator[Postmaster]:
    """The running server, which has replayed all that was archived. The folder is removed at the end.

    `command` restores into DATA. Raises BackupError or DatabaseUnavailable.
    """
    remove_server(folder)
    server = _RestoredServer(folder)
    server.log.unlink(missing_ok=True)
    try:
        for needed in (server.folder, server.data, server.socket_folder):
            make_private_folder(needed)
        _run(command.replace(DATA, shlex.quote(str(server.data))))
        if not (server.data / "PG_VERSION").exists():
            raise BackupError(f"The command ended without an error, and restored nothing into {DATA}: {command}")
        for name in _CONFIGURATION.values():
            trust = "local all all trust\n" if name == _CONFIGURATION["hba_file"] else ""
            (server.folder / name).write_text(trust, encoding="ascii")
        server.start()
        yield server
    finally:
        server.stop()
        remove_server(folder)


def _run(command: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own command
            [*unprivileged(), *shlex.split(command)],
            env=postgres_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except (OSError, ValueError) as error:
        raise BackupError(f"The command that restores cannot be run ({error}): {command}") from error
    if done.returncode != 0:
        said = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        raise BackupError(f"The backup cannot be restored. {' '.join(said[-3:]) or 'No message.'} ({command})")
