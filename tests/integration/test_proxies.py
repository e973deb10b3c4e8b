"""nginx and HAProxy with the sample configurations in front of `tonne serve`: both must pass the same tests."""

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
import pytest

from tests.integration.proxies import Proxy
from tests.support.api_client import codes
from tests.support.processes import HOST, Process, free_port
from tests.support.tls import Authority

PUBLIC_URL = "https://offsets.example.com"
WRONG_KEY = {"Authorization": "Bearer wrong"}
MAX_WRONG_KEYS = 3
MAX_AT_ONCE = 100
METRICS_TOKEN = "a-token-for-the-metrics"  # noqa: S105 - of a test
ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}


@dataclass(frozen=True)
class Site:
    """Tonne on `port`; the proxy on `http_port` and `https_port`."""

    port: int
    http_port: int
    https_port: int
    authority: Authority
    key: str
    network: int

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.https_port}"

    def address(self, number: int) -> str:
        """An address of this machine from which no other client connects."""
        return f"127.0.{self.network}.{number}"

    def client(self, address: str = HOST, **headers: str) -> httpx.Client:
        """A client that connects from this address."""
        tls = ssl.create_default_context(cafile=self.authority.ca_file)
        transport = httpx.HTTPTransport(verify=tls, local_address=address)
        authorisation = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(transport=transport, base_url=self.url, headers={**authorisation, **headers}, timeout=30)

    def connections_to_tonne(self) -> int:
        """How many connections the proxy has to Tonne."""
        found = [entry for entry in psutil.net_connections("tcp") if entry.raddr and entry.raddr.port == self.port]
        return len([entry for entry in found if entry.status == psutil.CONN_ESTABLISHED])


