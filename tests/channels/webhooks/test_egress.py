"""Mutual TLS, and requests through a proxy that gets addresses which Tonne has checked."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import trustme

from tests.channels.webhooks.stage import Stage
from tests.channels.webhooks.test_dial_guard import Names
from tests.support.api_client import ApiClient
from tests.support.processes import HOST, free_port
from tests.support.receivers import Receiver, listening, receiving
from tests.support.tls import Authority
from tonne.channels.webhooks.delivery.outcomes import Delivered, SendOutcome
from tonne.channels.webhooks.sending.sender import ClientIdentity, Sender
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError

PASSWORD = "p%40ss"  # noqa: S105 - of a proxy of the test


@dataclass
class Proxy:
    """An HTTP proxy that only knows CONNECT to addresses."""

    port: int = 0
    heads: list[str] = field(default_factory=list)
    status: str = "200 Connection established"

    @property
    def url(self) -> str:
        return f"http://tonne:{PASSWORD}@{HOST}:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [head.split(" ", 2)[1] for head in self.heads]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(f"HTTP/1.1 {self.status}\r\n\r\n".encode())
        if not self.status.startswith("200"):
            await writer.drain()
            return
        host, _, port = self.targets[-1].rpartition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        try:
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        finally:
            there_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
        writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    proxy = Proxy()
    async with listening(proxy.handle) as port:
        proxy.port = port
        yield proxy


@pytest.fixture
async def named(authority: Authority) -> AsyncIterator[Receiver]:
    """Its URL has a name, which only the resolver of the test knows."""
    async with receiving(authority.context(), name="hooks.example.com") as receiver:
        yield receiver


async def post(settings: Settings, url: str, names: Names | None = None) -> SendOutcome:
    sender = Sender(settings, names)
    try:
        return await asyncio.wait_for(sender.post(url, b"{}", {"Content-Type": "application/json"}), 20)
    finally:
        await sender.close()


async def test_the_proxy_gets_the_checked_address_and_tls_the_name(
    settings: Settings, proxy: Proxy, named: Receiver
) -> None:
    through = msgspec.structs.replace(settings, egress_proxy=proxy.url)
    names = Names(hooks_example_com=[[HOST]])
    assert isinstance(await post(through, named.url, names), Delivered)
    assert proxy.targets == [f"{HOST}:{named.port}"]
    assert "hooks.example.com" not in proxy.heads[0], "the proxy could resolve it to another address"
    credentials = base64.b64encode(b"tonne:p@ss").decode()
    assert f"Proxy-Authorization: Basic {credentials}" in proxy.heads[0]
    [delivery] = named.deliveries
    assert delivery.headers["host"] == f"hooks.example.com:{named.port}"
    assert "proxy-authorization" not in delivery.headers

    # The certificate is that of hooks.example.com: at the same address, another name is refused.
    other = named.url.replace("hooks.example.com", "other.example.com")
    refused = await post(through, other, Names(other_example_com=[[HOST]]))
    assert (refused.error, len(named.deliveries)) == ("certificate_invalid", 1)


async def test_a_private_address_never_reaches_the_proxy(settings: Settings, proxy: Proxy, named: Receiver) -> None:
    closed = msgspec.structs.replace(settings, egress_proxy=proxy.url, webhook_allow_private="")
    for addresses in ([HOST], ["93.184.216.34", "10.0.0.1"], ["169.254.169.254"], ["::ffff:127.0.0.1"]):
        refused = await post(closed, named.url, Names(hooks_example_com=[addresses]))
        assert refused.error == "address_refused", addresses
    assert (await post(closed, f"https://{HOST}:{named.port}/")).error == "address_refused"
    assert (await post(closed, named.url, Names())).error == "name_not_found"
    assert proxy.heads == []


async def test_a_failing_proxy_is_named_and_the_next_address_is_tried(
    settings: Settings, proxy: Proxy, named: Receiver
) -> None:
    through = msgspec.structs.replace(settings, egress_proxy=proxy.url)
    proxy.status = "403 Forbidden"
    names = Names(hooks_example_com=[["127.0.0.2", HOST]])
    assert (await post(through, named.url, names)).error == "proxy_refused"
    assert proxy.targets == [f"127.0.0.2:{named.port}", f"{HOST}:{named.port}"]
    gone = msgspec.structs.replace(settings, egress_proxy=f"http://{HOST}:{free_port()}")
    assert (await post(gone, named.url, names)).error == "proxy_unreachable"


async def test_deliveries_and_test_events_go_through_the_proxy(
    settings: Settings, stage: Stage, receiver: Receiver, proxy: Proxy, api: ApiClient
) -> None:
    through = stage.change(egress_proxy=proxy.url)
    hook = await stage.register(receiver.url)
    await stage.emit(stage.one)
    await stage.deliver(through)
    assert proxy.targets == [f"{HOST}:{receiver.port}"]
    stage.services.webhooks._made_sender = Sender(through)
    assert (await api.post(f"/v1/webhooks/{hook.id}/test", {})).json()["acknowledged"]
    assert len(proxy.heads) == len(receiver.deliveries) == 2
    assert settings.egress_proxy == ""


async def test_a_receiver_that_demands_a_certificate_gets_ours(
    settings: Settings, authority: Authority, tmp_path: Path, proxy: Proxy
) -> None:
    context = authority.context()
    context.load_verify_locations(authority.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    both = tmp_path / "client.pem"
    authority.write_client_certificate(both, "Tonne")
    presenting = msgspec.structs.replace(settings, webhook_client_certificate_file=str(both))
    async with receiving(context) as receiver:
        refused = await post(settings, receiver.url)
        # The alert of TLS 1.3 may get lost with the connection.
        assert refused.error in {"client_certificate_required", "connection_lost"}
        assert receiver.deliveries == []
        assert isinstance(await post(presenting, receiver.url), Delivered)
        through = msgspec.structs.replace(presenting, egress_proxy=proxy.url)
        assert isinstance(await post(through, receiver.url), Delivered)
        assert len(receiver.deliveries) == 2


def test_a_renewed_certificate_is_loaded_and_a_broken_file_keeps_the_former_one(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonne.channels.webhooks.sending.sender.CHECK_EVERY_S", 0.0)
    both = tmp_path / "client.pem"
    authority.write_client_certificate(both, "Tonne")
    identity = ClientIdentity(str(both), "")
    identity.tls_context("")
    loaded = identity._loaded
    both.write_bytes(b"half")
    identity.reload_if_changed()
    assert identity._loaded == loaded
    authority.write_client_certificate(both, "Tonne 2")
    identity.reload_if_changed()
    assert identity._loaded != loaded


def test_settings_that_cannot_work_are_refused_without_showing_a_password(tmp_path: Path, authority: Authority) -> None:
    certificate, key = tmp_path / "a.pem", tmp_path / "other.key"
    authority.write_client_certificate(certificate, "Tonne")
    key.write_bytes(trustme.CA().private_key_pem.bytes())
    wrong = {
        "there is no file": {"TONNE_WEBHOOK_CLIENT_CERTIFICATE_FILE": "/nowhere.pem"},
        "needs TONNE_WEBHOOK_CLIENT_CERTIFICATE_FILE": {"TONNE_WEBHOOK_CLIENT_KEY_FILE": str(key)},
        "its private key": {
            "TONNE_WEBHOOK_CLIENT_CERTIFICATE_FILE": str(certificate),
            "TONNE_WEBHOOK_CLIENT_KEY_FILE": str(key),
        },
        "without a path": {"TONNE_EGRESS_PROXY": "http://u:hush@proxy.example.com:3128/path"},
        "with a port": {"TONNE_EGRESS_PROXY": "http://u:hush@proxy.example.com"},
        "TONNE_EGRESS_PROXY": {"TONNE_EGRESS_PROXY": "socks5://u:hush@proxy.example.com:1080"},
    }
    for text, variables in wrong.items():
        with pytest.raises(SettingsError) as refused:
            load_settings(variables)
        assert text in str(refused.value)
        assert "hush" not in str(refused.value)
    assert load_settings({"TONNE_EGRESS_PROXY": "http://10.0.0.1:3128"}).egress_proxy == "http://10.0.0.1:3128"
