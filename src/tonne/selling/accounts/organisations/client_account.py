"""Requests that name the client account they are for: it is found, or made, before they are processed."""

import msgspec
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.http.errors import KeyPermissionMissing
from tonne.platform.http.json_body import Document, read
from tonne.platform.http.permissions import RouteGroup, group_of, permission_of
from tonne.platform.http.route import READING_METHODS, Request, Route
from tonne.platform.values.context import Scope, replace
from tonne.platform.values.errors import Fault, Invalid, TonneError
from tonne.selling.accounts import errors, store
from tonne.selling.accounts.account_schemas import ClientAccountIn
from tonne.selling.accounts.model import Account, AccountKind
from tonne.selling.accounts.organisations.manage_endpoints import ManageAccountEndpoints, require_creator

FIELD = "client_account"
_PERMISSION = permission_of("POST", "/v1/accounts/client")
_GROUPS = {RouteGroup.ORDERS, RouteGroup.ESTIMATES, RouteGroup.CHECKOUTS}


def with_client_account(route: Route) -> Route:
    """The route, which takes a client account if its body is about something of one account."""
    is_object = hasattr(route.body, "__struct_fields__") and route.method not in READING_METHODS
    if not is_object or group_of(route.permission) not in _GROUPS:
        return route
    found = (errors.AccountScopeIncorrect, errors.CurrencyUnknown, errors.NameInvalid)
    taken = (errors.HandleNotUnique, errors.AccountIdempotencyExists)
    return replace(route, client_account=ClientAccountIn, errors=(*route.errors, *found, *taken))


class ActForClient(Struct, frozen=True):
    accounts: ManageAccountEndpoints

    async def __call__(self, request: Request) -> Request:
        """The request for the client account that it names, without that member."""
        members = request.json().members
        if FIELD not in members:
            return request
        rest = msgspec.json.decode(request.body, type=dict[str, msgspec.Raw])
        del rest[FIELD]
        scope = request.scope
        if members[FIELD] is not None:
            try:
                scope = (await self._find_or_open(request, members[FIELD])).scope
            except TonneError as error:
                error.faults = [
                    Fault(fault.error_code, fault.message, f"{FIELD}.{fault.field}" if fault.field else FIELD)
                    for fault in error.faults
                ]
                raise
        return request.acting(scope, msgspec.json.encode(rest))

    async def _find_or_open(self, request: Request, sent: object) -> Account:
        if not isinstance(sent, dict):
            raise Invalid([Fault("validation_error", f"{FIELD} must be an object.")])
        if _PERMISSION not in request.permissions:
            raise KeyPermissionMissing.of(_PERMISSION)
        body = read(Document(b"", sent), ClientAccountIn)
        if body.handle is None and body.idempotency_key is None:
            message = f"{FIELD} needs a handle or an idempotency_key, by which it is found the next time."
            raise Invalid([Fault("validation_error", message)])
        async with self.accounts.database.connection() as connection:
            await require_creator(connection, request)
            found = await _find(connection, request.scope, body)
        if found is not None:
            return found
        try:
            return (await self.accounts.open_client_account(request, body))[0]
        except errors.HandleNotUnique:
            # Another request has made it in the meantime, or an account that is not a client's has the handle.
            found = await self.accounts.database.run(_find, request.scope, body)
            if found is None:
                raise
            return found


async def _find(connection: Connection, scope: Scope, body: ClientAccountIn) -> Account | None:
    """By the key if there is one, otherwise by the handle."""
    if body.idempotency_key is not None:
        found = await store.find_by_idempotency_key(connection, scope, body.idempotency_key)
        if found is not None and found.name != body.name.strip():
            raise errors.AccountIdempotencyExists(field="idempotency_key")
        return found
    owner = await store.find_handle_owner(connection, scope, body.handle or "")
    found = None if owner is None else await store.find_account(connection, replace(scope, account_id=owner))
    return found if found is not None and found.kind is AccountKind.CLIENT_ACCOUNT else None
