"""Random requests, outages and restarts against the plain model of the interface in `model.py`."""

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.conformance.model import Account, Order
from tests.conformance.own_installation import RunningInstallation
from tests.support.rounds import ROUNDS
from tonne_conformance.installation import Answer, Service
from tonne_conformance.receiver import Inbox, Receiver, Reply, is_acknowledged, order_of
from tonne_conformance.sections.signatures import is_signed_with

# The first life of a run is always the simplest one.
LIVES, STEPS = (3 if ROUNDS == 1 else 4 * ROUNDS), (30 if ROUNDS == 1 else 50)
PATHS = {"pay": "test-helpers/orders/{}/settle-invoice", "complete": "test-helpers/orders/{}/complete"}
CANCEL = "orders/{}/cancel"
OUTAGES = [
    Reply(500),
    Reply(503),
    Reply(410),
    Reply(302, headers=(("Location", "https://127.0.0.1:1/"),)),
    Reply(close=True),
]
TONNES = st.sampled_from(["0.5", "1", "1.234567", "12"])
# The API refuses a NUL character and a lone surrogate.
_LETTERS = st.characters(exclude_characters="\x00", exclude_categories=["Cs"])
METADATA = st.dictionaries(
    st.text('aä"🌍', max_size=3),
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(_LETTERS, max_size=3),
    max_size=2,
)
# After a kill, another worker delivers only when the lease of the killed one has expired. The short run does not wait.
KILLS = ROUNDS > 1
WITHIN_S = 180.0
_numbers = itertools.count()


@pytest.fixture(scope="module")
def receiver(impatient: RunningInstallation) -> Iterator[Receiver]:
    address = impatient.options.receiver
    with Receiver(address.listen, address.base_url, impatient.certificate).listening() as receiver:
        yield receiver


