"""nginx and HAProxy with the sample configurations in front of one or several `tonne api`."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.programs import find_program
from tests.support.command import wait_until
from tests.support.processes import HOST, ROOT
from tests.support.tls import Authority

DEPLOY = ROOT / "deploy"
# The end of a line of the sample.
_TIMEOUT = "_timeout=1s;"
# What a system's own nginx.conf adds around a file in conf.d; one worker, so that connections can be counted.
MAIN = """
{user}
worker_processes 1;
daemon off;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/tonne.conf;
}}
"""


@dataclass(frozen=True)
class Proxy:
    """`ports` are those of Tonne; the proxy has the other two. Its files are in `folder`."""

    folder: Path
    authority: Authority
    ports: Sequence[int]
    http_port: int
    https_port: int

    @contextlib.contextmanager
    def nginx(self) -> Iterator[None]:
        certificate = self.folder / "certificate.pem"
        self.authority.write_certificate(certificate)
        changes = {
            "    server 127.0.0.1:8080 fail": f"{_TIMEOUT}\n".join(
                f"    server {HOST}:{port} fail" for port in self.ports
            ),
            "listen 80;": f"listen {HOST}:{self.http_port};",
            "listen 443 ssl http2;": f"listen {HOST}:{self.https_port} ssl http2;",
            "ssl_certificate /etc/ssl/certs/offsets.example.com.pem;": f"ssl_certificate {certificate};",
            "ssl_certificate_key /etc/ssl/private/offsets.example.com.pem;": f"ssl_certificate_key {certificate};",
        }
        _write_sample(DEPLOY / "nginx" / "tonne.conf", self.folder / "tonne.conf", changes)
        # As root, nginx would run its worker as a user that cannot enter the folder of the test.
        user = "user root;" if os.geteuid() == 0 else ""
        (self.folder / "nginx.conf").write_text(MAIN.format(user=user, folder=self.folder), encoding="utf-8")
        command = [
            find_program("nginx"),
            "-p",
            str(self.folder),
            "-c",
            str(self.folder / "nginx.conf"),
            "-e",
            str(self.folder / "error.log"),
        ]
        with self._running(command, "-t"):
            yield

    @contextlib.contextmanager
    def haproxy(self) -> Iterator[None]:
        certificate = self.folder / "certificate.pem"
        self.authority.write_certificate(certificate)
        changes = {
            # One thread handles requests in the order in which they arrive, so that connections can be counted.
            "global\n    maxconn": "global\n    nbthread 1\n    maxconn",
            "    server api1 127.0.0.1:8080 ": "\n".join(f"    server api{port} {HOST}:{port} " for port in self.ports),
            "bind :80\n": f"bind {HOST}:{self.http_port}\n",
            "bind :443 ssl": f"bind {HOST}:{self.https_port} ssl",
            "/etc/ssl/private/offsets.example.com.pem": str(certificate),
        }
        config = self.folder / "haproxy.cfg"
        _write_sample(DEPLOY / "haproxy" / "haproxy.cfg", config, changes)
        with self._running([find_program("haproxy"), "-db", "-f", str(config)], "-c"):
            yield

    @contextlib.contextmanager
    def _running(self, command: list[str], check_option: str) -> Iterator[None]:
        checked = subprocess.run([*command, check_option], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        assert "warn" not in checked.stderr.lower()
        proxy = subprocess.Popen(command)
        try:
            wait_until(lambda: _accepts(self.https_port), 20, "the proxy accepts connections")
            yield
        finally:
            proxy.terminate()
            proxy.wait(20)


def _write_sample(sample: Path, path: Path, changes: dict[str, str]) -> None:
    """The sample with other ports and files."""
    text = sample.read_text(encoding="utf-8")
    for line, replacement in changes.items():
        assert text.count(line) == 1, line
        text = text.replace(line, replacement)
    path.write_text(text, encoding="utf-8")


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False
