"""The receiver of the suite and its certificates, with real TLS."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.processes import HOST, free_port
from tonne_conformance.certificate import CertificateFiles, make_certificate
from tonne_conformance.expect import Failed
from tonne_conformance.options import ReceiverAddress, settings_for
from tonne_conformance.receiver import Delivery, Inbox, Receiver, Reply, is_acknowledged

BODY = b'{"events": [{"event_id": "evt_1", "data": {"order": {"id": "ord_1"}}, "event_type": "order.placed"}]}'


@pytest.fixture
def certificate(tmp_path: Path) -> CertificateFiles:
    return make_certificate(tmp_path, HOST)


@pytest.fixture
def receiver(certificate: CertificateFiles) -> Iterator[Receiver]:
    port = free_port()
    with Receiver((HOST, port), f"https://{HOST}:{port}", certificate).listening() as receiver:
        yield receiver


@pytest.fixture
def sender(certificate: CertificateFiles) -> Iterator[httpx.Client]:
    """Trusts the authority of the certificate, as the service does."""
    context = ssl.create_default_context(cafile=certificate.authority)
    with httpx.Client(verify=context) as client:
        yield client


def test_a_request_is_recorded_as_it_came(receiver: Receiver, sender: httpx.Client) -> None:
    inbox = receiver.inbox("here")
    began = time.time()
    answer = sender.post(inbox.url, content=BODY, headers={"Service-HMAC": "timestamp=1,v1=x"})
    assert answer.status_code == 200
    [delivery] = inbox.deliveries
    assert (delivery.method, delivery.body, delivery.header("service-hmac")) == ("POST", BODY, "timestamp=1,v1=x")
    assert began <= delivery.at_epoch_s <= time.time()
    assert delivery.event_ids == ["evt_1"]
    assert inbox.events_of("ord_1") == delivery.events
    assert receiver.all_deliveries == [delivery]


def test_an_unknown_address_gets_404(receiver: Receiver, sender: httpx.Client) -> None:
    known = receiver.inbox("here").url
    assert sender.post(known.replace("here", "nowhere"), content=BODY).status_code == 404
    assert receiver.inbox("here").deliveries == []


def test_a_rule_chooses_the_replies(receiver: Receiver, sender: httpx.Client) -> None:
    inbox = receiver.inbox("here")
    replies = iter([Reply(500), Reply(204), Reply(302, headers=(("Location", "https://x.example/"),))])
    inbox.rule = lambda _: next(replies)
    assert [sender.post(inbox.url, content=BODY).status_code for _ in range(3)] == [500, 204, 302]
    assert [is_acknowledged(delivery) for delivery in inbox.deliveries] == [False, True, False]
    assert len(inbox.events) == 3
    assert len(inbox.new_events) == 1
    assert len(inbox.acknowledged_events()) == 1


def test_it_can_close_the_connection(receiver: Receiver, sender: httpx.Client) -> None:
    inbox = receiver.inbox("here")
    inbox.rule = lambda _: Reply(close=True)
    with pytest.raises(httpx.TransportError):
        sender.post(inbox.url, content=BODY)
    assert [is_acknowledged(delivery) for delivery in inbox.deliveries] == [False]


def test_a_slow_reply_does_not_hold_up_others(receiver: Receiver, sender: httpx.Client) -> None:
    slow, quick = receiver.inbox("slow"), receiver.inbox("quick")
    slow.rule = lambda _: Reply(after_s=1.0)
    waiting = threading.Thread(target=sender.post, args=(slow.url,), kwargs={"content": BODY})
    began = time.monotonic()
    waiting.start()
    slow.wait(lambda: bool(slow.deliveries), "a request", 10)
    sender.post(quick.url, content=BODY)
    assert waiting.is_alive()
    waiting.join()
    assert time.monotonic() - began >= 1.0


def test_waiting_for_an_event_fails_with_what_was_expected(receiver: Receiver, sender: httpx.Client) -> None:
    inbox = receiver.inbox("here")
    sender.post(inbox.url, content=BODY)
    assert inbox.wait_for_event("ord_1", "order.placed", 1)["event_id"] == "evt_1"
    with pytest.raises(Failed, match=r"the event order\.paid of the order ord_1 within 0 s"):
        inbox.wait_for_event("ord_1", "order.paid", 0.01)


def test_bodies_that_are_no_events_are_kept(receiver: Receiver, sender: httpx.Client) -> None:
    inbox = receiver.inbox("here")
    for body in (b"", b"{", b"[]", b'{"events": 1}', b'{"events": [1]}'):
        sender.post(inbox.url, content=body)
    assert [delivery.events for delivery in inbox.deliveries] == [[], [], [], [], []]


def test_the_authority_is_kept_and_its_key_is_private(tmp_path: Path) -> None:
    first = make_certificate(tmp_path, HOST)
    assert first.authority is not None
    trusted = first.authority.read_bytes()
    again = make_certificate(tmp_path, "hooks.example.com")
    assert again.authority is not None
    assert again.authority.read_bytes() == trusted
    for name in ("authority.key", "receiver.key"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_the_certificate_is_for_its_host_only(tmp_path: Path, sender: httpx.Client) -> None:
    other = make_certificate(tmp_path, "hooks.example.com")
    port = free_port()
    with (
        Receiver((HOST, port), f"https://{HOST}:{port}", other).listening() as receiver,
        pytest.raises(httpx.ConnectError, match="certificate"),
    ):
        sender.post(receiver.inbox("here").url, content=BODY)


@pytest.mark.parametrize(
    ("text", "listen", "expected"),
    [
        ("127.0.0.1:9443", "", ("https://127.0.0.1:9443", "127.0.0.1", ("127.0.0.1", 9443))),
        ("https://10.1.2.3:8443/", "", ("https://10.1.2.3:8443", "10.1.2.3", ("10.1.2.3", 8443))),
        # The service is elsewhere, so that the suite listens at all addresses.
        ("hooks.example.com:443", "", ("https://hooks.example.com:443", "hooks.example.com", ("0.0.0.0", 443))),  # noqa: S104
        ("https://a.example/b", "127.0.0.1:9000", ("https://a.example/b", "a.example", ("127.0.0.1", 9000))),
    ],
)
def test_addresses_of_the_receiver(text: str, listen: str, expected: tuple[str, str, tuple[str, int]]) -> None:
    address = ReceiverAddress.parse(text, listen)
    assert (address.base_url, address.host, address.listen) == expected


@pytest.mark.parametrize("text", ["http://hooks.example.com", "https://", "ftp://x:1", "x:y"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        ReceiverAddress.parse(text)


def test_the_settings_that_a_service_needs(tmp_path: Path) -> None:
    made = CertificateFiles(tmp_path / "c", tmp_path / "k", tmp_path / "authority.pem")
    given = CertificateFiles(tmp_path / "c", tmp_path / "k")
    private, public = ReceiverAddress.parse("127.0.0.1:9443"), ReceiverAddress.parse("hooks.example.com:443")
    trust = {"TONNE_WEBHOOK_CA_FILE": str(tmp_path / "authority.pem")}
    assert settings_for(private, made) == trust | {"TONNE_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8"}
    assert settings_for(public, made) == trust
    assert settings_for(public, given) == {}
    networks = {"localhost": "127.0.0.0/8,::1/128", "10.1.2.3": "10.1.2.3/32", "[::1]": "::1/128"}
    for host, expected in networks.items():
        found = settings_for(ReceiverAddress.parse(f"{host}:9443"), given)
        assert found == {"TONNE_WEBHOOK_ALLOW_PRIVATE": expected}


def test_new_events_are_in_the_order_of_their_first_arrival() -> None:
    """A repetition does not move an event behind those that came between."""
    inbox = Inbox("one", "https://127.0.0.1:1/one")
    for ids in (("a",), ("b",), ("a", "c")):
        body = json.dumps({"events": [{"event_id": name} for name in ids]}).encode()
        inbox.add(Delivery("POST", "/one", (), body, 0.0, 0.0, Reply()))
    assert [event["event_id"] for event in inbox.new_events] == ["a", "b", "c"]
