"""The webhooks of an organisation: their health, the form to add one, and what one delivers."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct, field, structs

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, MemberViewer, existing
from tonne.apps.workspace.developers import webhook_forms
from tonne.apps.workspace.developers.json_view import indented_json
from tonne.channels.webhooks import attempt_store, register, registration_store
from tonne.channels.webhooks.delivery.outcomes import ReceiverResponse
from tonne.channels.webhooks.endpoints import WebhookEndpoints, position_before
from tonne.channels.webhooks.errors import OverlapPromised, WebhookNotFound
from tonne.channels.webhooks.model import STATUS_TYPES, Progress, Webhook
from tonne.channels.webhooks.schemas import DeliveryState, delivery_state
from tonne.platform.db.database import Connection
from tonne.platform.events.payload import event_payload
from tonne.platform.events.store import list_events_at
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.lists import Paging
from tonne.platform.http.route import Response
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.values.context import Scope, replace
from tonne.platform.values.errors import TonneError
from tonne.platform.values.paging import CursorInvalid, Position, parse_cursor
from tonne.platform.web.render import see_other
from tonne.selling.accounts.store import list_accounts
from tonne.selling.users.model import Right

ATTEMPTS = 25
# Tests go to any public address: per organisation 10 at once, then one every 10 seconds.
TESTS = 10
TESTS_PER_S = 1 / 10
# Of the response to a test event, in an address.
TESTED_CHARS = 1000
_TOO_MANY = "Too many test events. Wait a minute, then try again."


class ShownWebhook(Struct, frozen=True):
    webhook: Webhook
    progress: Progress
    state: DeliveryState


class WebhooksPage(DashboardPage, frozen=True):
    endpoints: WebhookEndpoints
    box: SecretBox
    tests: TokenBuckets = field(default_factory=lambda: TokenBuckets("webhook_tests", TESTS_PER_S, TESTS))

    def section(self) -> OrganisationSection:
        one = "/webhooks/{webhook_id}"
        forms = {
            "/webhooks": self.register,
            one: self.change,
            f"{one}/state": self.switch,
            f"{one}/test": self.send_test,
            f"{one}/retry": self.retry,
            f"{one}/rewind": self.rewind,
            f"{one}/rotate": self.rotate,
            f"{one}/skip": self.skip,
            f"{one}/delete": self.delete,
        }
        return OrganisationSection(
            pages={
                "/webhooks": (self.show, Right.VIEW),
                one: (self.show_one, Right.VIEW),
                f"{one}/attempts/{{attempt_id}}": (self.show_attempt, Right.VIEW),
                f"{one}/delete": (self.confirm_delete, Right.WEBHOOKS),
                f"{one}/skip": (self.confirm_skip, Right.WEBHOOKS),
            },
            forms={path: (form, Right.WEBHOOKS) for path, form in forms.items()},
            errors=(WebhookNotFound, CursorInvalid),
            limits=(self.tests,),
        )

    async def register(self, viewer: MemberViewer, form: Form) -> Response:
        requested = webhook_forms.read_webhook(form)
        if not form.faults:
            try:
                await register.check_url(self.endpoints.sender, requested.url)
                async with self.database.transaction() as tx:
                    webhook, secret = await register.register_webhook(
                        tx, _scope(viewer), requested, box=self.box, by=viewer.actor.at(self.clock())
                    )
            except TonneError as error:
                _fail(form, error)
            else:
                return self._secret(viewer, webhook, secret, is_new=True)
        return await self.show(viewer, form)

    async def change(self, viewer: MemberViewer, form: Form) -> Response:
        requested = webhook_forms.read_webhook(form)
        if not form.faults:
            try:
                await register.check_url(self.endpoints.sender, requested.url)
                await self._update(viewer, **structs.asdict(requested))
            except TonneError as error:
                _fail(form, error)
            else:
                return self._done(viewer, "webhook_changed")
        return await self.show_one(viewer, form)

    async def switch(self, viewer: MemberViewer, form: Form) -> Response:
        enabled = form.is_checked("enabled")
        await self._update(viewer, enabled=enabled)
        return self._done(viewer, "webhook_enabled" if enabled else "webhook_disabled")

    async def send_test(self, viewer: MemberViewer, _: Form) -> Response:
        """The result is sealed in the address of the next page: reloading it sends nothing."""
        form, sealed, webhook_id = Form(), b"", viewer.request.path("webhook_id")
        with form.catch():
            self.tests.require(viewer.organisation_id, message=_TOO_MANY)
            accounts = await self.database.run(list_accounts, viewer.organisation_id)
            account_id = next((each.scope.account_id for each in accounts if each.scope.mode == viewer.mode), "")
            scope = Scope(viewer.organisation_id, account_id, viewer.mode)
            sent = (await self.endpoints.send_test(scope, webhook_id))[1]
            result = ReceiverResponse(sent.status, sent.error, sent.duration_ms, sent.answer[:TESTED_CHARS])
            sealed = self.box.seal(msgspec.json.encode(result).decode(), _tested(webhook_id))
        if not sealed:
            return await self.show_one(viewer, form)
        return see_other(f"{viewer.base}/webhooks/{webhook_id}?tested={urlsafe_b64encode(sealed).decode()}")

    def _read_tested(self, viewer: MemberViewer) -> ReceiverResponse | None:
        """The result of the last test event; None if there was none, or if somebody has made it up."""
        try:
            sealed = urlsafe_b64decode(viewer.request.query("tested")[0] or "")
            text = self.box.open(sealed, _tested(viewer.request.path("webhook_id")))
            return msgspec.json.decode(text, type=ReceiverResponse)
        except (ValueError, SecretUnreadable):
            return None

    async def retry(self, viewer: MemberViewer, _: Form) -> Response:
        async with self._locked(viewer) as (tx, webhook):
            await registration_store.retry_now(tx, webhook)
        return self._done(viewer, "webhook_retried")

    async def rewind(self, viewer: MemberViewer, form: Form) -> Response:
        target = webhook_forms.read_rewind(form)
        if target is not None:
            try:
                async with self._locked(viewer) as (tx, webhook):
                    before = await position_before(tx, _scope(viewer), target)
                    await register.rewind(tx, webhook, before, by=viewer.actor.at(self.clock()))
            except TonneError as error:
                for fault in error.faults:
                    form.fail("day" if fault.field == "sequence" else "event_id", fault.message)
            else:
                return self._done(viewer, "webhook_rewound")
        return await self.show_one(viewer, form)

    async def rotate(self, viewer: MemberViewer, form: Form) -> Response:
        if (hours := form.value("overlap")) not in webhook_forms.OVERLAPS:
            form.fail("overlap", "Choose for how long both secrets sign.")
            return await self.show_one(viewer, form)
        try:
            async with self._locked(viewer) as (tx, webhook):
                overlap_s = int(hours) * 3600
                rotated, secret = await register.rotate_secret(
                    tx, webhook, overlap_s, box=self.box, by=viewer.actor.at(self.clock())
                )
        except OverlapPromised as error:
            form.fail("overlap", error.faults[0].message)
            return await self.show_one(viewer, form)
        return self._secret(viewer, rotated, secret, is_new=False, overlap=webhook_forms.OVERLAPS[hours])

    async def confirm_skip(self, viewer: MemberViewer) -> Response:
        event_id = viewer.request.query("event_id")[0]
        shown = await self.database.run(_read, _scope(viewer), viewer.request.path("webhook_id"))
        for parked in shown.progress.parked:
            if parked.event_id == event_id:
                return self.layout.page(viewer, "webhook_skip.html", shown=shown, parked=parked)
        raise DashboardPageNotFound

    async def skip(self, viewer: MemberViewer, form: Form) -> Response:
        try:
            async with self._locked(viewer) as (tx, webhook):
                event_id = form.value("event_id")
                await register.skip_event(tx, webhook, event_id, by=viewer.actor.at(self.clock()))
        except TonneError as error:
            form.fail("", error.faults[0].message)
            return await self.show_one(viewer, form)
        return self._done(viewer, "webhook_skipped")

    async def confirm_delete(self, viewer: MemberViewer) -> Response:
        shown = await self.database.run(_read, _scope(viewer), viewer.request.path("webhook_id"))
        return self.layout.page(viewer, "webhook_delete.html", shown=shown)

    async def delete(self, viewer: MemberViewer, _: Form) -> Response:
        async with self.database.transaction() as tx:
            webhook_id = viewer.request.path("webhook_id")
            await register.remove_webhook(tx, _scope(viewer), webhook_id, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/webhooks?done=webhook_deleted")

    async def show_attempt(self, viewer: MemberViewer) -> Response:
        scope = _scope(viewer)
        async with self.database.connection() as connection:
            webhook = await registration_store.find_webhook(connection, scope, viewer.request.path("webhook_id"))
            attempt = existing(await attempt_store.find_attempt(connection, webhook, viewer.request.path("attempt_id")))
            events = await list_events_at(connection, scope, attempt["positions"])
        body = b'{"events":[%b]}' % b",".join(event_payload(row["head"], row["document"]) for row in events)
        return self.layout.page(
            viewer,
            "webhook_attempt.html",
            webhook=webhook,
            attempt=attempt,
            events=events,
            body=indented_json(body),
            cause=webhook_forms.CAUSES.get(attempt["error"] or ""),
        )

    async def _update(self, viewer: MemberViewer, **changes: object) -> None:
        async with self._locked(viewer) as (tx, webhook):
            changed = replace(webhook, **changes)  # type: ignore[arg-type]
            await register.change_webhook(tx, _scope(viewer), webhook, changed, by=viewer.actor.at(self.clock()))

    @asynccontextmanager
    async def _locked(self, viewer: MemberViewer) -> AsyncIterator[tuple[Connection, Webhook]]:
        async with self.database.transaction() as tx:
            yield tx, await registration_store.lock_webhook(tx, _scope(viewer), viewer.request.path("webhook_id"))

    async def show(self, viewer: MemberViewer, form: Form | None = None) -> Response:
        form = form or Form()
        async with self.database.connection() as connection:
            found = await registration_store.list_webhooks(connection, _scope(viewer))
            shown = [await _with_progress(connection, webhook) for webhook in found]
        return self.layout.page(
            viewer,
            "webhooks.html",
            form,
            webhooks=shown,
            fields=webhook_forms.FIELDS,
            entered=form,
            type_choices=webhook_forms.type_choices(form, STATUS_TYPES),
            at_limit=len(shown) >= register.MAX_WEBHOOKS,
        )

    async def show_one(self, viewer: MemberViewer, form: Form | None = None) -> Response:
        form = form or Form()
        scope, name = _scope(viewer), f"attempts {viewer.request.path('webhook_id')}"
        async with self.database.connection() as connection:
            shown = await _read(connection, scope, viewer.request.path("webhook_id"))
            paging = Paging(ATTEMPTS, parse_cursor(viewer.request.query("after")[0], name), name)
            rows = await attempt_store.list_attempts(connection, shown.webhook, paging.start, paging.fetch)
        attempts, next_page = paging.cut(rows, lambda row: Position(row["at"], row["id"]))
        return self.layout.page(
            viewer,
            "webhook.html",
            form,
            shown=shown,
            attempts=attempts,
            next_page=next_page,
            tested=self._read_tested(viewer),
            causes=webhook_forms.CAUSES,
            overlaps=webhook_forms.OVERLAPS,
            fields=webhook_forms.FIELDS,
            entered=form if "url" in form.names() else webhook_forms.form_of(shown.webhook),
            type_choices=webhook_forms.type_choices(form, shown.webhook.delivered_types),
            event_id=form.value("event_id") or viewer.request.query("event_id")[0] or "",
            day=form.value("day"),
            time=form.value("time"),
            overlap=form.value("overlap") or webhook_forms.FIRST_OVERLAP,
        )

    def _secret(
        self,
        viewer: MemberViewer,
        webhook: Webhook,
        secret: str,
        *,
        is_new: bool,
        overlap: str | None = None,
    ) -> Response:
        page = (viewer, "webhook_secret.html")
        return self.layout.page(*page, webhook=webhook, secret=secret, is_new=is_new, overlap=overlap)

    @staticmethod
    def _done(viewer: MemberViewer, notice: str) -> Response:
        return see_other(f"{viewer.base}/webhooks/{viewer.request.path('webhook_id')}?done={notice}")


def _scope(viewer: MemberViewer) -> Scope:
    """Webhooks belong to the organisation, not to one of its accounts."""
    return Scope(viewer.organisation_id, "", viewer.mode)


async def _read(connection: Connection, scope: Scope, webhook_id: str) -> ShownWebhook:
    return await _with_progress(connection, await registration_store.find_webhook(connection, scope, webhook_id))


async def _with_progress(connection: Connection, webhook: Webhook) -> ShownWebhook:
    progress = await registration_store.read_progress(connection, webhook)
    return ShownWebhook(webhook, progress, delivery_state(webhook, progress))


def _fail(form: Form, error: TonneError) -> None:
    """Accounts are one field of the form, and a list in the API."""
    for fault in error.faults:
        name = fault.field or ""
        form.fail("account_ids" if name.startswith("account_ids") else name, fault.message)


def _tested(webhook_id: str) -> str:
    return f"test of {webhook_id}"