class Life(RuleBasedStateMachine):
    """Two client accounts of their own, whose orders move only when a rule moves them, and one webhook for both."""

    orders = Bundle("orders")

    def __init__(self, own: RunningInstallation, receiver: Receiver) -> None:
        super().__init__()
        self.own = own
        self.service = Service(own.options.url, own.options.key)
        self.inbox: Inbox = receiver.inbox(f"life-{next(_numbers)}")
        self.accounts: dict[str, Account] = {}
        self.has_restarted = False

    @initialize(target=orders, is_scoped=st.booleans())
    def begin(self, is_scoped: bool) -> MultipleResults[tuple[str, Order]]:
        for name in ("first", "second"):
            body = {"name": f"Model {name} {secrets.token_hex(4)}", "currency": "EUR"}
            account_id = str(self.service.post("/accounts/client", body).object()["id"])
            self.own.run("account", "update", account_id, "--wait")
            self.accounts[account_id] = Account()
        scope = {"account_ids": list(self.accounts)} if is_scoped else {}
        hook = self.service.register({"url": self.inbox.url, **scope}).object()
        self.inbox.secret = str(hook["secret"])
        return multiple(*(self._new_order(which, "1", {"which": which}) for which in (0, 1)))

    @rule(target=orders, which=st.integers(0, 1), tonnes=TONNES, metadata=METADATA)
    def place(self, which: int, tonnes: str, metadata: dict[str, Any]) -> tuple[str, Order]:
        return self._new_order(which, tonnes, metadata)

    @rule(placed=orders)
    def retry(self, placed: tuple[str, Order]) -> None:
        self._check_placed(*placed, self._place(*placed))

    @rule(placed=orders)
    def read(self, placed: tuple[str, Order]) -> None:
        account_id, order = placed
        for path in (f"/orders/by-idempotency-key/{order.idempotency_key}", f"/orders/{order.agreed['id']}"):
            shown = self.service.get(path, headers=self.service.acting_as(account_id)).object()
            self.accounts[account_id].check_order(order, shown)
        other = next(each for each in self.accounts if each != account_id)
        assert self.service.find(order.idempotency_key, other).status == 404

    @rule(which=st.integers(0, 1), limit=st.sampled_from([1, 2, 3, 100]))
    def list_all(self, which: int, limit: int) -> None:
        account_id = list(self.accounts)[which]
        pages: list[dict[str, Any]] = []
        cursor: str | None = None
        while cursor or not pages:
            asked = {"limit": str(limit)} | ({"after": cursor} if cursor else {})
            pages.append(self.service.get("/orders", asked, headers=self.service.acting_as(account_id)).object())
            cursor = pages[-1]["next_cursor"]
        self.accounts[account_id].check_pages(pages, limit)

    @rule(placed=orders)
    def pay(self, placed: tuple[str, Order]) -> None:
        self._move(*placed, "pay")

    @rule(placed=orders)
    def complete(self, placed: tuple[str, Order]) -> None:
        self._move(*placed, "complete")

    @rule(placed=orders)
    def cancel(self, placed: tuple[str, Order]) -> None:
        self._move(*placed, "cancel")

    @rule(outage=st.sampled_from(OUTAGES))
    def stop_receiving(self, outage: Reply) -> None:
        self.inbox.rule = lambda _: outage

    @rule()
    def receive_again(self) -> None:
        self.inbox.rule = lambda _: Reply()

    @precondition(lambda self: not self.has_restarted)
    @rule(target=orders, which=st.integers(0, 1), after_s=st.sampled_from([0.0, 0.002, 0.01]))
    def restart_while_placing(self, which: int, after_s: float) -> tuple[str, Order]:
        """The response is lost, so the client repeats its request. Whatever happened, there is one order."""
        self.has_restarted = True
        account_id, asked = self._asked(which, "1", {})

        def request() -> None:
            with contextlib.suppress(httpx.HTTPError):
                self._place(account_id, asked)

        thread = threading.Thread(target=request)
        thread.start()
        time.sleep(after_s)
        self.own.restart(kill=KILLS)
        thread.join()
        self._check_placed(account_id, asked, self._place(account_id, asked))
        return account_id, asked

    def teardown(self) -> None:
        """At the end every order is repeated, read and listed. Once the receiver is back, every event arrives."""
        try:
            if len(self.accounts) > 1:
                self._look_at_everything()
                self.receive_again()
                deadline = time.monotonic() + WITHIN_S
                while not self._have_all_arrived():
                    assert time.monotonic() < deadline, f"events are missing after {WITHIN_S:.0f} s"
                    time.sleep(0.02)
        finally:
            self.service.delete_webhooks()
            self.service.close()

    def _look_at_everything(self) -> None:
        for which, (account_id, account) in enumerate(self.accounts.items()):
            for order in list(account.orders):
                self.retry((account_id, order))
                self.read((account_id, order))
            self.list_all(which, 2)

    def _new_order(self, which: int, tonnes: str, metadata: dict[str, Any]) -> tuple[str, Order]:
        account_id, asked = self._asked(which, tonnes, metadata)
        self._check_placed(account_id, asked, self._place(account_id, asked))
        return account_id, asked

    def _asked(self, which: int, tonnes: str, metadata: dict[str, Any]) -> tuple[str, Order]:
        account_id = list(self.accounts)[which]
        estimate_id = self.service.estimate(tonnes, "t", account_id)
        return account_id, Order(f"model-{secrets.token_hex(8)}", tonnes, metadata, estimate_id)

    def _place(self, account_id: str, asked: Order) -> Answer:
        body = {"estimate_id": asked.estimate_id, "idempotency_key": asked.idempotency_key, "metadata": asked.metadata}
        return self.service.post("/orders/by-estimate", body, headers=self.service.acting_as(account_id))

    def _check_placed(self, account_id: str, asked: Order, answer: Answer) -> None:
        account = self.accounts[account_id]
        account.check_order(account.place(asked), answer.object())

    def _move(self, account_id: str, order: Order, action: str) -> None:
        path = PATHS.get(action, CANCEL).format(order.agreed["id"])
        answer = self.service.post(f"/{path}", headers=self.service.acting_as(account_id))
        if self.accounts[account_id].move(order, action):
            self.accounts[account_id].check_order(order, answer.object())
        else:
            assert answer.status == 409, answer.shown

    def _have_all_arrived(self) -> bool:
        deliveries = self.inbox.deliveries
        assert all(is_signed_with(self.inbox.secret, self.service, each) for each in deliveries)
        arrived = [event for each in deliveries for event in each.events]
        acknowledged = {event["event_id"] for each in deliveries if is_acknowledged(each) for event in each.events}
        complete = [
            account.check_arrived(event for event in arrived if event["account_id"] == account_id)
            for account_id, account in self.accounts.items()
        ]
        assert all(order_of(event) for event in arrived)
        return all(complete) and {event["event_id"] for event in arrived} == acknowledged


def test_random_lives_agree_with_the_model(impatient: RunningInstallation, receiver: Receiver) -> None:
    settings = hypothesis.settings(
        max_examples=LIVES,
        stateful_step_count=STEPS,
        # Finding a shorter example would restart the service again and again.
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    run_state_machine_as_test(lambda: Life(impatient, receiver), settings=settings)  # type: ignore[arg-type] # any factory
