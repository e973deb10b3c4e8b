"""PgBouncer in front of a test database."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.integration.programs import find_program
from tests.support.command import wait_until
from tests.support.processes import HOST, free_port
from tonne.platform.db.server.hosts import hosts_of
from tonne.platform.db.server.postmaster import unprivileged

BASE = {
    "listen_addr": HOST,
    "unix_socket_dir": "",
    "auth_type": "trust",
    "pool_mode": "transaction",
    "max_client_conn": "500",
}


@contextlib.contextmanager
def pgbouncer(folder: Path, database: str, role: str, direct_url: str, **settings: str | Path) -> Iterator[int]:
    """The port on which it listens. `settings` are lines of its configuration."""
    port = free_port()
    ((socket, _),) = hosts_of(direct_url)
    users, log, config = folder / "users.txt", folder / "pgbouncer.log", folder / "pgbouncer.ini"
    users.write_text(f'"{role}" ""\n', encoding="utf-8")
    files = {"auth_file": users, "logfile": log, "pidfile": folder / "pgbouncer.pid"}
    lines: Mapping[str, object] = {**BASE, **files, "listen_port": port, **settings}
    config.write_text(
        f"[databases]\n{database} = host={socket} dbname={database}\n[pgbouncer]\n"
        + "".join(f"{name} = {value}\n" for name, value in lines.items()),
        encoding="utf-8",
    )
    # It refuses to run as root.
    process = subprocess.Popen([*unprivileged(), find_program("pgbouncer"), "-q", str(config)])
    try:
        wait_until(lambda: log.exists() and "process up" in log.read_text(), 20, "PgBouncer has started")
        yield port
    finally:
        process.terminate()
        process.wait(20)
