"""The worker jobs that send money back."""

from collections.abc import Mapping

from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.model import RetrySchedule
from tonne.money.refunds.disputes.check_payments import CheckPayments, PollGateways
from tonne.money.refunds.make_refunds import MakeRefunds
from tonne.platform.db.database import Database
from tonne.platform.values.context import Clock


class RefundJobs:
    """Charges are compared with the gateway first: that plans the refunds of payments that no order needs."""

    def __init__(
        self, database: Database, gateways: Mapping[str, CardGateway], clock: Clock, schedule: RetrySchedule
    ) -> None:
        self.make = MakeRefunds(database, clock, gateways, schedule)
        self.checks = CheckPayments(database, clock, gateways, schedule)
        self.polls = PollGateways(database, clock, gateways)

    async def run_once(self) -> bool:
        checked = await self.checks.run_once()
        return await self.make.run_once() or checked
