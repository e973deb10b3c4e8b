"""Slow, hostile and careless clients get a bounded, plain answer and cost the others nothing."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.http import server
from tonne.platform.http.client_address import client_address, limit_name
from tonne.platform.http.json_body import MAX_FAULTS, unique_members
from tonne.platform.settings.settings import Settings
from tonne.platform.web.visitor import locale_of

BODY = {"mass": {"amount": "1", "unit": "t"}}


async def _send_half(
    services: Services, path: str = "/offset/x", *, begun: bool = True
) -> tuple[list[dict[str, Any]], weakref.ref[Any]]:
    """A request whose body never ends; the messages of the response, and what the server reads the body from."""
    sent: list[dict[str, Any]] = []
    first = begun

    async def receive() -> dict[str, Any]:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": b"{", "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "raw_path": path.encode(),
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"tonne.test"), (b"content-length", b"100")],
        "client": ("203.0.113.9", 4711),
    }
    await build_app(services)(scope, receive, send)
    return sent, weakref.ref(receive)


async def test_security_1_a_body_that_never_ends_is_given_up(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BODY_WITHIN_S", 0.05)
    # Its client is not waited for after the response: each costs a connection.
    monkeypatch.setattr("tonne.platform.http.middleware._DISCARD_S", 60)
    for begun in (True, False):
        async with asyncio.timeout(30):
            [start, *_], _ = await _send_half(services, begun=begun)
        assert start["status"] == 408
        assert (b"connection", b"close") in start["headers"]


async def test_security_1_one_address_may_have_only_so_many_bodies_half_sent(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_HALF_READ", 0)
    monkeypatch.setattr(server, "CROWDED_WITHIN_S", 0.05)
    monkeypatch.setattr("tonne.platform.http.middleware._DISCARD_S", 0.05)
    for begun in (True, False):
        [start, *_], _ = await _send_half(services, begun=begun)
        assert (begun, start["status"]) == (begun, 429)
        assert dict(start["headers"])[b"retry-after"] == b"10"
    # The time limit is not needed for a body that is too large to be held.
    monkeypatch.setattr(server, "CROWDED_WITHIN_S", 60)
    monkeypatch.setattr(server, "CROWDED_BYTES", 0)
    [start, *_], _ = await _send_half(services)
    assert start["status"] == 429


async def test_a_burst_of_whole_requests_is_not_refused_while_their_bodies_are_on_the_way(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_HALF_READ", 0)

    async def in_parts() -> AsyncIterator[bytes]:
        yield b'{"mass":{"amount":"1",'
        yield b'"unit":"t"}}'

    headers = {"Authorization": f"Bearer {api.key}", "Content-Type": "application/json"}
    answer = await api.http.post("/v1/orders/by-mass", content=in_parts(), headers=headers)
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(("path", "status"), [("/offset/x", 408), ("/v1/orders/by-mass", 401), ("/nothing", 404)])
async def test_a_refused_request_releases_its_connection_at_once(
    services: Services, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    """The server closes a connection with half a body when nothing refers to the body: not after garbage collection."""
    monkeypatch.setattr(server, "BODY_WITHIN_S", 0.05)
    monkeypatch.setattr("tonne.platform.http.middleware._DISCARD_S", 0.05)
    gc.disable()
    try:
        [start, *_], body = await _send_half(services, path)
        # The callback of the loop that runs now still has the wait that ended.
        await asyncio.sleep(0)
        assert (start["status"], body()) == (status, None)
    finally:
        gc.enable()


class CountingName(str):
    """Counts how often names are compared."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountingName.comparisons += 1
        return str.__eq__(self, other)


def test_security_2_doubled_keys_cost_no_more_than_other_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """29,000 keys took 17 s of CPU when each was counted in the whole list."""
    count = 1_000
    monkeypatch.setattr(CountingName, "comparisons", 0)
    names = [CountingName(f"{number:x}") for number in range(count)]
    with pytest.raises(ValueError, match="twice"):
        unique_members([*((name, 1) for name in names), (CountingName("0"), 2)])
    assert CountingName.comparisons < 5 * count


async def test_security_2_many_keys_with_one_of_them_doubled_are_refused(api: ApiClient) -> None:
    members = ",".join(f'"{number:x}":1' for number in range(4_900))
    answer = await api.post_raw("/v1/orders/by-mass", f'{{{members},"0":2}}'.encode())
    assert 'contains the key "0" twice' in answer.json()["error"]["message"]


async def test_security_21_the_answer_to_many_unknown_fields_is_short(api: ApiClient) -> None:
    answer = await api.post("/v1/orders/by-mass", {**BODY, **{f"{'x' * 200}{n}": 1 for n in range(1000)}})
    assert answer.status_code == 400
    assert len(answer.json()["errors"]) == MAX_FAULTS + 1
    assert len(answer.content) < 64 * 1024


@pytest.mark.parametrize(
    ("field", "meant"), [("idempotencyKey", "idempotency_key"), ("metdata", "metadata"), ("bundleSelection", "bundle_")]
)
async def test_people_a4_a_misspelt_field_is_answered_with_the_right_one(
    api: ApiClient, field: str, meant: str
) -> None:
    answer = await api.post("/v1/orders/by-mass", {**BODY, field: "x"})
    assert f"Did you mean {meant}" in answer.json()["error"]["message"]


