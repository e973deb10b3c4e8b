"""Payment pages with failures and false responses of Stripe: no payment is lost or invented."""

import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import structlog
from aiohttp import web

from tests.money.cards.gateways.fake_stripe import (
    Responder,
    break_off,
    echo_key,
    error_response,
    hang,
    page,
    pass_time,
    reset,
    respond,
    respond_text,
)
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, Fault, fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import KEY
from tests.money.cards.gateways.page_requests import charge_on_page, gateway_at, page_request, with_session
from tests.support.clock import START, ManualClock
from tests.support.processes import free_port
from tests.support.receivers import never_accepting
from tonne.money.cards.gateways import card_stripe
from tonne.money.cards.gateways.card import ChargeOutcome, ChargeRequest, ChargeResult, HostedPage, PageNotOpened
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.platform.values.context import replace

API = {"type": "api_error", "message": "Sorry, something went wrong on our end."}
CARD = {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}
INVALID = {"type": "invalid_request_error", "code": "parameter_unknown", "message": "Received unknown parameter: hue"}
TROUBLES: dict[str, Responder] = {
    "no answer in time": hang,
    "the connection is lost": reset,
    "the answer breaks off": break_off,
    "400": error_response(400, **INVALID),
    "401": error_response(401, type="invalid_request_error", message="Invalid API Key provided"),
    "402": error_response(402, **CARD),
    "403": error_response(403, type="invalid_request_error", message="Not permitted"),
    "429": error_response(429, type="invalid_request_error", code="rate_limit", message="Too many."),
    "500": error_response(500, **API),
    "502 from something in between": respond_text(502, "<h1>Bad gateway</h1>"),
    "200 that is not JSON": respond_text(200, '{"id": "cs_1", "object": "checkout.session", "status": "comp'),
    "200 that is no object": respond(200, ["complete", "paid"]),
    "200 that is another object": respond(200, {"object": "balance", "available": []}),
    "200 that has nothing in it": respond(200, {}),
    "200 with a session of the wrong form": respond(200, {"id": "cs_1", "object": "checkout.session", "url": 7}),
}
# Only for gateways that cannot be reached: a slow machine must not cause a time-out elsewhere.
CONNECT_TIMEOUT_S = 0.2


@pytest.fixture
async def pages() -> AsyncIterator[FakeStripePages]:
    async with fake_stripe_pages() as made:
        yield made


@pytest.fixture
async def gateway(pages: FakeStripePages) -> AsyncIterator[StripeCardGateway]:
    async with gateway_at(pages.url) as made:
        yield made


def _lasting(what: str) -> list[Fault]:
    """The HTTP client repeats a GET on a new connection if the connection is lost."""
    return [Fault(TROUBLES[what])] * 2


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("what", TROUBLES)
async def test_a_page_that_failed_to_open_is_opened_by_a_repeat(
    pages: FakeStripePages, gateway: StripeCardGateway, what: str, is_done: bool
) -> None:
    asked = page_request()
    pages.faults.append(Fault(TROUBLES[what], is_done))
    with pytest.raises(PageNotOpened) as refused:
        await gateway.open_page(asked)
    assert str(refused.value)
    assert refused.value.__cause__ is None
    assert len(pages.requests) == 1, "it is the caller who tries again"
    assert len(pages.sessions) == int(is_done)
    opened = await gateway.open_page(replace(asked, expires_at=asked.expires_at + timedelta(minutes=1)))
    assert opened.url == pages.session_of(asked.charge.id)["url"]
    assert len(pages.sessions) == 1


@pytest.mark.parametrize("what", TROUBLES)
async def test_a_repeat_that_cannot_search_for_the_page_opens_none(
    pages: FakeStripePages, gateway: StripeCardGateway, what: str
) -> None:
    asked = page_request()
    await gateway.open_page(asked)
    pages.faults.extend([None, *_lasting(what)])
    with pytest.raises(PageNotOpened):
        await gateway.open_page(replace(asked, title="Another title"))
    assert len(pages.sessions) == 1


