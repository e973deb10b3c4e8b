"""The event log: what happened, and which webhooks got it."""

import re
from datetime import datetime

import msgspec

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer, existing
from tonne.apps.workspace.developers.json_view import indented_json
from tonne.channels.webhooks.model import EventType
from tonne.channels.webhooks.timeline import event_deliveries
from tonne.platform.events.payload import event_payload
from tonne.platform.events.store import PageBounds, find_event, list_events, read_floor
from tonne.platform.http.route import Response
from tonne.platform.values.context import Scope, is_id
from tonne.platform.web.render import see_other
from tonne.selling.users.model import Right

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
        return self.layout.page(
            viewer,
            "events.html",
            events=[_decode(event_payload(row["head"], row["document"])) for row in rows[:EVENTS]],
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