async def test_people_a4_the_idempotency_key_header_counts_like_the_field(api: ApiClient) -> None:
    first = await api.post("/v1/orders/by-mass", BODY, Idempotency_Key="header-1")
    again = await api.post("/v1/orders/by-mass", BODY, Idempotency_Key="header-1")
    in_body = await api.post("/v1/orders/by-mass", {"idempotency_key": "header-1", **BODY})
    assert (first.status_code, again.status_code, in_body.status_code) == (201, 200, 200)
    assert first.json()["id"] == again.json()["id"] == in_body.json()["id"]
    assert first.json()["idempotency_key"] == "header-1"
    assert "idempotency-mismatch" not in {*again.headers, *in_body.headers}


async def test_people_a4_two_different_keys_are_refused(api: ApiClient) -> None:
    answer = await api.post("/v1/orders/by-mass", {**BODY, "idempotency_key": "one"}, Idempotency_Key="two")
    assert (answer.status_code, codes(answer)) == (400, ["validation_error"])
    assert answer.json()["error"]["field"] == "idempotency_key"


async def test_people_a4_metadata_stays_as_it_was_sent_with_the_header(api: ApiClient) -> None:
    body = b'{"mass": {"amount": "1", "unit": "t"}, "metadata": {"b": 1.50, "a": 2}}'
    answer = await api.http.post(
        "/v1/orders/by-mass",
        content=body,
        headers={"Authorization": f"Bearer {api.key}", "Content-Type": "application/json", "Idempotency-Key": "meta"},
    )
    assert '"metadata":{"b": 1.50, "a": 2}' in answer.text


async def test_people_c_unknown_query_parameters_are_refused_under_v1(api: ApiClient) -> None:
    answer = await api.get("/v1/orders?lmit=5&colour=complete")
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["errors"]] == ["lmit", "colour"]
    assert "Did you mean limit?" in answer.json()["error"]["message"]
    assert (await api.get("/v1/orders?limit=5")).status_code == 200
    assert (await api.http.get("/verify?utm_source=mail")).status_code == 200


async def test_people_c_a_live_key_is_told_that_helpers_need_a_test_key(api: ApiClient, world: World) -> None:
    answer = await api.as_key(world.ours_live.key).post("/v1/test-helpers/orders/ord_x/pay", {})
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        404,
        "Test helpers work with test API keys only.",
    )


async def test_people_c_a_negative_amount_is_told_so(api: ApiClient) -> None:
    answer = await api.post("/v1/orders/by-mass", {"mass": {"amount": "-1", "unit": "t"}})
    assert "expected a positive number" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/metrics/", "//metrics", "///metrics", "/metrics//", "//v1/orders", "/v1//orders"])
async def test_security_8_other_spellings_of_a_path_lead_nowhere(api: ApiClient, path: str) -> None:
    request = api.http.build_request("GET", "http://tonne.test/")
    request.url = request.url.copy_with(raw_path=path.encode())
    assert (await api.http.send(request)).status_code == 404


async def test_one_slash_at_the_end_is_ignored_under_v1(api: ApiClient) -> None:
    assert (await api.get("/v1/orders/")).status_code == 200


async def test_security_9_the_request_log_has_the_clients_address(
    api: ApiClient, capsys: pytest.CaptureFixture[str]
) -> None:
    await api.as_key("tonne_test_wrong").get("/v1/orders")
    assert "127.0.0.1" in capsys.readouterr().out


async def test_security_11_a_long_accept_language_is_not_kept() -> None:
    assert locale_of("de-DE," + "x" * 400_000).language == "de"
    assert str(locale_of("xx-XX, fr-CH;q=0.5")) == "fr_CH"
    assert str(locale_of("rubbish")) == "en"


def test_security_19_limits_count_addresses_not_spellings() -> None:
    proxies = Settings(trusted_proxies="127.0.0.0/8").proxy_networks
    assert client_address("127.0.0.1", b"203.0.113.9:4711", proxies) == "203.0.113.9"
    assert client_address("::ffff:127.0.0.1", b"203.0.113.9", proxies) == "203.0.113.9"
    assert client_address("127.0.0.1", b"[2001:db8::1]:4711", proxies) == "2001:db8::1"
    assert client_address("198.51.100.7", b"203.0.113.9", proxies) == "198.51.100.7"
    assert limit_name("2001:db8::1") == limit_name("2001:db8::ffff:2") != limit_name("2001:db8:0:1::1")


async def test_security_22_responses_of_the_api_are_not_stored_and_https_stays_https(
    services: Services, api: ApiClient, settings: Settings
) -> None:
    assert (await api.get("/v1/bundles")).headers["cache-control"] == "no-store"
    assert (await api.get("/v1/orders")).headers["cache-control"] == "private, no-cache"
    assert "strict-transport-security" not in (await api.get("/v1/orders")).headers
    secure = Services(services.database, msgspec.structs.replace(settings, public_url="https://offsets.example.com"))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "raw_path": b"/health/live", "path": "/health/live"}
    await build_app(secure)({**scope, "query_string": b"", "headers": [], "client": ("127.0.0.1", 1)}, receive, send)
    assert dict(sent[0]["headers"])[b"strict-transport-security"] == b"max-age=31536000"


async def test_security_20_rendering_the_certificate_of_a_checkout_is_limited(
    services: Services, settings: Settings
) -> None:
    few = Services(services.database, msgspec.structs.replace(settings, checkouts_burst=2))
    transport = httpx.ASGITransport(build_app(few), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        path = f"/checkout/{'x' * 43}/certificate.pdf"
        assert [(await http.get(path)).status_code for _ in range(3)] == [404, 404, 429]
