"""The requests of the last 7 days to the API, and the event log: what happened, and which webhooks got it."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, MemberViewer, existing
from tonne.apps.workspace.developers.json_view import indented_json
from tonne.channels.webhooks.model import EventType
from tonne.channels.webhooks.timeline import event_deliveries
from tonne.platform.events.payload import event_payload
from tonne.platform.events.store import PageBounds, find_event, list_events, read_floor
from tonne.platform.http.openapi.document import operation_id
from tonne.platform.http.request_log.prune_requests import SHOWN
from tonne.platform.http.request_log.store import (
    RequestFilter,
    RequestRow,
    find_requests,
    list_requests,
)
from tonne.platform.http.route import Response, Route
from tonne.platform.values.context import Scope, is_id
from tonne.platform.values.paging import START, CursorInvalid, Position, make_cursor, parse_cursor
from tonne.platform.web.render import see_other
from tonne.selling.accounts.directory import find_names
from tonne.selling.accounts.keys.store import list_mode_keys
from tonne.selling.users.model import Right

PAGE_ROWS = 50
MAX_KEYS = 500
# The label, and the range of status codes.
STATUSES = {
    "": ("All", 0, 999),
    "failed": ("Failed", 400, 999),
    "2xx": ("2xx: successful", 200, 299),
    "4xx": ("4xx: refused", 400, 499),
    "5xx": ("5xx: failed on our side", 500, 599),
}
SINCE = {
    "": ("Last 7 days", SHOWN),
    "24h": ("Last 24 hours", timedelta(days=1)),
    "1h": ("Last hour", timedelta(hours=1)),
}
# What the names of the query parameters are.
_FILTERS = ("status", "endpoint", "key", "since")


class ShownRequest(Struct, frozen=True):
    row: RequestRow
    key_name: str
    duration: str
    docs: str
    body: str | None


class RequestsPage(DashboardPage, frozen=True, dict=True):
    """`find_routes` returns the routes of the API. It is called once, when a page is shown."""

    find_routes: Callable[[], Sequence[Route]]

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={
                "/requests": (self.show, Right.VIEW),
                "/requests/{request_id}": (self.show_request, Right.VIEW),
            },
            errors=(CursorInvalid,),
        )

    @cached_property
    def _docs(self) -> dict[str, str]:
        """Addresses in the documentation, by method and path."""
        return {
            f"{route.method} {route.path}": f"/docs/try/#/{quote(route.tag)}/{operation_id(route)}"
            for route in self.find_routes()
            if route.permission
        }

    async def show(self, viewer: MemberViewer) -> Response:
        status, endpoint, key_id, since, sought, after = (
            value or "" for value in viewer.request.query(*_FILTERS, "id", "after")
        )
        if sought.strip():
            return see_other(f"{viewer.base}/requests/{quote(sought.strip(), safe='')}")
        chosen = {
            "status": status if status in STATUSES else "",
            "endpoint": endpoint if endpoint in self._docs else "",
            "key": key_id,
            "since": since if since in SINCE else "",
        }
        given = {name: value for name, value in chosen.items() if value}
        list_name = f"requests {viewer.organisation_id} {viewer.mode} {given}"
        start = parse_cursor(after or None, list_name)
        requested = _filter(chosen)
        async with self.database.connection() as connection:
            keys = await list_mode_keys(connection, viewer.tenant, START, MAX_KEYS)
            page = await list_requests(
                connection,
                viewer.tenant,
                requested,
                start=start,
                since=self.clock() - SINCE[chosen["since"]][1],
                limit=PAGE_ROWS + 1,
            )
        names = {key.id: key.name for key in keys}
        rows, following = page.rows[:PAGE_ROWS], page.examined_to
        if len(page.rows) > PAGE_ROWS:
            following = Position(rows[-1].at, rows[-1].request_id)
        elif not given:
            following = None
        return self.layout.page(
            viewer,
            "requests.html",
            rows=[self._shown(row, names) for row in rows],
            statuses=STATUSES,
            endpoints=sorted(self._docs, key=lambda name: (name.partition(" ")[2], name)),
            keys=[(key.id, f"{key.name} …{key.last_four}") for key in keys],
            times=SINCE,
            chosen=chosen,
            is_filtered=bool(given),
            is_first=not after,
            next_page=following and f"?{urlencode({**given, 'after': make_cursor(following, list_name)})}",
        )

    async def show_request(self, viewer: MemberViewer) -> Response:
        request_id = viewer.request.path("request_id")
        async with self.database.connection() as connection:
            found = await find_requests(connection, viewer.tenant, request_id, self.clock() - SHOWN)
            keys = await list_mode_keys(connection, viewer.tenant, START, MAX_KEYS) if found else []
        if not found:
            raise DashboardPageNotFound(
                "There is no request with this id in this mode within the last 7 days. Check the id and the mode."
            )
        names = {key.id: key.name for key in keys}
        return self.layout.page(
            viewer, "request.html", request_id=request_id, requests=[self._shown(row, names) for row in found]
        )

    def _shown(self, row: RequestRow, key_names: dict[str, str]) -> ShownRequest:
        docs = self._docs.get(f"{row.method} {row.route}") or self._docs.get(f"GET {row.route}", "/docs/api/")
        return ShownRequest(
            row, key_names.get(row.key_id, row.key_id), _duration(row.duration_us), docs, _pretty(row.body)
        )


def _filter(chosen: dict[str, str]) -> RequestFilter:
    _, status_from, status_to = STATUSES[chosen["status"]]
    method, _, route = chosen["endpoint"].partition(" ")
    return RequestFilter(status_from, status_to, method or None, route or None, chosen["key"] or None)


def _duration(microseconds: int) -> str:
    if microseconds < 100_000:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds / 1000:.0f} ms" if microseconds < 10_000_000 else f"{microseconds / 1_000_000:.0f} s"


def _pretty(body: str | None) -> str | None:
    """With line breaks. A body that was cut is no JSON, and is shown as it is."""
    if body is None:
        return None
    try:
        value: Any = json.loads(body)
    except ValueError:
        return body
    return json.dumps(value, indent=2, ensure_ascii=False)


EVENTS = 30
# Greater than every position.
_END = 2**62
_POSITION = re.compile(r"[0-9]{1,18}", re.ASCII)


class _Subject(msgspec.Struct):
    id: str = ""


class _Data(msgspec.Struct):
    order: _Subject = msgspec.field(default_factory=_Subject)


class _Event(msgspec.Struct):
    """What the list shows of an event."""

    event_id: str
    event_type: str
    account_id: str
    sequence: str
    data: _Data = msgspec.field(default_factory=_Data)

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.sequence)


class EventsPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/events": (self.show, Right.VIEW), "/events/{event_id}": (self.show_event, Right.VIEW)}
        )

    async def show(self, viewer: MemberViewer) -> Response:
        """Newest first."""
        event_type, account_id, search, before = viewer.request.query("type", "account", "event", "before")
        if search and is_id("evt", search.strip()):
            return see_other(f"{viewer.base}/events/{search.strip()}")
        scope = Scope(viewer.organisation_id, "", viewer.mode)
        below = int(before) if before and _POSITION.fullmatch(before) else _END
        async with self.database.connection() as connection:
            floor = await read_floor(connection, scope)
            rows = await list_events(
                connection,
                scope,
                PageBounds(below=below, above=floor.position, near=self.clock() if below == _END else None),
                account_id=account_id or None,
                event_type=event_type or "",
                oldest_first=False,
                limit=EVENTS + 1,
            )
            events = [_decode(event_payload(row["head"], row["document"])) for row in rows[:EVENTS]]
            names = await find_names(connection, viewer.organisation_id, [event.account_id for event in events])
        return self.layout.page(
            viewer,
            "events.html",
            events=events,
            names=names,
            types=[each.value for each in EventType if each is not EventType.WEBHOOK_TEST],
            event_type=event_type or "",
            account_id=account_id or "",
            search=search or "",
            next_page=rows[EVENTS - 1]["position"] if len(rows) > EVENTS else None,
            kept_from=floor.position,
        )

    async def show_event(self, viewer: MemberViewer) -> Response:
        scope = Scope(viewer.organisation_id, "", viewer.mode)
        async with self.database.connection() as connection:
            row = existing(await find_event(connection, scope, viewer.request.path("event_id")))
            deliveries = await event_deliveries(connection, scope, row["position"])
        payload = event_payload(row["head"], row["document"])
        return self.layout.page(
            viewer,
            "event.html",
            event=_decode(payload),
            deliveries=deliveries,
            body=indented_json(payload),
        )


def _decode(payload: bytes) -> _Event:
    return msgspec.json.decode(payload, type=_Event)
