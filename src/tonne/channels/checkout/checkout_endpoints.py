"""Endpoints for checkouts that a client's server creates."""

import msgspec
import structlog

from tonne.channels.checkout import store
from tonne.channels.checkout.checkout_schemas import CheckoutOut, checkout_out
from tonne.channels.checkout.create_checkout import CreateCheckout
from tonne.channels.checkout.errors import ApiCheckoutNotFound
from tonne.channels.checkout.store import ApiCheckout
from tonne.platform.db.database import Database
from tonne.platform.http.client_fields import idempotency_of, replay
from tonne.platform.http.lists import Paging, list_response
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.platform.values.paging import Position

_log = structlog.get_logger()


class CheckoutEndpoints(msgspec.Struct, frozen=True):
    database: Database
    create: CreateCheckout
    clock: Clock
    settings: Settings
    box: SecretBox

    async def create_checkout(self, request: Request) -> Response:
        """Create a checkout.

        Creates a payment page for one sale and returns its `url`, to which you redirect the customer.

        The customer can change neither the amount nor the bundles, the e-mail address or your `external_id`. If the
        price changes before the payment, the page shows the new one first, and nothing else is charged.

        Returns 201 with the new checkout. If the `idempotency_key` was used before, returns 200 with the original
        checkout in its current state and the header `Idempotent-Replayed: true`.
        """
        document = request.json()
        idempotency = idempotency_of("checkout", document)
        checkout, original_digest = await self.create.create(request.scope, document, idempotency, request.actor)
        out = self._out(checkout)
        if original_digest is None:
            return json_response(out, 201)
        return replay(msgspec.json.encode(out), original_digest, idempotency.digest)

    async def read_checkout(self, request: Request) -> Response:
        """Read a checkout.

        Returns one checkout that `POST /v1/checkouts` created, in its current state.
        """
        found = await self.database.run(store.find_by_id, request.scope, request.path("checkout_id"))
        if found is None:
            raise ApiCheckoutNotFound
        return json_response(self._out(found))

    async def list_checkouts(self, request: Request) -> Response:
        """List the account's checkouts, newest first.

        Only those that `POST /v1/checkouts` created. `GET /v1/orders?offset_link_id=…` lists all orders of a link.
        """
        paging = Paging.of(request, f"checkouts {request.scope.account_id}")
        found = await self.database.run(store.list_checkouts, request.scope, paging.start, paging.fetch)
        page, cursor = paging.cut(found, lambda each: Position(each.checkout.created_at, each.checkout.id))
        return list_response([self._out(each) for each in page], cursor)

    def _out(self, found: ApiCheckout) -> CheckoutOut:
        try:
            token = self.box.open(found.sealed_token, found.checkout.id)
            url: str | None = f"{self.settings.base_url}/checkout/{token}"
        except SecretUnreadable as error:
            _log.error("checkout_token_unreadable", checkout_id=found.checkout.id, reason=str(error))
            url = None
        return checkout_out(found, url, self.clock())
