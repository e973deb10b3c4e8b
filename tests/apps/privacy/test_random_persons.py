"""Random customers, corrections, refunds and erasures: nobody who was erased is named, and no sum changes."""

import os
import random

import pytest

from tests.apps.privacy.everywhere import ISSUED, columns_with, read_sums
from tests.apps.privacy.scene import Persons
from tests.support.world import TESTER
from tonne.apps.privacy.model import PersonInUse
from tonne.money.refunds.request_refund import RefundRequest, request_refund
from tonne.selling.orders.scope_store import find_scope_any_account

CHUNKS, STEPS = 2, 12
NAMES = ("Ada Keller", "Zoë Köhler", "Jon O'Hara", "山田 花子", "Al Ng", "Ann-Marie d'Arc")


class Customers:
    """Each has an address and a name of their own."""

    def __init__(self, persons: Persons, rng: random.Random) -> None:
        self.persons = persons
        self.rng = rng
        self.people = [(f"customer{number}+x@example.com", name) for number, name in enumerate(NAMES)]

    async def buy(self) -> None:
        email, name = self.rng.choice(self.people)
        spelt = email.upper() if self.rng.random() < 0.3 else email
        await self.persons.buys(spelt, name, public=self.rng.random() < 0.3)

    async def order_by_api(self) -> None:
        email, name = self.rng.choice(self.people)
        beneficiary = {"name": name, "kind": "person"} if self.rng.random() < 0.7 else {"name": "Keller GmbH"}
        await self.persons.api.order(
            beneficiary=beneficiary, metadata={"customer": {"mail": f"<{email}>", "note": f"for {name}."}}
        )
        await self.persons.work()

    async def rename(self) -> None:
        order_id = await self.persons.fetchval(
            "SELECT id FROM orders WHERE status = 'complete' AND beneficiary_kind = 'person' "
            "AND beneficiary <> 'erased' ORDER BY random() LIMIT 1"
        )
        if order_id is not None:
            name = self.rng.choice((self.rng.choice(self.people)[1], "Keller GmbH"))
            kind = "organisation" if name == "Keller GmbH" else "person"
            answer = await self.persons.api.http.put(
                f"/v1/orders/{order_id}/beneficiary",
                json={"name": name, "kind": kind, "reason": "Misspelt."},
                headers=self.persons.api._headers({}),
            )
            assert answer.status_code == 200, answer.text
            await self.persons.work()

    async def refund(self) -> None:
        order_id = await self.persons.fetchval(
            "SELECT id FROM orders WHERE offset_link_id IS NOT NULL AND payment_state = 'paid' "
            "ORDER BY random() LIMIT 1"
        )
        if order_id is None:
            return
        async with self.persons.database.transaction() as tx:
            scope = await find_scope_any_account(tx, order_id)
            assert scope is not None
            asked = RefundRequest(amount_minor=1, reason="A gesture")
            await request_refund(tx, scope, order_id, asked, settings=self.persons.settings, by=TESTER.now())
        for job in self.persons.services.refund_jobs.values():
            await job()
        await self.persons.work()

    async def erase(self) -> None:
        email, name = self.rng.choice(self.people)
        who = self.rng.choice((email, name))
        sums = await read_sums(self.persons.database)
        try:
            await self.persons.erase(who)
        except PersonInUse:
            return
        assert await read_sums(self.persons.database) == sums
        assert await columns_with(self.persons.database, who) <= ISSUED
        await self.persons.check_invariants()

    async def step(self) -> None:
        steps = (self.buy, self.buy, self.order_by_api, self.rename, self.refund, self.erase, self.erase)
        await self.rng.choice(steps)()


@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_whoever_is_erased_is_named_nowhere(persons: Persons, chunk: int) -> None:
    seed = int(os.environ.get("PERSONS_SEED") or random.SystemRandom().getrandbits(32))
    print(f"PERSONS_SEED={seed} chunk={chunk}")  # noqa: T201 - shown when the test fails
    customers = Customers(persons, random.Random(seed))  # noqa: S311 - repeatable on purpose
    for _ in range(STEPS):
        await customers.step()
    await persons.work()
    for email, name in customers.people:
        for who in (email, name):
            await persons.erase(who)
    values = [value for person in customers.people for value in person]
    assert await columns_with(persons.database, *values) <= ISSUED
    await persons.check_invariants()
