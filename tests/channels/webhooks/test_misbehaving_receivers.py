"""Requests to misbehaving receivers end in time, read a limited amount, and name the error."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.support.processes import free_port
from tests.support.receivers import (
    OK,
    Receiver,
    Reply,
    cut,
    drip,
    hang,
    later,
    listening,
    never_accepting,
    receiving,
    reply,
    send,
)
from tests.support.tls import INVALID, Authority
from tonne.channels.webhooks.delivery.outcomes import Delivered, Gone, Retry, SendOutcome
from tonne.channels.webhooks.sending.sender import Sender
from tonne.platform.settings.settings import Settings

BODY = b'{"events":[]}'
SHORT_S = 0.4


@pytest.fixture
async def sender(settings: Settings) -> AsyncIterator[Sender]:
    sender = Sender(settings)
    yield sender
    await sender.close()


@pytest.fixture
async def impatient(settings: Settings) -> AsyncIterator[Sender]:
    """With a time-out of less than half a second."""
    sender = Sender(msgspec.structs.replace(settings, webhook_timeout_s=SHORT_S))
    yield sender
    await sender.close()


async def post(sender: Sender, url: str) -> SendOutcome:
    return await asyncio.wait_for(sender.post(url, BODY, {"Content-Type": "application/json"}), 20)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226, 299])
async def test_any_2xx_acknowledges(sender: Sender, receiver: Receiver, status: int) -> None:
    receiver.next(reply(status))
    outcome = await post(sender, receiver.url)
    assert (type(outcome), outcome.status, outcome.error) == (Delivered, status, None)


@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 410, 418, 429, 500, 503, 599])
async def test_nothing_but_2xx_acknowledges(sender: Sender, receiver: Receiver, status: int) -> None:
    receiver.next(reply(status))
    outcome = await post(sender, receiver.url)
    assert (type(outcome), outcome.status) == (Gone if status == 410 else Retry, status)
    assert outcome.error == ("redirect_refused" if status < 400 else "status_refused")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_never_followed(
    sender: Sender, receiver: Receiver, authority: Authority, status: int
) -> None:
    async with receiving(authority.context()) as private:
        receiver.next(reply(status, Location=private.url))
        outcome = await post(sender, receiver.url)
        assert (type(outcome), outcome.status, outcome.error) == (Retry, status, "redirect_refused")
        # The first request that arrives there is this one.
        assert isinstance(await post(sender, private.url), Delivered)
        assert len(private.deliveries) == 1
    assert len(receiver.deliveries) == 1


async def test_100_continue_is_not_the_status(sender: Sender, receiver: Receiver) -> None:
    receiver.next(send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    assert (await post(sender, receiver.url)).status == 200


SLOW: dict[str, Reply] = {
    "it hangs after the request": hang,
    "it responds too late": later(3 * SHORT_S),
    "it drips its status, a byte at a time": drip(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", SHORT_S / 8),
    "it stops within the headers": lambda writer: _say_and_hang(writer, b"HTTP/1.1 200 OK\r\nContent-"),
}


async def _say_and_hang(writer: asyncio.StreamWriter, raw: bytes) -> None:
    await send(raw)(writer)
    await hang(writer)


@pytest.mark.parametrize("how", SLOW)
async def test_a_receiver_that_is_too_slow_times_out(impatient: Sender, receiver: Receiver, how: str) -> None:
    receiver.next(SLOW[how])
    outcome = await post(impatient, receiver.url)
    assert (type(outcome), outcome.status, outcome.error) == (Retry, None, "timeout")
    assert outcome.duration_ms >= SHORT_S * 1000 - 10
    # The connection that timed out is not used again.
    assert isinstance(await post(impatient, receiver.url), Delivered)
    assert [delivery.connection for delivery in receiver.deliveries] == [1, 2]


async def test_the_time_out_includes_connecting(impatient: Sender) -> None:
    with never_accepting() as url:
        outcome = await post(impatient, url)
    assert (outcome.status, outcome.error) == (None, "timeout")
    assert outcome.duration_ms >= SHORT_S * 1000 - 10


async def test_a_port_that_accepts_and_never_speaks_tls_times_out(impatient: Sender) -> None:
    accepted = asyncio.Event()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await hang(writer)

    async with listening(take) as port:
        outcome = await post(impatient, f"https://127.0.0.1:{port}/")
    assert (accepted.is_set(), outcome.error) == (True, "timeout")


async def test_a_response_within_the_time_out_is_accepted(sender: Sender, receiver: Receiver) -> None:
    receiver.next(later(0.3))
    outcome = await post(sender, receiver.url)
    assert isinstance(outcome, Delivered)
    assert outcome.duration_ms >= 290


async def test_the_status_counts_even_if_the_body_never_arrives(sender: Sender, receiver: Receiver) -> None:
    receiver.next(lambda writer: _say_and_hang(writer, b"HTTP/1.1 202 OK\r\nContent-Length: 99\r\n\r\nhalf"))
    outcome = await post(sender, receiver.url)
    assert (type(outcome), outcome.status, outcome.answer) == (Delivered, 202, "half")
    assert outcome.duration_ms < 10_000


async def test_only_the_start_of_a_large_body_is_read(sender: Sender, receiver: Receiver) -> None:
    sent = []

    async def flood(writer: asyncio.StreamWriter) -> None:
        await send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")(writer)
        for _ in range(1000):
            await send(b"x" * 10_000)(writer)
            sent.append(10_000)

    receiver.next(flood)
    outcome = await post(sender, receiver.url)
    assert (type(outcome), outcome.answer) == (Delivered, "x" * 2048)
    # Buffers on the way hold more than was read, but the sender disconnected before the end.
    assert isinstance(await post(sender, receiver.url), Delivered)
    assert sum(sent) < 9_000_000
    assert [delivery.connection for delivery in receiver.deliveries] == [1, 2]


async def test_a_gzip_bomb_is_not_decompressed(sender: Sender, receiver: Receiver) -> None:
    bomb = gzip.compress(bytes(10_000_000), 9)
    receiver.next(reply(200, bomb, Content_Encoding="gzip"))
    outcome = await post(sender, receiver.url)
    assert isinstance(outcome, Delivered)
    assert outcome.answer.startswith("\x1f\ufffd\x08")
    assert len(outcome.answer) <= 2048


BROKEN: dict[str, tuple[Reply, str]] = {
    "it closes before it responds": (cut(), "connection_lost"),
    "it closes within the status": (cut(b"HTTP/1.1 20"), "connection_lost"),
    "it closes within the headers": (cut(b"HTTP/1.1 200 OK\r\nContent-"), "connection_lost"),
    "it speaks something else": (send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "answer_unreadable"),
    "its status is no number": (send(b"HTTP/1.1 abc OK\r\n\r\n"), "answer_unreadable"),
    "its headers have no end": (send(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000), "answer_unreadable"),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_response_without_a_status_is_a_failure(sender: Sender, receiver: Receiver, how: str) -> None:
    broken, error = BROKEN[how]
    receiver.next(broken)
    outcome = await post(sender, receiver.url)
    assert (type(outcome), outcome.status, outcome.error) == (Retry, None, error)


async def test_the_status_counts_even_if_the_connection_breaks_within_the_body(
    sender: Sender, receiver: Receiver
) -> None:
    receiver.next(cut(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"))
    assert isinstance(await post(sender, receiver.url), Delivered)


async def test_bytes_that_postgresql_rejects_are_replaced(sender: Sender, receiver: Receiver) -> None:
    receiver.next(reply(500, b"a\x00b\xff\xfec"))
    assert (await post(sender, receiver.url)).answer == "a\ufffdb\ufffd\ufffdc"


@pytest.mark.parametrize("kind", INVALID)
async def test_nothing_is_sent_to_a_receiver_with_an_invalid_certificate(
    sender: Sender, authority: Authority, kind: str
) -> None:
    async with receiving(authority.context(kind)) as bad:
        outcome = await post(sender, bad.url)
        assert (type(outcome), outcome.status, outcome.error) == (Retry, None, "certificate_invalid")
        assert bad.deliveries == []


async def test_without_a_ca_file_the_authorities_of_the_system_are_used(settings: Settings, receiver: Receiver) -> None:
    sender = Sender(msgspec.structs.replace(settings, webhook_ca_file=""))
    assert (await post(sender, receiver.url)).error == "certificate_invalid"
    await sender.close()


async def test_a_port_that_speaks_plain_http_gets_nothing_readable(sender: Sender) -> None:
    got: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(65536))
        await reply(400)(writer)

    async with listening(take) as port:
        outcome = await post(sender, f"https://127.0.0.1:{port}/")
    assert (outcome.status, outcome.error) == (None, "tls_failed")
    assert BODY not in got[0]


async def test_a_port_on_which_nothing_listens_is_a_failure(sender: Sender) -> None:
    assert (await post(sender, f"https://127.0.0.1:{free_port()}/")).error == "connection_refused"


async def test_connections_are_kept_and_cookies_are_not(sender: Sender, receiver: Receiver) -> None:
    receiver.next(reply(200, Set_Cookie="session=tracked; Path=/"), OK)
    for _ in range(2):
        assert isinstance(await post(sender, receiver.url), Delivered)
    assert [delivery.connection for delivery in receiver.deliveries] == [1, 1]
    assert "cookie" not in receiver.deliveries[1].headers
    assert receiver.deliveries[1].body == BODY
