"""Repeats of requests that create something: the first response for a day, then what was created, without its secret.

The key, what the endpoint creates and the response are written in one transaction. After a crash there is either all of
it or nothing, and a request with the same key at the same time waits for the first one.
"""

import hashlib
from datetime import timedelta
from functools import partial

import msgspec

from tonne.platform.db.batches import RowJob
from tonne.platform.db.database import Database
from tonne.platform.db.idempotency import create_once
from tonne.platform.db.one_transaction import OneTransaction
from tonne.platform.http.client_fields import header_key, replay, request_digest
from tonne.platform.http.route import Creation, Request, Response, Route
from tonne.platform.keys.replays.store import (
    KeyTaken,
    OwnedKey,
    UsedKey,
    claim_key,
    find_used_key,
    keep_response,
    prune_responses,
)
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.values.context import Clock, new_id

# How long a response is kept.
KEPT = timedelta(hours=24)


class RespondOnce:
    def __init__(self, database: Database, box: SecretBox, clock: Clock) -> None:
        self._database = database
        self._box = box
        self._clock = clock

    async def __call__(self, route: Route, request: Request, key: str) -> Response:
        """The response of the endpoint, or to an earlier request with this key. Raises Invalid for a bad key."""
        creation, scope = route.creates, request.scope
        if creation is None:
            raise LookupError(f"{route.method} {route.path} does not say what it creates")
        owned = OwnedKey(
            scope.organisation_id if creation.of_organisation else scope.account_id,
            scope.mode,
            f"{route.method} {route.path}",
            hashlib.sha256(header_key(key).encode()).digest(),
        )
        used = UsedKey(
            id=new_id("rsp"),
            organisation_id=scope.organisation_id,
            # The path and the account are part of the request.
            request_digest=request_digest(f"{request.location} {scope.account_id}", request.body),
            key_id=request.actor.name,
            created_at=self._clock(),
        )
        response, original_digest = await create_once(
            key,
            lambda: self._create(route, request, owned, used),
            lambda _: self._repeat(creation, request, owned, used),
        )
        return response if original_digest is None else replay(response.body, original_digest, used.request_digest)

    async def _create(self, route: Route, request: Request, owned: OwnedKey, used: UsedKey) -> Response | None:
        """None if the key is taken."""
        try:
            async with OneTransaction(self._database, partial(claim_key, key=owned, used=used)) as one:
                response = await route.endpoint(request)
                if one.connection is None or route.creates is None:
                    raise LookupError(f"{owned.route} created nothing in a transaction")
                created_id = route.creates.id_of(msgspec.json.decode(response.body))
                sealed = self._box.seal(response.body.decode(), used.id)
                await keep_response(one.connection, owned, created_id, sealed)
        except KeyTaken:
            return None
        return response

    async def _repeat(
        self, creation: Creation, request: Request, owned: OwnedKey, used: UsedKey
    ) -> tuple[Response, bytes] | None:
        """The response to a repeat, and the digest of the first request. None if the key was not used before."""
        found = await self._database.run(find_used_key, owned)
        if found is None:
            return None
        first = self._first_response(found, used)
        if first is None:
            read = await creation.read(request.with_path(creation.parameter, found.created_id or ""))
            first = _without_secret(creation, read.body)
        return Response(first), found.request_digest

    def _first_response(self, found: UsedKey, used: UsedKey) -> bytes | None:
        """Only for the same request with the same API key: the response may contain a secret."""
        is_same = (found.request_digest, found.key_id) == (used.request_digest, used.key_id)
        if not is_same or found.response_box is None or used.created_at - found.created_at >= KEPT:
            return None
        try:
            return self._box.open(found.response_box, found.id).encode()
        except SecretUnreadable:
            return None


def _without_secret(creation: Creation, body: bytes) -> bytes:
    """As the response to the creation, which has a secret, although reading what was created shows none."""
    if not creation.has_secret:
        return body
    return msgspec.json.encode({**msgspec.json.decode(body, type=dict[str, msgspec.Raw]), "secret": None})


BATCH_ROWS = 1000


class PruneResponses(RowJob, frozen=True):
    async def run_once(self) -> bool:
        """Remove one batch. True when there may be more."""
        return await self.database.run(prune_responses, self.clock() - KEPT, BATCH_ROWS) == BATCH_ROWS
