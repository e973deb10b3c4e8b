"""Endpoints of the event log. A client that missed webhooks can catch up with them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tonne.platform.db.database import Connection, Database
from tonne.platform.events import store
from tonne.platform.events.errors import EventNotFound, EventsRemoved, SequenceInvalid
from tonne.platform.events.payload import event_payload
from tonne.platform.events.store import Floor, read_floor
from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, Paging, raw_list_response
from tonne.platform.http.route import Parameter, Request, Response, Route, RouteMaker
from tonne.platform.values.context import utc_now
from tonne.platform.values.errors import Fault, Invalid
from tonne.platform.values.paging import START, CursorInvalid, Position

_SEQUENCE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z", re.ASCII)
_POSITION = re.compile(r"[0-9]{1,18}", re.ASCII)
# Greater than every position.
_END = 2**62


class EventEndpoints:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_events(self, request: Request) -> Response:
        """List the events of the organisation in this mode.

        Returns the organisation's events, newest first, or oldest first with `order=asc`.

        To catch up, ask for the events after the last `sequence` that you processed, oldest first. If some of them were
        removed, the response is the error `events_removed`.
        """
        account_id, event_type, since, order = request.query("account_id", "event_type", "after_sequence", "order")
        if order not in {None, "asc", "desc"}:
            raise Invalid([Fault("validation_error", "order must be asc or desc.", "order")])
        scope = request.scope
        list_name = f"events {scope.organisation_id} {scope.mode} {account_id} {event_type} {since} {order}"
        paging = Paging.of(request, list_name)
        start = _stream_position(paging.start)
        async with self._database.connection() as connection:
            kept = await read_floor(connection, scope)
            if order == "asc" and start is not None and start < kept.position:
                raise kept.removed("after")
            floor = kept.position if since is None else await self._position_of(connection, request, since, kept)
            rows = await store.list_events(
                connection,
                scope,
                store.PageBounds(
                    below=_END if order == "asc" or start is None else start,
                    above=max(floor, start or 0) if order == "asc" else floor,
                    near=_begins_near(paging.start, since, order),
                ),
                account_id=account_id,
                event_type=event_type or "",
                oldest_first=order == "asc",
                limit=paging.fetch,
            )
        page, cursor = paging.cut(rows, lambda row: Position(row["sequence"], str(row["position"])))
        return raw_list_response(b",".join([event_payload(row["head"], row["document"]) for row in page]), cursor)

    async def read_event(self, request: Request) -> Response:
        """Read an event.

        Returns one event, byte for byte as it is delivered to webhooks.
        """
        row = await self._database.run(store.find_event, request.scope, request.path("event_id"))
        if row is None:
            raise EventNotFound
        return Response(event_payload(row["head"], row["document"]))

    @staticmethod
    async def _position_of(connection: Connection, request: Request, since: str, kept: Floor) -> int:
        """The last position whose sequence is not above `since`."""
        moment = parse_sequence(since, "after_sequence")
        kept.require_kept_from(moment + timedelta(milliseconds=1), "after_sequence")
        return await store.last_position_before(
            connection, request.scope, moment.replace(microsecond=moment.microsecond + 1)
        )

    def routes(self, event: Any, page: Any) -> list[Route]:
        """The types of an event and of a page of them. This package does not know what events are about."""
        route, text = RouteMaker("Events"), {"type": "string"}
        query = (
            *LIST_PARAMETERS,
            Parameter("account_id", "Only events of this account.", text),
            Parameter("event_type", "Only events of this type, such as order.placed.", text),
            Parameter("after_sequence", "Only events with a higher sequence.", text),
            Parameter("order", "desc (the default) or asc.", {"type": "string", "enum": ["asc", "desc"]}),
        )
        return [
            route(
                "GET /v1/events",
                self.list_events,
                page,
                *LIST_ERRORS,
                SequenceInvalid,
                EventsRemoved,
                operation_id="listEvents",
                query=query,
            ),
            route("GET /v1/events/{event_id}", self.read_event, event, EventNotFound, operation_id="getEvent"),
        ]


def parse_sequence(text: str, field: str) -> datetime:
    try:
        if not _SEQUENCE.fullmatch(text):
            raise SequenceInvalid(field=field)
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise SequenceInvalid(field=field) from error


def _begins_near(start: Position, since: str | None, order: str | None) -> datetime | None:
    """The sequence at which a page begins. Cursors have the sequence of the last event as their time."""
    if start is not START:
        return start.created_at
    if order == "asc":
        return None if since is None else parse_sequence(since, "after_sequence")
    return utc_now()


def _stream_position(start: Position) -> int | None:
    """The cursors of this list have the position in the stream as their id."""
    if start is START:
        return None
    if not _POSITION.fullmatch(start.id):
        raise CursorInvalid(field="after")
    return int(start.id)
