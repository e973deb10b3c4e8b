"""The worker jobs that send money back."""

from collections.abc import Awaitable, Callable, Mapping

from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.model import RetrySchedule
from tonne.money.refunds.bank_refunds import SettleBankRefunds
from tonne.money.refunds.disputes.check_payments import CheckPayments, PollGateways
from tonne.money.refunds.make_refunds import MakeRefunds
from tonne.platform.db.database import Database
from tonne.platform.values.context import Clock

# Refunds are not urgent: the jobs do not look for work on every notification.
EVERY_S = 2


def refund_jobs(
    database: Database, gateways: Mapping[str, CardGateway], clock: Clock, schedule: RetrySchedule
) -> dict[str, Callable[[], Awaitable[bool]]]:
    """By name, in the order in which they follow from each other."""
    return {
        "poll_gateways": PollGateways(database, clock, gateways).run_once,
        "check_payments": CheckPayments(database, clock, gateways, schedule).run_once,
        "make_refunds": MakeRefunds(database, clock, gateways, schedule).run_once,
        "settle_bank_refunds": SettleBankRefunds(database, clock).run_once,
    }
