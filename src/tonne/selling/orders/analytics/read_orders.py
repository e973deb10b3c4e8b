"""Sums of orders, grouped as a client asks."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import Scope, replace
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.orders.analytics import errors, store
from tonne.selling.orders.analytics.aggregate import NOT_ALLOCATED, bundle_name, project_name
from tonne.selling.orders.analytics.model import Accounts, DayRange, Grouping, Interval
from tonne.selling.orders.analytics.schemas import OrderRowOut
from tonne.selling.orders.analytics.store import BundleSums, OrderSums
from tonne.selling.orders.totals.metadata_totals import list_keys

MAX_ROWS = 5_000
_METADATA = re.compile(r"metadata\[(.+)\]", re.DOTALL)


class OrderAnalysis(Struct, frozen=True):
    """`key` is the metadata key that is grouped by (`by_value`) or filtered on (`value`)."""

    grouping: Grouping
    key: str | None = None
    by_value: bool = False
    value: str | None = None


def query_of(group_by: Sequence[str], filters: dict[str, str]) -> OrderAnalysis:
    """Raises GroupingInvalid for words that are unknown, repeated, or cannot be combined."""
    names = [name for name in group_by if not _METADATA.fullmatch(name)]
    keys = [found[1] for found in map(_METADATA.fullmatch, group_by) if found]
    if len(set(group_by)) < len(group_by) or set(names) - {"month", "account", "bundle", "project"}:
        raise errors.GroupingInvalid(field="group_by")
    grouping = Grouping(
        interval=Interval.MONTH if "month" in names else None,
        by_account="account" in names,
        by_bundle="bundle" in names,
        by_project="project" in names,
    )
    if len({*keys, *filters}) > 1 or ((keys or filters) and (grouping.by_bundle or grouping.by_project)):
        raise errors.GroupingInvalid(field="group_by")
    key, value = next(iter(filters.items()), (next(iter(keys), None), None))
    return OrderAnalysis(grouping, key, bool(keys), value)


async def read_orders(
    connection: Connection, scope: Scope, accounts: Accounts, period: DayRange, query: OrderAnalysis
) -> list[OrderSums] | list[BundleSums]:
    grouping, limit = query.grouping, MAX_ROWS + 1
    found: list[OrderSums] | list[BundleSums]
    if query.key is not None:
        await _require_ready(connection, scope, query.key)
        found = await store.sum_metadata(
            connection,
            scope,
            accounts,
            period,
            grouping,
            key=query.key,
            value=query.value,
            by_value=query.by_value,
            limit=limit,
        )
        if query.by_value and query.value is None:
            every = await store.sum_orders(connection, scope, accounts, period, grouping, limit=limit)
            found = with_rest(found, every)
    elif grouping.by_bundle or grouping.by_project:
        found = await store.sum_bundles(connection, scope, accounts, period, grouping, limit=limit)
    else:
        found = await store.sum_orders(connection, scope, accounts, period, grouping, limit=limit)
    if len(found) > MAX_ROWS:
        raise errors.TooManyGroups
    return found


async def _require_ready(connection: Connection, scope: Scope, key: str) -> None:
    named = {each.key: each for each in await list_keys(connection, scope)}
    if key not in named:
        raise errors.MetadataKeyUnknown(
            f"The account has not named the metadata key {key[:100]!r}. It has named: "
            f"{', '.join(named) or 'none'}. Name it with PUT /v1/analytics/metadata-keys."
        )
    if not named[key].is_complete:
        raise errors.MetadataKeyNotReady


def with_rest(by_value: Sequence[OrderSums], every: Sequence[OrderSums]) -> list[OrderSums]:
    """The groups by value, and after those of a month and account the orders without a value."""
    rest = {(each.start, each.account_id, each.currency): each for each in every}
    for each in by_value:
        place = (each.start, each.account_id, each.currency)
        left = rest[place]
        rest[place] = replace(
            left,
            orders=left.orders - each.orders,
            grams=left.grams - each.grams,
            offset_cost_minor=left.offset_cost_minor - each.offset_cost_minor,
            cost_minor=left.cost_minor - each.cost_minor,
            tax_minor=left.tax_minor - each.tax_minor,
            refunded_minor=left.refunded_minor - each.refunded_minor,
        )
    found = [*by_value, *(each for each in rest.values() if each.orders)]
    return sorted(
        found, key=lambda each: (str(each.start), each.account_id or "", each.value is None, each.value or "")
    )


def order_row(sums: OrderSums | BundleSums, grouping: Grouping, catalogue: Catalogue) -> OrderRowOut:
    if isinstance(sums, OrderSums):
        return _row_of_orders(sums)
    bundle_id, project_id = sums.bundle_id, sums.project_id
    name = NOT_ALLOCATED if project_id == "" else None if project_id is None else project_name(catalogue, project_id)
    return OrderRowOut(
        month=_month(sums),
        account_id=sums.account_id,
        bundle_id=bundle_id,
        bundle_name=None if bundle_id is None else bundle_name(catalogue, bundle_id),
        project_id=project_id or None,
        project_name=name,
        metadata_value=None,
        currency=sums.currency,
        orders=_orders(sums, grouping),
        quantity=format_tonnes(sums.grams),
        offset_cost=format_money(sums.offset_cost_minor, sums.currency),
        commission=None,
        total_cost=None,
        tax=None,
        refunded=None,
    )


def _row_of_orders(sums: OrderSums) -> OrderRowOut:
    currency = sums.currency
    return OrderRowOut(
        month=_month(sums),
        account_id=sums.account_id,
        bundle_id=None,
        bundle_name=None,
        project_id=None,
        project_name=None,
        metadata_value=sums.value,
        currency=currency,
        orders=sums.orders,
        quantity=format_tonnes(sums.grams),
        offset_cost=format_money(sums.offset_cost_minor, currency),
        commission=format_money(sums.cost_minor - sums.offset_cost_minor, currency),
        total_cost=format_money(sums.cost_minor, currency),
        tax=format_money(sums.tax_minor, currency),
        refunded=format_money(sums.refunded_minor, currency),
    )


def _month(sums: OrderSums | BundleSums) -> str | None:
    return None if sums.start is None else f"{sums.start:%Y-%m}"


def _orders(sums: BundleSums, grouping: Grouping) -> int:
    if grouping.by_bundle and grouping.by_project:
        return sums.parts
    return sums.bundle_orders if grouping.by_bundle else sums.project_orders
