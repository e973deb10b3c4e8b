"""Events of allocations: a project supplies an order (`allocation.new`), and its credits are retired."""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from tonne.platform.db.database import Connection, columns
from tonne.platform.events.notification import Stream
from tonne.platform.events.optional_events import OptionalEvent, find_recording, record_optional
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Timestamp, to_wire
from tonne.selling.orders.model import Order, ProjectStatus
from tonne.selling.orders.schemas import OrderId

NEW = "allocation.new"
RETIRED = "allocation.retired"


class AllocationStatus(StrEnum):
    NEW = "new"
    RETIRED = "retired"


class AllocationOut(msgspec.Struct):
    """The quantity of a project that an order gets."""

    id: Annotated[str, Meta(description="The id of the allocation.", examples=["alc_c2h5oh7qz3vxk4m6ntb8w9r0ae"])]
    order_id: OrderId
    project_id: Annotated[
        str,
        Meta(description="The project, as in `projects` of the order.", examples=["prj_06gtv168k1mt6nqbnbhk0fqhp4"]),
    ]
    quantity: Annotated[str, Meta(description="Tonnes of CO2.", examples=["1.5"])]
    status: Annotated[
        AllocationStatus,
        Meta(
            description="`new`: the credits are reserved for the order. `retired`: all are retired.", examples=["new"]
        ),
    ]
    created_at: Annotated[Timestamp, Meta(description="When the order got the credits.")]


class _ShownProject(msgspec.Struct, frozen=True):
    """A project in the JSON of an order."""

    project_id: str
    quantity: str
    status: ProjectStatus


class _ShownOrder(msgspec.Struct):
    projects: list[_ShownProject]


class _OrderBefore(NamedTuple):
    projects: list[_ShownProject]
    allocated_at: datetime | None


READ_BEFORE = """
SELECT orders.id, orders.wire_document,
       coalesce((SELECT max(share.assigned_at) FROM shares share
                 WHERE share.account_id = orders.account_id AND share.order_id = orders.id),
                CASE WHEN orders.status = 'retiring' THEN orders.status_changed_at END) AS allocated_at
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
"""


async def _read_before(tx: Connection, orders: Sequence[Order]) -> dict[str, _OrderBefore]:
    rows = await tx.fetch(READ_BEFORE, *columns([order.key for order in orders], "account_id, id"))
    return {
        row["id"]: _OrderBefore(
            msgspec.json.decode(row["wire_document"], type=_ShownOrder).projects, row["allocated_at"]
        )
        for row in rows
    }


async def record_allocations(tx: Connection, orders: Sequence[Order], now: datetime) -> bool:
    """Record what changes in the projects of these locked orders. Call it before their JSON is stored.

    Returns whether there are events.
    """
    recording = await find_recording(tx, [order.scope for order in orders], [NEW, RETIRED])
    requested = [order for order in orders if Stream(order.scope.organisation_id, order.scope.mode) in recording]
    if not requested:
        return False
    before = await _read_before(tx, requested)
    return await record_optional(
        tx, [(order.scope, event) for order in requested for event in _events_of(order, before[order.id], now)], now
    )


def _events_of(order: Order, before: _OrderBefore, now: datetime) -> Iterable[OptionalEvent]:
    present = [
        _ShownProject(each.project_id, format_tonnes(each.quantity_grams), each.status) for each in order.projects
    ]
    earlier = dict(_numbered(before.projects))
    for (project_id, number), shown in _numbered(present):
        known = earlier.get((project_id, number))
        is_retired = shown.status is ProjectStatus.RETIRED
        # Other credits of the same project, after a lot turned out to be invalid, are a new allocation.
        lost = known is not None and known.status is ProjectStatus.RETIRED and not is_retired
        is_new = known is None or known.quantity != shown.quantity or lost
        allocation = AllocationOut(
            id=allocation_id(order.id, project_id, number),
            order_id=order.id,
            project_id=project_id,
            quantity=shown.quantity,
            status=AllocationStatus.NEW,
            created_at=to_wire(now if is_new else before.allocated_at or now),
        )
        if is_new:
            yield _event(NEW, allocation)
        if is_retired and (is_new or (known is not None and known.status is not ProjectStatus.RETIRED)):
            allocation.status = AllocationStatus.RETIRED
            yield _event(RETIRED, allocation)


def _event(event_type: str, allocation: AllocationOut) -> OptionalEvent:
    order_id = allocation.order_id
    return OptionalEvent(event_type, order_id, msgspec.json.encode(allocation), order_id)


def _numbered(projects: Iterable[_ShownProject]) -> Iterable[tuple[tuple[str, int], _ShownProject]]:
    """A project that supplies several lines of an order is several allocations."""
    seen: defaultdict[str, int] = defaultdict(int)
    for each in projects:
        yield (each.project_id, seen[each.project_id]), each
        seen[each.project_id] += 1


def allocation_id(order_id: str, project_id: str, number: int) -> str:
    """The same in all events of the allocation."""
    digest = hashlib.sha256(f"{order_id} {project_id} {number}".encode()).digest()
    return f"alc_{base64.b32hexencode(digest).decode().lower()[:26]}"
