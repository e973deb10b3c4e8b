"""Address checks at registration, on what a name resolves to, and on the address that is connected to."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.channels.webhooks.test_addresses import SPELLINGS_OF_THIS_MACHINE
from tests.support.receivers import Receiver, hang, listening
from tonne.channels.webhooks.delivery.outcomes import Delivered
from tonne.channels.webhooks.sending.addresses import AddressRefused
from tonne.channels.webhooks.sending.sender import Sender
from tonne.platform.settings.settings import Settings
from tonne.platform.values.urls import UrlInvalid

NAME = "hooks.example.com"


def found(address: str, port: int, name: str = NAME) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=name, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)


class Names(AbstractResolver):
    """A DNS resolver for tests: each lookup of a name gets its next answer; the last one repeats."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self._answers = {name.replace("_", "."): list(lists) for name, lists in answers.items()}
        self.asked: list[str] = []
        self.is_closed = False

    async def resolve(
        self, host: str, port: int = 0, _family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if not answers:
            raise OSError(None, "Domain name not found")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [found(address, port, host) for address in addresses]

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """No private network is allowed; every port is."""
    return msgspec.structs.replace(settings, webhook_allow_private="")


@pytest.fixture
async def senders() -> AsyncIterator[list[Sender]]:
    made: list[Sender] = []
    yield made
    for sender in made:
        await sender.close()


def make(senders: list[Sender], settings: Settings, **answers: list[list[str]]) -> Sender:
    sender = Sender(settings, Names(**answers))
    senders.append(sender)
    return sender


@pytest.mark.parametrize("url", SPELLINGS_OF_THIS_MACHINE)
async def test_no_spelling_of_this_machine_can_be_registered(
    settings: Settings, senders: list[Sender], url: str
) -> None:
    """Refused as an address, as a name that resolves to one, or as an invalid name."""
    names = {"localhost": [["127.0.0.1"]], "localhost.": [["127.0.0.1"]], "127.0.0.1.": [["127.0.0.1"]]}
    sender = make(senders, settings, **names)
    with pytest.raises((UrlInvalid, OSError)):
        await sender.check_receiver(url)


@pytest.mark.parametrize("url", SPELLINGS_OF_THIS_MACHINE)
async def test_no_spelling_of_this_machine_is_connected_to(settings: Settings, senders: list[Sender], url: str) -> None:
    names = {"localhost": [["127.0.0.1"]], "localhost.": [["127.0.0.1"]], "127.0.0.1.": [["127.0.0.1"]]}
    outcome = await make(senders, settings, **names).post(url, b"{}", {})
    assert (outcome.status, outcome.error) == (None, "address_refused")


async def test_a_name_with_public_addresses_is_allowed(settings: Settings, senders: list[Sender]) -> None:
    sender = make(senders, settings, hooks_example_com=[["93.184.216.34", "2606:2800:220:1::1"]])
    await sender.check_receiver(f"https://{NAME}/")


@pytest.mark.parametrize(
    "addresses",
    [
        ["93.184.216.34", "10.0.0.1"],
        ["10.0.0.1", "93.184.216.34"],
        ["93.184.216.34", "::1"],
        ["::ffff:169.254.169.254"],
    ],
)
async def test_a_name_with_a_single_private_address_is_refused_at_registration_and_on_connecting(
    settings: Settings, senders: list[Sender], addresses: list[str]
) -> None:
    sender = make(senders, settings, hooks_example_com=[addresses])
    with pytest.raises(AddressRefused):
        await sender.check_receiver(f"https://{NAME}/")
    assert (await sender.post(f"https://{NAME}/", b"{}", {})).error == "address_refused"


async def test_a_name_that_changes_after_registration_is_refused_on_connecting(
    settings: Settings, senders: list[Sender], receiver: Receiver
) -> None:
    sender = make(senders, settings, hooks_example_com=[["93.184.216.34"], ["127.0.0.1"]])
    url = f"https://{NAME}:{receiver.port}/"
    await sender.check_receiver(url)
    assert (await sender.post(url, b"{}", {})).error == "address_refused"
    assert receiver.deliveries == []


class Changing(list[ResolveResult]):
    """Yields public addresses on the first iteration and private ones afterwards."""

    def __init__(self, first: list[ResolveResult], then: list[ResolveResult]) -> None:
        super().__init__(then)
        self._first: list[ResolveResult] | None = first

    def __iter__(self) -> Iterator[ResolveResult]:
        first, self._first = self._first, None
        return super().__iter__() if first is None else iter(first)


class ChangingNames(Names):
    async def resolve(
        self, host: str, port: int = 0, _family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        return Changing([found("93.184.216.34", port)], [found("127.0.0.1", port), found("127.0.0.2", port)])


async def test_a_name_that_changes_between_check_and_connection_is_refused_at_the_socket(
    settings: Settings, senders: list[Sender], receiver: Receiver
) -> None:
    names = ChangingNames()
    sender = Sender(settings, names)
    senders.append(sender)
    outcome = await sender.post(f"https://{NAME}:{receiver.port}/", b"{}", {})
    assert names.asked == [NAME]
    assert (outcome.status, outcome.error) == (None, "address_refused")
    assert receiver.deliveries == []


async def test_the_certificate_must_match_the_name(
    settings: Settings, senders: list[Sender], receiver: Receiver
) -> None:
    allowing = msgspec.structs.replace(settings, webhook_allow_private="127.0.0.0/8")
    names = {"hooks_example_com": [["127.0.0.1"]], "elsewhere_example_com": [["127.0.0.1"]]}
    sender = make(senders, allowing, **names)
    assert isinstance(await sender.post(f"https://{NAME}:{receiver.port}/x", b"{}", {}), Delivered)
    assert receiver.deliveries[0].headers["host"] == f"{NAME}:{receiver.port}"
    elsewhere = await sender.post(f"https://elsewhere.example.com:{receiver.port}/x", b"{}", {})
    assert elsewhere.error == "certificate_invalid"


async def test_an_unknown_name_has_its_own_error(settings: Settings, senders: list[Sender]) -> None:
    sender = make(senders, settings)
    with pytest.raises(OSError, match="not found"):
        await sender.check_receiver(f"https://{NAME}/")
    assert (await sender.post(f"https://{NAME}/", b"{}", {})).error == "name_not_found"


async def test_169_254_is_not_connected_to_even_when_everything_is_allowed(
    settings: Settings, senders: list[Sender]
) -> None:
    allowing = msgspec.structs.replace(settings, webhook_allow_private="0.0.0.0/0,::/0")
    sender = make(senders, allowing, hooks_example_com=[["169.254.169.254"]])
    for url in ("https://169.254.169.254/", "https://[::ffff:169.254.169.254]/", f"https://{NAME}/"):
        with pytest.raises(AddressRefused):
            await sender.check_receiver(url)
        assert (await sender.post(url, b"{}", {})).error == "address_refused"


async def test_no_proxy_of_the_environment_is_used(
    settings: Settings, senders: list[Sender], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1))
        await hang(writer)

    async with listening(proxy) as port:
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        sender = make(senders, msgspec.structs.replace(settings, webhook_allow_private="127.0.0.0/8"))
        assert isinstance(await sender.post(receiver.url, b"{}", {}), Delivered)
        assert (await make(senders, settings).post(receiver.url, b"{}", {})).error == "address_refused"
    assert asked == []


async def test_a_login_in_the_netrc_file_is_not_sent(
    settings: Settings, senders: list[Sender], receiver: Receiver, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login us password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    sender = make(senders, msgspec.structs.replace(settings, webhook_allow_private="127.0.0.0/8"))
    assert isinstance(await sender.post(receiver.url, b"{}", {}), Delivered)
    assert "authorization" not in receiver.deliveries[0].headers


async def test_a_closed_sender_has_closed_its_resolver(settings: Settings) -> None:
    """A resolver watches the system's configuration with a file descriptor, of which a user has few."""
    names = Names()
    await Sender(settings, names).close()
    assert names.is_closed
