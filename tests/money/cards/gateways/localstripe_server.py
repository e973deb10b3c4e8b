"""localstripe in a separate process on a loopback port, with additions that our gateway needs.

localstripe stores customers, cards, payment intents and refunds, and decides the result of a charge. This module adds
what Stripe documents and localstripe lacks:

- idempotency keys: one execution per key, stored responses, errors for another body and for concurrent requests;
- `description` and `allowed_payment_method_types` of a payment intent, which it refuses;
- the list of payment intents by customer, newest first;
- the error object: its type, the bank's `decline_code` (taken from the metadata of the payment method), the payment
  intent, and the code `resource_missing`;
- refunds above the remaining amount fail, and the list of refunds can be filtered by their time;
- disputes: `tests/support/stripe_disputes.py`;
- `livemode`: true for objects that are read with a live key.

`fake_stripe.py` provides time-outs, broken connections and overload.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.stripe_disputes import DisputeBook

ROOT = Path(__file__).parents[4]
READY_WITHIN_S = 20.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextmanager
def localstripe() -> Iterator[str]:
    """The URL of the server. It exits when its standard input closes, so it never outlives a test run."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.money.cards.gateways.localstripe_server"],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # The process prints its port once it listens; if it fails, it closes its output.
        port = process.stdout.readline().strip()
        assert port, "localstripe did not start"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        try:
            process.wait(READY_WITHIN_S)
        finally:
            process.kill()
            process.stdout.close()


# Idempotency keys with the body of the first request, and the response once there is one.
_kept: dict[str, tuple[bytes, web.Response | None]] = {}


@web.middleware
async def _idempotency(request: web.Request, handler: Handler) -> web.StreamResponse:
    key = request.headers.get("Idempotency-Key")
    if request.method != "POST" or key is None:
        return await handler(request)
    body = await request.read()
    first, answer = _kept.setdefault(key, (body, None))
    if first != body:
        return _fault(
            400, type="idempotency_error", message="Keys can only be used with the parameters of the first time."
        )
    if answer is not None:
        return _copy(answer)
    if (key, body) in _under_way:
        return _fault(
            409, type="invalid_request_error", code="idempotency_key_in_use", message="Another one is running."
        )
    _under_way.add((key, body))
    try:
        # A delay, so that concurrent requests overlap as they do at Stripe.
        await asyncio.sleep(0.005)
        made = await handler(request)
    finally:
        _under_way.discard((key, body))
    assert isinstance(made, web.Response)
    if made.status in {400, 404}:
        del _kept[key]
    else:
        _kept[key] = (body, _copy(made))
    return made


_under_way: set[tuple[str, bytes]] = set()


def _copy(answer: web.Response) -> web.Response:
    return web.Response(body=answer.body, status=answer.status, content_type="application/json")


def _fault(status: int, **error: str) -> web.Response:
    return web.json_response({"error": error}, status=status)


def _fill_gaps(resources: Any, fault: Any) -> None:
    """Patch the classes of localstripe in this process. `fault` is the exception that becomes an error response."""
    intents, refunds = resources.PaymentIntent, resources.Refund
    create, list_all, refund = (
        intents._api_create.__func__,
        resources.StripeObject._api_list_all.__func__,
        refunds.__init__,
    )

    def create_intent(cls: Any, /, **fields: Any) -> Any:
        for unknown in ("description", "allowed_payment_method_types"):
            fields.pop(unknown, None)
        try:
            return create(cls, **fields)
        except fault as error:
            if error.code == 404:
                error.code = 400
                error.body["error"].update(code="resource_missing", param="payment_method")
            elif error.code == 402:
                made = [value for key, value in resources.store.items() if key.startswith("payment_intent:")][-1]
                details = {**made.last_payment_error, "type": "card_error", "payment_intent": made._export()}
                error.body["error"].update(details)
            raise

    def list_intents(cls: Any, /, url: str, customer: str | None = None, **fields: Any) -> Any:
        found = list_all(cls, url, **fields)
        found._list = [intent for intent in reversed(found._list) if customer in {None, intent.customer}]
        return found

    plain = intents.last_payment_error

    def last_payment_error(intent: Any) -> Any:
        error = plain.fget(intent)
        method = resources.store.get(f"payment_method:{intent.payment_method}")
        if error is None or method is None:
            return error
        return {**error, "type": "card_error", **method.metadata}

    def make_refund(self: Any, payment_intent: str | None = None, amount: Any = None, **fields: Any) -> None:
        intent = resources.store.get(f"payment_intent:{payment_intent}")
        if intent is not None and intent.latest_charge is not None and amount is not None:
            charge = intent.latest_charge
            made = [each for key, each in resources.store.items() if key.startswith("refund:")]
            gone = sum(each.amount for each in made if each.charge == charge.id and each.status != "failed")
            if int(amount) > charge.amount - gone:
                raise fault(400, "Refund amount is greater than what is left of the charge.", {"param": "amount"})
        refund(self, payment_intent=payment_intent, amount=amount, **fields)

    intents._api_create = classmethod(create_intent)
    intents._api_list_all = classmethod(list_intents)
    intents.last_payment_error = property(last_payment_error)
    refunds.__init__ = make_refund
    # localstripe would save its state to a file shared by all processes.
    resources.Store.dump_to_disk = lambda _: None


def _filter_refunds(refunds: Any) -> None:
    """Let refunds be listed by their time."""
    list_refunds_plainly = refunds._api_list_all.__func__

    def list_refunds(cls: Any, /, url: str, created: Any = None, **fields: Any) -> Any:
        found = list_refunds_plainly(cls, url, **fields)
        if created is not None:
            found._list = [each for each in found._list if each.created >= int(created["gte"])]
        return found

    refunds._api_list_all = classmethod(list_refunds)


@web.middleware
async def _codes(request: web.Request, handler: Handler) -> web.StreamResponse:
    answer = await handler(request)
    if answer.status == 404 and request.path.startswith("/v1/"):
        return _fault(404, type="invalid_request_error", code="resource_missing", message="No such thing.")
    return answer


@web.middleware
async def _livemode(request: web.Request, handler: Handler) -> web.StreamResponse:
    answer = await handler(request)
    if isinstance(answer, web.Response) and "k_live_" in request.headers.get("Authorization", ""):
        answer.text = (answer.text or "").replace('"livemode": false', '"livemode": true')
    return answer


async def _serve() -> None:
    # Imported here because it starts logging on import.
    from localstripe import errors, resources, server  # type: ignore[import-untyped]  # noqa: PLC0415

    _fill_gaps(resources, errors.UserError)
    _filter_refunds(resources.Refund)

    def change_refund(refund_id: str, status: str) -> None:
        resources.store[f"refund:{refund_id}"].status = status

    DisputeBook(change_refund).add_routes(server.app.router)
    server.app.middlewares[:0] = [_livemode, _idempotency, _codes]
    runner = web.AppRunner(server.app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve())
