"""What client accounts have ordered and estimated. Wiring hands over the readers of the packages that know it."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope


class EstimateActivity(Struct, frozen=True):
    last_day: date
    estimates: int
    emission_grams: int


class ActivityReaders(Struct, frozen=True):
    """Each takes an organisation and a mode, and returns what it knows by account id."""

    last_order_days: Callable[[Connection, Scope, Sequence[str]], Awaitable[dict[str, date]]]
    estimates: Callable[[Connection, Scope, Sequence[str]], Awaitable[dict[str, EstimateActivity]]]


class AccountActivity(Struct, frozen=True):
    last_active: date | None = None
    estimates: int = 0
    emission_grams: int = 0


async def find_activity(
    connection: Connection, readers: ActivityReaders, scope: Scope, account_ids: Sequence[str]
) -> dict[str, AccountActivity]:
    """By account id. Accounts that did nothing are missing."""
    days = await readers.last_order_days(connection, scope, account_ids)
    estimated = await readers.estimates(connection, scope, account_ids)
    return {id_: _activity(days.get(id_), estimated.get(id_)) for id_ in {**days, **estimated}}


def _activity(ordered: date | None, estimated: EstimateActivity | None) -> AccountActivity:
    if estimated is None:
        return AccountActivity(ordered)
    last_active = estimated.last_day if ordered is None else max(ordered, estimated.last_day)
    return AccountActivity(last_active, estimated.estimates, estimated.emission_grams)
