"""Events from Stripe: verified by signature, and used only to find the charge to look up."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
import stripe
from aiohttp import web

from tests.money.cards.gateways.fake_stripe import intent
from tests.money.cards.gateways.gateway_under_test import request, stripe_under_test
from tonne.money.cards.gateways.stripe_events import TOLERANCE_S, SignatureInvalid, StripeEvent, verify_event
from tonne.platform.values.context import Mode

SECRET, ANOTHER = "whsec_bench", "whsec_another"


def event(about: Any, kind: str = "payment_intent.succeeded") -> bytes:
    made = {"id": "evt_1", "object": "event", "type": kind, "livemode": False, "data": {"object": about}}
    assert set(made) <= set(stripe.Event.__annotations__)
    return json.dumps(made, indent=2).encode()


def signed(payload: bytes, age_s: float = 0, secret: str = SECRET) -> str:
    header: str = stripe.WebhookSignature.generate_signature_header(payload.decode(), secret, int(time.time() - age_s))
    return header


PAID = event(intent(metadata={"charge_id": "chg_1", "order_id": "ord_1"}))


async def test_a_signed_event_names_the_charge_to_look_up(localstripe_url: str) -> None:
    arrived: asyncio.Queue[tuple[bytes, str]] = asyncio.Queue()

    async def take(incoming: web.Request) -> web.Response:
        arrived.put_nowait((await incoming.read(), incoming.headers["Stripe-Signature"]))
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hook = {"url": f"http://127.0.0.1:{runner.addresses[0][1]}/hook", "secret": SECRET}
    async with aiohttp.ClientSession() as session, stripe_under_test(localstripe_url) as subject:
        await session.post(f"{localstripe_url}/_config/webhooks/ours", json=hook)
        asked = request(await subject.card())
        charged = await subject.gateway.charge(asked)
        while True:
            payload, header = await asyncio.wait_for(arrived.get(), 10)
            told = verify_event(payload, header, SECRET)
            if told.charge_id == asked.id:
                break
        assert (told.type, told.reference) == ("payment_intent.succeeded", charged.reference)
        assert await subject.gateway.look_up(asked) == charged
        with pytest.raises(SignatureInvalid):
            verify_event(payload, header, ANOTHER)
    await runner.cleanup()


@pytest.mark.parametrize(
    ("about", "charge_id", "reference"),
    [
        (intent(id="pi_7", metadata={"charge_id": "chg_1"}), "chg_1", "pi_7"),
        (intent(id="pi_7"), None, "pi_7"),
        ({"object": "charge", "id": "ch_1", "payment_intent": "pi_7", "metadata": {"charge_id": "c"}}, "c", "pi_7"),
        ({"object": "checkout.session", "payment_intent": "pi_7", "metadata": {"charge_id": "c"}}, "c", "pi_7"),
        ({"object": "checkout.session", "payment_intent": None, "metadata": {"charge_id": "c"}}, "c", None),
        ({"object": "refund", "id": "re_1", "payment_intent": "pi_7", "metadata": {"refund_id": "r"}}, None, "pi_7"),
        ({"object": "dispute", "id": "dp_1", "payment_intent": None, "metadata": None}, None, None),
        ({"object": "charge", "payment_intent": {"id": "pi_7"}, "metadata": {"charge_id": 7}}, None, None),
        ({"object": "customer", "id": "cus_1"}, None, None),
        ("nothing", None, None),
    ],
)
def test_the_charge_of_an_event_is_found_in_its_metadata(
    about: Any, charge_id: str | None, reference: str | None
) -> None:
    payload = event(about, "some.thing")
    found = verify_event(payload, signed(payload), SECRET)
    assert found == StripeEvent("evt_1", "some.thing", charge_id, reference, Mode.TEST)


def test_one_valid_signature_of_several_is_enough() -> None:
    old, new = signed(PAID, 0, ANOTHER), signed(PAID)
    assert verify_event(PAID, f"{old},{new.partition(',')[2]}", SECRET).charge_id == "chg_1"


def test_an_event_is_accepted_for_five_minutes() -> None:
    assert TOLERANCE_S == 300
    assert verify_event(PAID, signed(PAID, age_s=290), SECRET).id == "evt_1"
    with pytest.raises(SignatureInvalid):
        verify_event(PAID, signed(PAID, age_s=302), SECRET)


# Created when needed: old signatures are refused.
NOT_SIGNED: dict[str, Callable[[], tuple[bytes, str]]] = {
    "nothing": lambda: (PAID, ""),
    "another secret": lambda: (PAID, signed(PAID, 0, ANOTHER)),
    "another body": lambda: (PAID.replace(b"1999", b"1998"), signed(PAID)),
    "a space more": lambda: (PAID + b" ", signed(PAID)),
    "no signature": lambda: (PAID, f"t={int(time.time())}"),
    "an empty signature": lambda: (PAID, f"t={int(time.time())},v1="),
    "another scheme": lambda: (PAID, signed(PAID).replace("v1=", "v0=")),
    "no time": lambda: (PAID, signed(PAID).partition(",")[2]),
    "another time": lambda: (PAID, signed(PAID).replace("t=", "t=1")),
    "letters": lambda: (PAID, f"t={int(time.time())},v1=ünïcödé"),
    "noise": lambda: (PAID, "=,=,=;t=t"),
    "bytes that are no text": lambda: (b"\xff\xfe", signed(PAID)),
}


@pytest.mark.parametrize("what", NOT_SIGNED)
def test_an_event_with_an_invalid_signature_is_refused(what: str) -> None:
    payload, header = NOT_SIGNED[what]()
    with pytest.raises(SignatureInvalid, match="not signed with the secret") as refused:
        verify_event(payload, header, SECRET)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("secret", ["", "  "])
def test_without_a_secret_every_event_is_refused(secret: str) -> None:
    with pytest.raises(SignatureInvalid):
        verify_event(PAID, signed(PAID, secret=secret), secret)


@pytest.mark.parametrize("payload", [b"", b"{}", b"[]", b"null", b'{"id": 7, "type": "x", "data": {}}', b"{"])
def test_a_signed_body_that_is_not_an_event_is_refused(payload: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        verify_event(payload, signed(payload), SECRET)
