"""Paid orders whose money goes back."""

from typing import Any

import asyncpg
import msgspec

from tests.money.cards.card_scene import GOOD, CardScene
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.refunds.disputes.check_payments import simulate_dispute
from tonne.money.refunds.model import Refund
from tonne.money.refunds.request_refund import Cancellation, RefundRequest, cancel_by_id, request_refund
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind
from tonne.selling.orders.model import Order
from tonne.supply.registries.retire_units import RetireUnits
from tonne.supply.registries.simulated import simulated_registries
from tonne.supply.retirements.allocate_orders import AllocateOrders

ADA, BEN = Actor(ActorKind.CLI, "ada@office"), Actor(ActorKind.CLI, "ben@office")


class RefundScene(CardScene):
    async def paid(self, number: str = GOOD) -> Order:
        order = await self.order(number)
        await self.run_jobs(self.worker)
        assert await self.status(order) == "paid"
        return order

    async def allocate(self) -> None:
        """The simulated registry retires the credits of test orders, so that they complete."""
        gateways = simulated_registries(self.database, self.clock)
        retire = RetireUnits(self.database, self.clock, self.settings, gateways)
        await self.run_jobs(AllocateOrders(self.database, self.clock, self.settings), retire)

    async def refund(
        self, order: Order, amount: int | None = None, *, actor: Actor = ADA, settings: Settings | None = None
    ) -> Refund:
        async with self.database.transaction() as tx:
            return await request_refund(
                tx,
                order.scope,
                order.id,
                RefundRequest(amount_minor=amount, reason="A gesture"),
                settings=settings or self.settings,
                by=actor.at(self.clock()),
            )

    async def cancel_with_refund(self, order: Order, settings: Settings | None = None) -> Order:
        async with self.database.transaction() as tx:
            cancellation = Cancellation(reason="No supply", with_refund=True)
            return await cancel_by_id(
                tx,
                order.scope,
                order.id,
                cancellation,
                settings=settings or self.settings,
                by=ADA.at(self.clock()),
            )

    async def dispute(self, order: Order, state: DisputeState) -> None:
        await simulate_dispute(self.database, order.scope, order.id, state, self.clock())

    async def dispute_at_gateway(self, order: Order, state: DisputeState) -> None:
        """Without a word to us."""
        [charge] = await self.charges(order)
        assert await SimulatedCardGateway(self.database).dispute(charge["reference"], state, self.clock())

    async def refund_at_gateway(self, order: Order, amount: int, name: str = "re_dashboard") -> None:
        [charge] = await self.charges(order)
        await self.gateway.inner.refund(name, charge["reference"], amount, charge["currency"])

    async def send(self) -> None:
        """Run the jobs that send money back until they are idle."""
        await self.run_jobs(self.refunds)

    async def states(self, order: Order) -> list[tuple[str, int]]:
        rows = await self.fetch("SELECT state, amount_minor FROM refunds WHERE order_id = $1 ORDER BY id", order.id)
        return [(row["state"], row["amount_minor"]) for row in rows]

    async def money(self, order: Order) -> tuple[str, str, int]:
        """Status, payment state and refunded amount, which the order's JSON must show as well."""
        [row] = await self.fetch(
            """
            SELECT status, payment_state, refunded_minor, convert_from(wire_document, 'UTF8')::json AS shown
            FROM orders WHERE id = $1
            """,
            order.id,
        )
        shown = await self.shown(order)
        assert (shown["status"], shown["payment_state"]) == (row["status"], row["payment_state"])
        assert shown["refunded_amount"].replace(".", "").lstrip("0") == str(row["refunded_minor"] or "")
        return row["status"], row["payment_state"], row["refunded_minor"]

    async def shown(self, order: Order) -> dict[str, Any]:
        document = await self.fetchval("SELECT wire_document FROM orders WHERE id = $1", order.id)

        found: dict[str, Any] = msgspec.json.decode(document)
        return found

    async def audited(self, action: str) -> list[asyncpg.Record]:
        return await self.fetch("SELECT actor, subject_id FROM audit_log WHERE action = $1 ORDER BY id", action)
