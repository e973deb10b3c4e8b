"""Runs many `tonne` commands fast: a process that has imported all of them forks for each.

Importing takes more than a second, and the documentation has dozens of commands. The file `tonne` that `write_command`
makes can be called from a shell like the real one: it passes its arguments, folder, environment and files.
"""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.command import wait_until

_SHIM = """#!{python} -IS
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = json.dumps({{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}).encode()
socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
connection.sendall(request)
sys.exit(connection.recv(1)[0])
"""


@contextlib.contextmanager
def fork_server(folder: Path, command: Path) -> Iterator[None]:
    """`command` becomes a file that runs `tonne` while this is open."""
    # Addresses of sockets are short: a relative one would depend on the folder of the caller.
    address = str(folder / "fork")
    command.write_text(_SHIM.format(python=sys.executable, address=address), encoding="utf-8")
    command.chmod(stat.S_IRWXU)
    server = subprocess.Popen([sys.executable, "-m", "tests.integration.fork_server", address])
    try:
        wait_until(lambda: Path(address).exists(), 60, "the fork server listens")
        yield
    finally:
        server.terminate()
        server.wait(10)


def _serve(address: str) -> None:
    # ruff: noqa: PLC0415 - only the server imports the commands
    from tonne.apps.cli.main import COMMANDS, main

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for name in COMMANDS:
        main.get_command(None, name)  # type: ignore[arg-type]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(16)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                os._exit(_run(connection))
            connection.close()


def _run(connection: socket.socket) -> int:
    from tonne.apps.cli.main import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    length, request = int.from_bytes(size, "big"), b""
    while len(request) < length:
        request += connection.recv(length - len(request))
    asked = json.loads(request)
    for target, source in enumerate(files):
        os.dup2(source, target)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    status = 1
    try:
        main(asked["words"], prog_name="tonne")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([status & 0xFF]))
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
