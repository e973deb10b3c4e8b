"""Tests that need a real server and real sockets."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import asyncpg
import httpx

from tests.platform.http.conftest import LiveServer
from tests.support.api_client import ApiClient, codes
from tests.support.world import World

ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}
TEN_MB = 10 * 1024 * 1024


async def send_raw(live: LiveServer, request: bytes) -> bytes:
    """The server's response to these bytes, or what it sent before it closed the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
    answer = b""
    try:
        writer.write(request)
        await writer.drain()
        while not is_whole(answer) and (more := await asyncio.wait_for(reader.read(65536), 10)):
            answer += more
    finally:
        writer.close()
    return answer


def is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return bool(end) and length is not None and len(body) >= int(length[1])


def error_code(answer: bytes) -> str:
    code: str = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["error_code"]
    return code


async def test_a_request_names_one_host(live_server: LiveServer) -> None:
    """A bare line feed ends a line, as RFC 9112 allows; proxies that forward requests write CRLF.

    The host of an absolute URI does nothing, as that of the field: no link or redirect is made of it.
    """
    first = b"GET /health/live HTTP/1.1\r\n"
    for hosts in (b"", b"Host: a\r\nHost: b\r\n", b"Host: a\r\nhost: a\r\n"):
        answer = await send_raw(live_server, first + hosts + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 400"), hosts
        assert b"exactly one Host" in answer
    assert (await send_raw(live_server, first + b"Host: a\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert (await send_raw(live_server, b"GET /health/live HTTP/1.0\r\n\r\n")).split()[1] == b"200"
    assert (await send_raw(live_server, first.replace(b"\r", b"") + b"Host: a\n\n")).split()[1] == b"200"
    for host in (b"a", b"evil.example:80"):
        answer = await send_raw(live_server, b"GET http://" + host + b"/dashboard HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 303"), answer
        assert b"location: /dashboard/sign-in" in answer.lower()
    for target in (b"evil.example:80", b"*", b"http://a/metrics/"):
        answer = await send_raw(live_server, b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 404"), target


async def test_two_hundred_requests_at_once_with_one_key_make_one_order(
    live_api: ApiClient, live_server: LiveServer
) -> None:
    body = ONE_TONNE | {"idempotency_key": "two hundred", "metadata": {"a": 1.10}}
    answers = await asyncio.gather(*(live_api.post("/v1/orders/by-mass", body) for _ in range(200)))
    refused = [answer.text for answer in answers if answer.status_code > 201]
    assert refused == []
    assert sorted(answer.status_code for answer in answers) == [200] * 199 + [201]
    assert len({answer.content for answer in answers}) == 1
    for answer in answers:
        assert ("idempotent-replayed" in answer.headers) is (answer.status_code == 200)
        assert "idempotency-mismatch" not in answer.headers
    connection = await asyncpg.connect(live_server.database_url)
    order_id = answers[0].json()["id"]
    orders = await connection.fetchval("SELECT count(*) FROM orders WHERE idempotency_key = 'two hundred'")
    events = await connection.fetch("SELECT event_type FROM events WHERE subject_id = $1 ORDER BY position", order_id)
    lines = await connection.fetchval("SELECT count(*) FROM order_lines WHERE order_id = $1", order_id)
    await connection.close()
    assert orders == 1
    assert [event["event_type"] for event in events] == ["order.received", "order.placed"]
    assert lines == len(answers[0].json()["bundles"])


async def test_a_body_of_ten_megabytes_is_refused_and_the_server_stays_up(live_api: ApiClient) -> None:
    raw = b'{"metadata":{"a":"' + b"x" * TEN_MB + b'"}}'
    for path in ("/v1/orders/by-estimate", "/v1/orders/by-mass", "/v1/orders/by-value", "/v1/estimates"):
        answer = await live_api.post_raw(path, raw)
        assert (answer.status_code, codes(answer)) == (413, ["body_too_large"]), path
    assert (await live_api.get("/v1/orders?limit=1")).status_code == 200


async def test_errors_reach_a_client_that_is_still_sending(live_api: ApiClient) -> None:
    """Closing the connection too early would lose the response."""
    raw = b" " * TEN_MB
    answer = await live_api.as_key("wrong").post_raw("/v1/orders/by-mass", raw)
    assert (answer.status_code, codes(answer)) == (401, ["unauthorised"])
    answer = await live_api.post_raw("/v1/nowhere", raw)
    assert (answer.status_code, codes(answer)) == (404, ["route_not_found"])


async def test_ten_megabytes_without_a_declared_length_are_refused(live_api: ApiClient, world: World) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(160):
            yield b" " * (TEN_MB // 160)

    answer = await live_api.http.post(
        "/v1/orders/by-mass",
        content=chunks(),
        headers={"Authorization": f"Bearer {world.ours_test.key}", "Content-Type": "application/json"},
    )
    assert (answer.status_code, codes(answer)) == (413, ["body_too_large"])


async def test_ten_megabytes_without_a_key_are_not_read(live_server: LiveServer) -> None:
    """Only the headers are sent: a response shows that the server did not wait for the body."""
    head = f"POST /v1/orders/by-mass HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {TEN_MB}\r\n\r\n"
    answer = await send_raw(live_server, head.encode())
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert error_code(answer) == "unauthorised"


async def test_a_declared_length_above_the_limit_is_refused_at_once(live_server: LiveServer, world: World) -> None:
    head = (
        f"POST /v1/orders/by-mass HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {TEN_MB}\r\n"
        f"Authorization: Bearer {world.ours_test.key}\r\nContent-Type: application/json\r\n\r\n"
    )
    answer = await send_raw(live_server, head.encode())
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert error_code(answer) == "body_too_large"


async def test_paths_with_any_bytes_get_a_response(live_server: LiveServer, world: World) -> None:
    for target in (
        b"/v1/orders/%00",
        b"/v1/orders/%FF",
        b"/v1/orders/%ED%A0%80",
        b"/v1/orders/%",
        b"/v1/orders/%zz",
        b"/v1/orders/by-idempotency-key/%00",
        b"/v1/orders/by-idempotency-key/%FF%FE",
        b"/v1/orders/by-idempotency-key/%ED%A0%80",
        b"/v1/orders/by-idempotency-key/..%2f..%2f",
        b"/v1/orders/by-idempotency-key/" + b"x" * 5000,
        b"/v1/orders/\xff\xfe",
    ):
        request = b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "
        answer = await send_raw(live_server, request + world.ours_test.key.encode() + b"\r\n\r\n")
        status = answer.split(b" ", 2)[1]
        # The server may refuse invalid HTTP itself; what it passes on is an unknown order.
        if status != b"400" or b"error_code" in answer:
            assert (status, error_code(answer)) == (b"404", "order_not_found"), target


async def test_queries_with_any_bytes_get_a_response(live_server: LiveServer, world: World) -> None:
    for query in (
        b"after=%00",
        b"after=%FF",
        b"limit=%FF",
        b"offset_link_id=%00",
        b"offset_link_id=%ED%A0%80",
        b"limit=%",
    ):
        request = b"GET /v1/orders?" + query + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "
        answer = await send_raw(live_server, request + world.ours_test.key.encode() + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 "), query
        assert error_code(answer) in {"validation_error", "pagination_limit_invalid", "pagination_cursor_invalid"}


async def test_invalid_http_does_no_harm(live_server: LiveServer, live_api: ApiClient) -> None:
    for raw in (
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        b"hello\r\n\r\n",
        b"\x00" * 100,
        b"GET\r\n\r\n",
        b"G" * 70_000 + b"\r\n",
    ):
        answer = await send_raw(live_server, raw + b"\r\n\r\n")
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert (await live_api.get("/v1/orders?limit=1")).status_code == 200


async def test_head_over_a_socket_has_the_length_of_get_and_no_body(live_server: LiveServer) -> None:
    end = b"HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await send_raw(live_server, b"HEAD /health/live " + end)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-length: 15" in head.lower()
    assert body == b""


async def test_idempotency_keys_with_any_characters_are_found_over_a_real_socket(live_api: ApiClient) -> None:
    for key in (
        "a/b",
        "trailing/",
        "//x",
        "a//b",
        "50%",
        "%2F",
        "a?b#c",
        " a b ",
        "ключ 鍵 🌍",
        "👩‍👩‍👧",
        "a/../b",
        "é" * 250,
    ):
        answer = await live_api.post("/v1/orders/by-mass", ONE_TONNE | {"idempotency_key": f"live {key}"})
        assert answer.status_code == 201, answer.text
        found = await live_api.by_key(f"live {key}")
        assert found.content == answer.content, key


async def test_unicode_that_was_not_encoded_is_read_as_utf_8(live_server: LiveServer, world: World) -> None:
    async with httpx.AsyncClient(base_url=live_server.url, timeout=60) as client:
        api = ApiClient(client, world.ours_test.key)
        order = await api.order(idempotency_key="dépôt")
        answer = await api.get(f"/v1/orders/by-idempotency-key/{quote('dépôt')}")
        assert answer.json()["id"] == order["id"]