@pytest.fixture(scope="module")
def tonne(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """Its port and an API key."""
    folder = tmp_path_factory.mktemp("tonne")
    data = folder / "data"
    port = free_port()
    settings = {
        "data_dir": data,
        "port": port,
        "public_url": PUBLIC_URL,
        "trusted_proxies": HOST,
        "failed_auth_burst": MAX_WRONG_KEYS,
        "metrics_token": METRICS_TOKEN,
    }
    tonne = Process("tonne", "serve", "--demo=empty", settings=settings, log=folder / "tonne.log")
    try:
        tonne.wait_until_ready(port)
        demo: dict[str, Any] = msgspec.json.decode((data / "demo.json").read_bytes())
        yield port, demo["test"]["api_key"]
    finally:
        tonne.stop()


@pytest.fixture(scope="module", params=["nginx", "haproxy"])
def site(
    request: pytest.FixtureRequest, tonne: tuple[int, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp(request.param)
    port, key = tonne
    # The rate limits for wrong keys count on: each proxy gets clients of its own.
    network = 1 if request.param == "nginx" else 2
    site = Site(port, free_port(), free_port(), Authority(folder), key, network)
    proxy = Proxy(folder, site.authority, [port], site.http_port, site.https_port)
    with proxy.nginx() if request.param == "nginx" else proxy.haproxy():
        yield site


def test_plain_http_is_redirected_to_tls(site: Site) -> None:
    response = httpx.get(f"http://{HOST}:{site.http_port}/v1/orders?limit=1", headers={"Host": "offsets.example.com"})
    assert (response.status_code, response.headers["location"]) == (308, f"{PUBLIC_URL}/v1/orders?limit=1")


def test_an_order_can_be_placed_and_read_through_the_proxy(site: Site) -> None:
    with site.client() as client:
        placed = client.post("/v1/orders/by-mass", json=ONE_TONNE)
        assert placed.status_code == 201, placed.text
        order = placed.json()
        assert order["bundles"][0]["primary_image"].startswith(PUBLIC_URL)
        assert client.get(f"/v1/orders/{order['id']}").json()["id"] == order["id"]
        assert client.get("/health/ready").status_code == 200


def test_the_metrics_are_not_public(site: Site) -> None:
    token = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    with site.client() as client:
        for path in ("/metrics", "/metrics/", "//metrics", "/%6detrics"):
            assert client.get(f"{site.url}{path}", headers=token).status_code == 404
    assert httpx.get(f"http://{HOST}:{site.port}/metrics", headers=token).status_code == 200
    assert httpx.get(f"http://{HOST}:{site.port}/metrics").status_code == 401


def test_the_rate_limit_for_wrong_keys_applies_to_the_address_of_the_client(site: Site) -> None:
    with site.client(site.address(2)) as client:
        assert client.get("/v1/orders").status_code == 200, "the key is in use"
    with site.client(site.address(2), **WRONG_KEY) as attacker, site.client(site.address(3), **WRONG_KEY) as other:
        statuses = [attacker.get("/v1/orders").status_code for _ in range(MAX_WRONG_KEYS + 1)]
        assert statuses == [401] * MAX_WRONG_KEYS + [429]
        assert other.get("/v1/orders").status_code == 401
        spoofed = attacker.get("/v1/orders", headers={"X-Forwarded-For": "203.0.113.7"})
        assert (spoofed.status_code, codes(spoofed)) == (429, ["rate_limited"])
    with site.client(site.address(2)) as client:
        assert client.get("/v1/orders").status_code == 200, "a valid key is not affected"


def test_tonne_rejects_a_large_body_with_its_own_error(site: Site) -> None:
    body = {**ONE_TONNE, "metadata": {"note": "x" * 300_000}}
    with site.client() as client:
        response = client.post("/v1/orders/by-mass", json=body)
        assert (response.status_code, codes(response)) == (413, ["body_too_large"])
        assert client.post("/v1/orders/by-mass", content=b"x" * 2_000_000).status_code == 413


@pytest.mark.parametrize("padding", [0, 200_000])
def test_a_request_that_is_not_complete_does_not_occupy_tonne(site: Site, padding: int) -> None:
    """The proxy reads the whole body before it connects to Tonne."""
    body = b" " * padding + msgspec.json.encode(ONE_TONNE)
    head = (
        f"POST /v1/orders/by-mass HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {site.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    tls = ssl.create_default_context(cafile=site.authority.ca_file)
    with (
        site.client() as client,
        socket.create_connection((HOST, site.https_port), timeout=30) as raw,
        tls.wrap_socket(raw, server_hostname=HOST) as slow,
    ):
        client.get("/v1/orders")
        before = site.connections_to_tonne()
        slow.sendall(head + body[:-1])
        # The proxy has one thread: when it has handled this request, it has also read the incomplete one.
        client.get("/v1/orders")
        assert site.connections_to_tonne() == before
        slow.sendall(body[-1:])
        assert slow.recv(65536).startswith(b"HTTP/1.1 201 ")


def test_security_1_half_sent_requests_of_one_address_are_limited(site: Site) -> None:
    """Tonne does not limit a trusted proxy, so the proxy limits its own clients."""
    head = b"POST /offset/x HTTP/1.1\r\nHost: offsets.example.com\r\nContent-Length: 100\r\n\r\nx"
    tls = ssl.create_default_context(cafile=site.authority.ca_file)
    with contextlib.ExitStack() as opened, site.client(site.address(4)) as same, site.client(site.address(5)) as other:
        for _ in range(MAX_AT_ONCE):
            raw = socket.create_connection((HOST, site.https_port), timeout=30, source_address=(site.address(4), 0))
            slow = opened.enter_context(tls.wrap_socket(raw, server_hostname=HOST))
            slow.sendall(head)
        # The proxy has one thread: when it has answered, it has also read what was sent before.
        assert other.get("/v1/orders").status_code == 200
        refused = same.get("/v1/orders")
        assert (refused.status_code, codes(refused)) == (429, ["rate_limited"])
        assert refused.headers["retry-after"] == "10"


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_what_reaches_tonne_names_one_host_in_lines_that_end_with_crlf(name: str, tmp_path: Path) -> None:
    """Tonne and a proxy that read a request differently would be two servers: SECURITY.md says what they do instead."""
    authority, end = Authority(tmp_path), b"\r\nConnection: close\r\n\r\n"
    with _Upstream() as upstream:
        proxy = Proxy(tmp_path, authority, [upstream.server_address[1]], free_port(), free_port())
        tls = ssl.create_default_context(cafile=authority.ca_file)

        def status_of(request: bytes) -> bytes:
            with (
                socket.create_connection((HOST, proxy.https_port), timeout=30) as raw,
                tls.wrap_socket(raw, server_hostname=HOST) as client,
            ):
                client.sendall(request)
                return client.recv(65536).split()[1]

        with proxy.nginx() if name == "nginx" else proxy.haproxy():
            first = b"GET /v1/orders HTTP/1.1\r\n"
            assert status_of(first + b"Host: a\r\nHost: b" + end) == b"400"
            assert status_of(b"GET evil.example:80 HTTP/1.1\r\nHost: a" + end) == b"400"
            assert status_of(b"GET http://a/metrics HTTP/1.1\r\nHost: a" + end) == b"404"
            upstream.requests.clear()
            assert status_of(b"GET /v1/orders HTTP/1.1\nHost: a\nX-Two: b\nConnection: close\n\n") == b"200"
            assert status_of(b"GET http://a/v1/orders HTTP/1.1\r\nHost: a" + end) == b"200"
            found = [each for each in upstream.requests if b"/v1/orders" in each]
            assert len(found) == 2
            for each in found:
                assert b"\n" not in each.replace(b"\r\n", b"")
                assert each.lower().count(b"\r\nhost: a\r\n") == each.lower().count(b"\r\nhost:") == 1


class _Upstream(socketserver.ThreadingTCPServer):
    """In the place of Tonne: records each request as it arrives, and returns 200."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        super().__init__((HOST, 0), _Recorded)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Recorded(socketserver.BaseRequestHandler):
    server: _Upstream

    def handle(self) -> None:
        request = b""
        while b"\r\n\r\n" not in request and (part := self.request.recv(65536)):
            request += part
        self.server.requests.append(request)
        self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
