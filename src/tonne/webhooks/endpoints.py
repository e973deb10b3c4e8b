"""Webhooks over HTTP: the registrations of the key's organisation and mode."""

from dataclasses import replace

import msgspec

from tonne.base.clock import Clock, to_wire
from tonne.base.ids import new_id
from tonne.base.paging import Position, make_cursor, parse_cursor, parse_limit
from tonne.base.scope import Scope
from tonne.base.secret_box import SecretBox
from tonne.base.settings import Settings
from tonne.db.pool import Connection, Database
from tonne.events.endpoints import parse_sequence
from tonne.events.store import find_event, last_position_before
from tonne.http.json_body import read
from tonne.http.lists import ListOut
from tonne.http.route import Request, Response, json_response
from tonne.webhooks import attempt_store, progress_store, register, registration_store
from tonne.webhooks.errors import RewindInvalid, WebhookNotFound
from tonne.webhooks.model import Webhook
from tonne.webhooks.schemas import (
    AttemptOut,
    RewindIn,
    RotateIn,
    SkipIn,
    WebhookChangeIn,
    WebhookIn,
    test_out,
    webhook_out,
)
from tonne.webhooks.sender import Sender
from tonne.webhooks.signing import signed_headers


class WebhookEndpoints:
    def __init__(
        self, database: Database, box: SecretBox, *, clock: Clock, settings: Settings, sender: Sender | None = None
    ) -> None:
        self._database = database
        self._box = box
        self._clock = clock
        self._settings = settings
        self._made_sender = sender

    @property
    def _sender(self) -> Sender:
        """Made at the first use: it belongs to the running loop."""
        if self._made_sender is None:
            self._made_sender = Sender(self._settings)
        return self._made_sender

    async def close(self) -> None:
        if self._made_sender is not None:
            await self._made_sender.close()

    async def register_webhook(self, request: Request) -> Response:
        """Registers a webhook for the events of the API key's mode from now on.

        The signing secret is returned only in this response.
        """
        body = read(request.json(), WebhookIn)
        await register.check_url(self._sender, body.url)
        async with self._database.transaction() as tx:
            webhook, secret = await register.register_webhook(
                tx,
                request.scope,
                body.url,
                body.account_ids or [],
                box=self._box,
                actor=request.actor,
                now=self._clock(),
            )
            return await self._show(tx, webhook, secret, status=201)

    async def list_webhooks(self, request: Request) -> Response:
        """Returns the organisation's webhooks in the API key's mode, newest first."""
        limit_text, after = request.query("limit", "after")
        limit = parse_limit(limit_text)
        list_name = f"webhooks {request.scope.organisation_id} {request.scope.mode}"
        start = parse_cursor(after, list_name)
        async with self._database.connection() as connection:
            found = await registration_store.list_webhooks(connection, request.scope, start, limit + 1)
            page = [webhook_out(w, await progress_store.read_progress(connection, w)) for w in found[:limit]]
        last = found[limit - 1] if len(found) > limit else None
        cursor = None if last is None else make_cursor(Position(last.created_at, last.id), list_name)
        return json_response(ListOut(cursor is not None, cursor, page))

    async def read_webhook(self, request: Request) -> Response:
        """Returns one webhook with its delivery state."""
        async with self._database.connection() as connection:
            return await self._show(connection, await self._find(connection, request))

    async def change_webhook(self, request: Request) -> Response:
        """Changes a webhook; fields that are left out keep their values.

        The events of a request that is in progress are sent again.
        """
        body = read(request.json(), WebhookChangeIn)
        if body.url is not None:
            await register.check_url(self._sender, body.url)
        async with self._database.transaction() as tx:
            old = await register.require(tx, request.scope, request.path("webhook_id"))
            changed = replace(
                old,
                url=old.url if body.url is None else body.url,
                enabled=old.enabled if body.enabled is None else body.enabled,
                account_ids=old.account_ids if body.account_ids is None else tuple(body.account_ids),
            )
            await register.change_webhook(tx, request.scope, changed, actor=request.actor, now=self._clock())
            return await self._show(tx, changed)

    async def delete_webhook(self, request: Request) -> Response:
        """Deletes a webhook. Events that were not delivered are not sent any more."""
        async with self._database.transaction() as tx:
            webhook_id = request.path("webhook_id")
            await register.remove_webhook(tx, request.scope, webhook_id, actor=request.actor, now=self._clock())
        return Response(b"", 204)

    async def rotate_secret(self, request: Request) -> Response:
        """Replaces the signing secret and returns the new one.

        For `overlap_seconds`, requests are signed with both secrets.
        """
        body = read(request.json_or_empty(), RotateIn)
        async with self._database.transaction() as tx:
            webhook = await register.require(tx, request.scope, request.path("webhook_id"))
            rotated, secret = await register.rotate_secret(
                tx, webhook, body.overlap_seconds, box=self._box, actor=request.actor, now=self._clock()
            )
            return await self._show(tx, rotated, secret)

    async def test_webhook(self, request: Request) -> Response:
        """Sends one event marked as a test now and returns the receiver's response.

        The event is not stored in the event log.
        """
        async with self._database.connection() as connection:
            webhook = await self._find(connection, request)
            boxes = await registration_store.find_sealed_secrets(connection, webhook)
        now, event_id = self._clock(), new_id("evt")
        event = {
            "api_version": "v1",
            "event_id": event_id,
            "account_id": request.scope.account_id,
            "event_type": "webhook.test",
            "sequence": to_wire(now),
            "data": {"message": "This is a test of your webhook. It stands for no order."},
        }
        body = msgspec.json.encode({"events": [event]})
        signing_secrets = [self._box.open(box, webhook.id) for box in boxes]
        timestamp = int(now.timestamp())
        headers = signed_headers(self._settings.brand, signing_secrets, webhook.organisation_id, timestamp, body)
        return json_response(test_out(event_id, await self._sender.post(webhook.url, body, headers)))

    async def list_attempts(self, request: Request) -> Response:
        """Returns the delivery attempts of a webhook, newest first."""
        limit_text, after = request.query("limit", "after")
        limit = parse_limit(limit_text)
        list_name = f"attempts {request.path('webhook_id')}"
        start = parse_cursor(after, list_name)
        async with self._database.connection() as connection:
            webhook = await self._find(connection, request)
            rows = await attempt_store.list_attempts(connection, webhook, start, limit + 1)
        cursor = None
        if len(rows) > limit:
            cursor = make_cursor(Position(rows[limit - 1]["at"], rows[limit - 1]["id"]), list_name)
        page = [
            AttemptOut(
                id=row["id"],
                at=to_wire(row["at"]),
                event_ids=row["event_ids"],
                acknowledged=row["acknowledged"],
                status=row["status"],
                error=row["error"],
                duration_ms=row["duration_ms"],
                answer=row["answer"],
            )
            for row in rows[:limit]
        ]
        return json_response(ListOut(cursor is not None, cursor, page))

    async def rewind_webhook(self, request: Request) -> Response:
        """Moves a webhook back to an earlier event, so that all events from there on are sent again."""
        body = read(request.json(), RewindIn)
        async with self._database.transaction() as tx:
            webhook = await register.require(tx, request.scope, request.path("webhook_id"))
            before = await _position_before(tx, request.scope, body)
            await register.rewind(tx, webhook, before, actor=request.actor, now=self._clock())
            return await self._show(tx, webhook)

    async def retry_webhook_now(self, request: Request) -> Response:
        """Retries the next delivery of a webhook now instead of after the back-off."""
        async with self._database.transaction() as tx:
            webhook = await register.require(tx, request.scope, request.path("webhook_id"))
            await progress_store.retry_now(tx, webhook)
            return await self._show(tx, webhook)

    async def skip_event(self, request: Request) -> Response:
        """Gives up one event of a webhook that cannot be delivered, and continues with the next."""
        body = read(request.json(), SkipIn)
        async with self._database.transaction() as tx:
            webhook = await register.require(tx, request.scope, request.path("webhook_id"))
            await register.skip_event(tx, webhook, body.event_id, actor=request.actor, now=self._clock())
            return await self._show(tx, webhook)

    @staticmethod
    async def _find(connection: Connection, request: Request) -> Webhook:
        webhook = await registration_store.find_webhook(connection, request.scope, request.path("webhook_id"))
        if webhook is None:
            raise WebhookNotFound
        return webhook

    @staticmethod
    async def _show(connection: Connection, webhook: Webhook, secret: str | None = None, status: int = 200) -> Response:
        return json_response(
            webhook_out(webhook, await progress_store.read_progress(connection, webhook), secret), status
        )


async def _position_before(tx: Connection, scope: Scope, body: RewindIn) -> int:
    """The last position that is not to be delivered again."""
    if (body.sequence is None) == (body.event_id is None):
        raise RewindInvalid
    if body.sequence is not None:
        return await last_position_before(tx, scope, parse_sequence(body.sequence, "sequence"))
    row = await find_event(tx, scope, body.event_id or "")
    if row is None:
        raise RewindInvalid("There is no such event in this organisation and mode.", field="event_id")
    position: int = row["position"]
    return position - 1