@pytest.mark.parametrize("is_named", [False, True], ids=["to come", "named"])
@pytest.mark.parametrize("what", TROUBLES)
async def test_a_failed_look_up_is_unknown(
    pages: FakeStripePages, gateway: StripeCardGateway, what: str, is_named: bool
) -> None:
    charge = charge_on_page()
    opened = await gateway.open_page(page_request(charge))
    pages.pay(opened.session_id)
    if is_named:
        charge = with_session(charge, opened)
    for passing in range(1 if is_named else 2):
        pages.faults.extend([*[None] * passing, *_lasting(what)])
        found = await gateway.look_up(charge)
        pages.faults.clear()
        assert found.kind is ChargeOutcome.UNKNOWN
        assert found.reference is None
        assert found.code
    assert (await gateway.look_up(charge)).kind is ChargeOutcome.CAPTURED


async def test_an_unreachable_gateway_opens_no_page(pages: FakeStripePages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_stripe, "CONNECT_TIMEOUT_S", CONNECT_TIMEOUT_S)
    with never_accepting() as silent:
        for url in (
            f"http://127.0.0.1:{free_port()}",  # refused
            pages.url.replace("http://", "https://"),  # no TLS
            silent.removesuffix("/hook"),  # accepts the connection, but no TLS handshake
        ):
            async with gateway_at(url) as gateway:
                with pytest.raises(PageNotOpened, match="Stripe cannot be reached"):
                    await gateway.open_page(page_request())
                for charge in (charge_on_page(), with_session(charge_on_page(), "cs_1")):
                    found = await gateway.look_up(charge)
                    assert (found.kind, found.code) == (ChargeOutcome.UNKNOWN, "gateway_unreachable")
    assert pages.requests == []


async def test_an_endless_list_times_out_and_is_unknown(pages: FakeStripePages, gateway: StripeCardGateway) -> None:
    other = pages.sessions[(await gateway.open_page(page_request())).session_id]
    next_page = page(other, url="/v1/checkout/sessions", has_more=True)

    async def respond_slowly(request: web.Request) -> web.StreamResponse:
        pass_time(1.0)
        return await next_page(request)

    pages.faults.extend([Fault(respond_slowly)] * 1_000)
    found = await gateway.look_up(charge_on_page())
    assert (found.kind, found.code) == (ChargeOutcome.UNKNOWN, "gateway_timeout")


async def test_an_empty_page_of_a_list_with_more_is_unknown(pages: FakeStripePages, gateway: StripeCardGateway) -> None:
    pages.faults.append(Fault(page(url="/v1/checkout/sessions", has_more=True)))
    assert (await gateway.look_up(charge_on_page())).kind is ChargeOutcome.UNKNOWN


@pytest.mark.parametrize("what", ["400 that quotes it", "402 that quotes it", "nonsense"])
async def test_the_secret_key_is_never_repeated(pages: FakeStripePages, gateway: StripeCardGateway, what: str) -> None:
    leaks = {
        "400 that quotes it": echo_key,
        "402 that quotes it": error_response(402, type="card_error", message=f"Not with {KEY}."),
        "nonsense": respond_text(200, KEY),
    }
    pages.faults.extend([Fault(leaks[what])] * 2)
    with structlog.testing.capture_logs() as logs:
        with pytest.raises(PageNotOpened) as refused:
            await gateway.open_page(page_request())
        found = await gateway.look_up(charge_on_page())
    assert KEY not in repr([refused.value, refused.value.__cause__, found, logs])
    assert [line["event"] for line in logs] == ["stripe_request_failed"] * 2


# False or inconsistent states of a session.
LIES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("status", ("open", "complete", "expired", "someday", None)),
    ("payment_status", ("paid", "unpaid", "no_payment_required", "someday")),
    ("amount_total", (0, 1, 1998, 2000, 199_900, None)),
    ("currency", ("usd", "jpy", "EUR", None)),
    ("client_reference_id", ("chg_another", None)),
    ("payment_intent", (None, "pi_another", {}, [])),
)
FAULTS = [Fault(act, is_done) for act in TROUBLES.values() for is_done in (False, True)]


