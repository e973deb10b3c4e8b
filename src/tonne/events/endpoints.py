"""Endpoints of the event log. A client that missed webhooks can catch up with them."""

import re
from datetime import UTC, datetime
from typing import Any

from tonne.base.errors import Fault, Invalid
from tonne.base.paging import START, CursorInvalid, Position
from tonne.db.pool import Connection, Database
from tonne.events import store
from tonne.events.errors import EventNotFound, SequenceInvalid
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, Paging, raw_list_response
from tonne.http.route import Parameter, Request, Response, Route, RouteMaker

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

        To catch up, ask for the events after the last `sequence` that you processed, oldest first.
        """
        account_id, event_type, since, order = request.query("account_id", "event_type", "after_sequence", "order")
        if order not in {None, "asc", "desc"}:
            raise Invalid([Fault("validation_error", "order must be asc or desc.", "order")])
        scope = request.scope
        list_name = f"events {scope.organisation_id} {scope.mode} {account_id} {event_type} {since} {order}"
        paging = Paging.of(request, list_name)
        start = _stream_position(paging.start)
        async with self._database.connection() as connection:
            floor = 0 if since is None else await self._position_of(connection, request, since)
            rows = await store.list_events(
                connection,
                scope,
                below=_END if order == "asc" or start is None else start,
                above=max(floor, start or 0) if order == "asc" else floor,
                account_id=account_id,
                event_type=event_type or "",
                oldest_first=order == "asc",
                limit=paging.fetch,
            )
        page, cursor = paging.cut(rows, lambda row: Position(row["sequence"], str(row["position"])))
        return raw_list_response(",".join([row["payload"] for row in page]).encode(), cursor)

    async def read_event(self, request: Request) -> Response:
        """Read an event.

        Returns one event, byte for byte as it is delivered to webhooks.
        """
        async with self._database.connection() as connection:
            row = await store.find_event(connection, request.scope, request.path("event_id"))
        if row is None:
            raise EventNotFound
        return Response(row["payload"].encode())

    @staticmethod
    async def _position_of(connection: Connection, request: Request, since: str) -> int:
        """The last position whose sequence is not above `since`."""
        moment = parse_sequence(since, "after_sequence")
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
                *("GET /v1/events", self.list_events, page, *LIST_ERRORS, SequenceInvalid),
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


def _stream_position(start: Position) -> int | None:
    """The cursors of this list have the position in the stream as their id."""
    if start is START:
        return None
    if not _POSITION.fullmatch(start.id):
        raise CursorInvalid(field="after")
    return int(start.id)
