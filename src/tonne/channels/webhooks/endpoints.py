"""Webhooks over HTTP: the registrations of the API key's organisation and mode."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from tonne.channels.webhooks import attempt_store, register, registration_store, schemas
from tonne.channels.webhooks.delivery.outcomes import NOT_SIGNED, SendOutcome
from tonne.channels.webhooks.errors import RewindInvalid
from tonne.channels.webhooks.model import Webhook, WebhookRequest
from tonne.channels.webhooks.send_test_event import send_test_event
from tonne.channels.webhooks.sending.sender import Sender
from tonne.channels.webhooks.sending.signing import open_secrets
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.endpoints import parse_sequence
from tonne.platform.events.store import find_event, last_position_before, read_floor
from tonne.platform.http.json_body import read
from tonne.platform.http.lists import Paging, list_response
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Scope, made_at, new_id, same_named
from tonne.platform.values.paging import Position

_log = structlog.get_logger()


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
    def sender(self) -> Sender:
        """Created on first use, because it belongs to the running loop."""
        if self._made_sender is None:
            self._made_sender = Sender(self._settings)
        return self._made_sender

    async def close(self) -> None:
        if self._made_sender is not None:
            await self._made_sender.close()

    async def register_webhook(self, request: Request) -> Response:
        """Register a webhook.

        Registers a webhook for the events of the API key's mode from now on.

        The signing secret is returned only in this response.
        """
        body = read(request.json(), schemas.WebhookIn)
        await register.check_url(self.sender, body.url)
        requested = same_named(
            WebhookRequest, body, account_ids=body.account_ids or (), event_types=body.event_types or ()
        )
        async with self._database.transaction() as tx:
            webhook, secret = await register.register_webhook(
                tx, request.scope, requested, box=self._box, by=request.actor.at(self._clock())
            )
            return await _show(tx, webhook, secret, status=201)

    async def list_webhooks(self, request: Request) -> Response:
        """List the webhooks.

        Returns an array of all webhooks of the organisation in the API key's mode, newest first. There are at most 16.

        With `account_id`, only those that get events of that account. It may be repeated.
        """
        account_ids = request.query_values("account_id")
        async with self._database.connection() as connection:
            found = await registration_store.list_webhooks(connection, request.scope, account_ids)
            shown = [schemas.webhook_out(w, await registration_store.read_progress(connection, w)) for w in found]
        return json_response(shown)

    async def read_webhook(self, request: Request) -> Response:
        """Read a webhook.

        Returns one webhook and the state of its deliveries. Only the last characters of its secret are shown.
        """
        async with self._database.connection() as connection:
            webhook = await registration_store.find_webhook(connection, request.scope, request.path("webhook_id"))
            return await _show(connection, webhook)

    async def change_webhook(self, request: Request) -> Response:
        """Change a webhook.

        Changes a webhook; fields that are left out keep their values.

        The events of a request that is in progress are sent again.
        """
        body = read(request.json(), schemas.WebhookChangeIn)
        if body.url is not None:
            await register.check_url(self.sender, body.url)
        async with self._locked(request) as (tx, webhook):
            changed = await register.change_webhook(
                tx, request.scope, webhook, body.applied_to(webhook), by=request.actor.at(self._clock())
            )
            return await _show(tx, changed)

    async def delete_webhook(self, request: Request) -> Response:
        """Delete a webhook.

        Deletes a webhook. Events that were not delivered are not sent any more.
        """
        async with self._database.transaction() as tx:
            webhook_id = request.path("webhook_id")
            await register.remove_webhook(tx, request.scope, webhook_id, by=request.actor.at(self._clock()))
        return Response(b"", 204)

    async def rotate_secret(self, request: Request) -> Response:
        """Rotate the signing secret.

        Replaces the signing secret and returns the new one.

        For `overlap_s` seconds, a day unless you say otherwise, requests are signed with both secrets. At most three
        secrets sign at a time.
        """
        body = read(request.json_or_empty(), schemas.RotateIn)
        async with self._locked(request) as (tx, webhook):
            rotated, secret = await register.rotate_secret(
                tx, webhook, body.overlap_s, box=self._box, by=request.actor.at(self._clock())
            )
            return await _show(tx, rotated, secret)

    async def send_test_event(self, request: Request) -> Response:
        """Send a test event now.

        Sends one event marked as a test now and returns the receiver's response.

        The event is not stored in the event log.
        """
        return json_response(schemas.webhook_test_out(*await self.send_test(request.scope, request.path("webhook_id"))))

    async def send_test(self, scope: Scope, webhook_id: str) -> tuple[str, SendOutcome]:
        """The id of the test event, and the outcome of the request."""
        async with self._database.connection() as connection:
            webhook = await registration_store.find_webhook(connection, scope, webhook_id)
            sealed = await registration_store.find_sealed_secrets(connection, webhook)
        try:
            secrets = open_secrets(self._box.open, webhook.id, *sealed)
        except SecretUnreadable as error:
            _log.error("webhook_secret_unreadable", webhook_id=webhook.id, reason=str(error))
            return new_id("evt"), NOT_SIGNED
        return await send_test_event(
            self.sender,
            webhook,
            scope.account_id,
            brand=self._settings.brand,
            signing_secrets=secrets,
            now=self._clock(),
        )

    async def list_attempts(self, request: Request) -> Response:
        """List the delivery attempts of a webhook.

        Returns the requests to the receiver, newest first, with its responses. Old attempts are deleted.
        """
        paging = Paging.of(request, f"attempts {request.path('webhook_id')}")
        async with self._database.connection() as connection:
            webhook = await registration_store.find_webhook(connection, request.scope, request.path("webhook_id"))
            rows = await attempt_store.list_attempts(connection, webhook, paging.start, paging.fetch)
        page, cursor = paging.cut(rows, lambda row: Position(row["at"], row["id"]))
        return list_response([schemas.attempt_out(row) for row in page], cursor)

    async def rewind_webhook(self, request: Request) -> Response:
        """Send events again from a sequence or an event on.

        Moves a webhook back to an earlier event, so that all events from there on are sent again.
        """
        body = read(request.json(), schemas.RewindIn)
        async with self._locked(request) as (tx, webhook):
            before = await position_before(tx, request.scope, body)
            await register.rewind(tx, webhook, before, by=request.actor.at(self._clock()))
            return await _show(tx, webhook)

    async def retry_webhook_now(self, request: Request) -> Response:
        """Retry without waiting for the back-off.

        Retries the next delivery of a webhook now instead of after the back-off.
        """
        async with self._locked(request) as (tx, webhook):
            await registration_store.retry_now(tx, webhook)
            return await _show(tx, webhook)

    async def skip_event(self, request: Request) -> Response:
        """Skip the refused event of a parked account.

        Gives up the refused event of a parked account, and continues with the account's next event.
        """
        body = read(request.json(), schemas.SkipIn)
        async with self._locked(request) as (tx, webhook):
            await register.skip_event(tx, webhook, body.event_id, by=request.actor.at(self._clock()))
            return await _show(tx, webhook)

    @asynccontextmanager
    async def _locked(self, request: Request) -> AsyncIterator[tuple[Connection, Webhook]]:
        async with self._database.transaction() as tx:
            yield tx, await registration_store.lock_webhook(tx, request.scope, request.path("webhook_id"))


async def _show(connection: Connection, webhook: Webhook, secret: str | None = None, status: int = 200) -> Response:
    progress = await registration_store.read_progress(connection, webhook)
    return json_response(schemas.webhook_out(webhook, progress, secret), status)


async def position_before(tx: Connection, scope: Scope, body: schemas.RewindIn) -> int:
    """The last position that is not sent again."""
    if (body.sequence is None) == (body.event_id is None):
        raise RewindInvalid
    # The webhook is locked: its events are not removed meanwhile.
    floor = await read_floor(tx, scope)
    if body.sequence is not None:
        moment = parse_sequence(body.sequence, "sequence")
        floor.require_kept_from(moment, "sequence")
        return await last_position_before(tx, scope, moment)
    event_id = body.event_id or ""
    row = await find_event(tx, scope, event_id)
    if row is not None and row["position"] <= floor.position:
        raise floor.removed("event_id")
    if row is None:
        if made := made_at(event_id):
            floor.require_kept_from(made, "event_id")
        raise RewindInvalid("There is no such event in this organisation and mode.", field="event_id")
    position: int = row["position"]
    return position - 1
