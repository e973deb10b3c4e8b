"""Checks for what needs the operator, each as a query that returns the objects."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from tonne.platform.settings.settings import Settings


def at_this_time(_: Settings, now: datetime) -> Sequence[object]:
    """The parameters of a check that needs only the current time."""
    return (now,)


def no_parameters(_settings: Settings, _now: datetime) -> Sequence[object]:
    """The parameters of a check that compares with the time of the database, or with none."""
    return ()


class Topic(StrEnum):
    """What a check is about: the operator's page groups them. Checks of the service concern both modes."""

    SERVICE = "service"
    ORDERS = "orders"
    PAYMENTS = "payments"
    INVOICES = "invoices"
    BANK = "bank"
    REFUNDS = "refunds"
    RETIREMENTS = "retirements"
    SUPPLY = "supply"
    RATES = "rates"
    WEBHOOKS = "webhooks"
    MAILS = "mails"


class WaitingCheck(Struct, frozen=True):
    """Work that waits too long, or a setting that is missing. The data is correct, so this is a warning.

    `sql` returns one row per object, with a column `where` that names it, oldest first; `parameters` returns the values
    of its parameters. `meaning` says what is wrong, `remedy` names the command or the setting that deals with it.
    `patience` is how much earlier the operator's page shows the objects than the doctor warns.
    """

    name: str
    meaning: str
    remedy: str
    sql: str
    parameters: Callable[[Settings, datetime], Sequence[object]] = at_this_time
    topic: Topic = Topic.SERVICE
    patience: timedelta = timedelta(0)
