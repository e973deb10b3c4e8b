"""The worker jobs that charge cards for invoices."""

from collections.abc import Awaitable, Callable, Mapping

from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.model import RetrySchedule
from tonne.money.invoices.card_payment.settle_card_invoice import ChargeInvoices
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode


def invoice_charge_jobs(
    database: Database,
    gateways: Mapping[str, CardGateway],
    clock: Clock,
    settings: Settings,
) -> dict[str, Callable[[], Awaitable[bool]]]:
    """By name, one for each mode."""

    def job(mode: Mode) -> Callable[[], Awaitable[bool]]:
        return ChargeInvoices(database, clock, settings, gateways, mode, RetrySchedule(settings)).run_once

    return {
        "charge_live_invoices": job(Mode.LIVE),
        "charge_test_invoices": job(Mode.TEST),
    }