class _Story:
    """A random sequence for one charge: opened, paid, expired, refunded and looked up, with faults."""

    def __init__(
        self,
        pages: FakeStripePages,
        gateway: StripeCardGateway,
        clock: ManualClock,
        seed: int,
    ) -> None:
        self.pages, self.gateway, self.clock = pages, gateway, clock
        self.chance = random.Random(seed)  # noqa: S311 - a seeded story, no secret
        self.charge: ChargeRequest = charge_on_page(charge_id=f"chg_{seed}")
        self.has_address = False
        self.is_ended = False

    async def step(self) -> None:
        await self.chance.choice(
            [self._open, self._open, self._pay, self._pass_time, self._refund, self._look, self._look]
        )()

    def _break(self) -> None:
        """Maybe inject a fault into one of the next requests."""
        self.clear_faults()
        if self.chance.random() < 0.5:
            fault = self.chance.choice(FAULTS)
            self.pages.faults.extend([*[None] * self.chance.randrange(3), fault])

    def clear_faults(self) -> None:
        self.pages.faults.clear()

    async def _open(self) -> None:
        self._break()
        try:
            opened = await self.gateway.open_page(
                page_request(self.charge, expires_at=self.clock() + timedelta(hours=2))
            )
        except PageNotOpened:
            return
        assert opened.session_id == self.pages.session_of(self.charge.id)["id"]
        assert opened.url == f"{self.pages.url}/pay/{opened.session_id}"
        self.has_address = True
        if self.chance.random() < 0.7:
            self.charge = with_session(self.charge, opened)

    async def _pay(self) -> None:
        """Possible only if the URL was returned."""
        if self.has_address and (session := self.pages.session_of(self.charge.id))["status"] == "open":
            act = self.pages.pay if self.chance.random() < 0.6 else self.pages.decline
            act(session["id"])

    async def _pass_time(self) -> None:
        """At most a day in total: a page without a recorded id is searched for among the pages of one day."""
        if self.clock() < START + timedelta(hours=20):
            self.clock.advance(minutes=self.chance.choice([1, 5, 40, 130]))

    async def _refund(self) -> None:
        self.clear_faults()
        for intent in self.pages.intents.values():
            if intent["metadata"]["charge_id"] == self.charge.id and self.pages.taken(self.charge.id):
                await self.gateway.refund(f"rfd_{self.charge.id}", intent["id"], self.charge.amount_minor, "EUR")

    async def _look(self) -> None:
        self._break()
        lie = None
        if self.chance.random() < 0.3:
            name, values = self.chance.choice(LIES)
            lie = {name: self.chance.choice(values)}
            self.pages.retell = lambda session: session | lie
        found = await self.gateway.look_up(self.charge)
        self.pages.retell = lambda session: session
        self.check(found, lie)

    def check(self, found: ChargeResult, lie: dict[str, Any] | None) -> None:
        taken = self.pages.taken(self.charge.id)
        assert found.kind is not ChargeOutcome.UNAVAILABLE
        if found.kind is ChargeOutcome.CAPTURED:
            assert taken == [self.charge.amount_minor], "money that was never taken"
            assert found.reference in self.pages.intents
            is_as_asked = (found.amount_minor, found.currency) == (self.charge.amount_minor, self.charge.currency)
            assert is_as_asked == (lie is None or not {"amount_total", "currency"} & set(lie))
        if found.kind in {ChargeOutcome.REFUSED, ChargeOutcome.DECLINED}:
            assert taken == [], "refused, and the money was taken"
            # If an open page is reported as expired, the gateway cannot detect it.
            self.is_ended = self.is_ended or lie is None
        if found.kind is ChargeOutcome.NOT_FOUND:
            assert self.charge.source == HostedPage()
            assert not any(each["client_reference_id"] == self.charge.id for each in self.pages.sessions.values())
        if self.is_ended:
            assert taken == [], "given up, and the money was taken"


async def _lie_free(story: _Story) -> None:
    """Without faults, the last look-up returns the truth."""
    story.clear_faults()
    found = await story.gateway.look_up(story.charge)
    story.check(found, None)
    taken = story.pages.taken(story.charge.id)
    assert (found.kind is ChargeOutcome.CAPTURED) == bool(taken)


@pytest.mark.parametrize("seed", range(40))
async def test_a_capture_is_reported_if_and_only_if_it_was_made(seed: int) -> None:
    clock = ManualClock()
    async with fake_stripe_pages(clock) as pages, gateway_at(pages.url, clock=clock) as gateway:
        story = _Story(pages, gateway, clock, seed)
        with structlog.testing.capture_logs():
            for _ in range(25):
                await story.step()
            await _lie_free(story)
