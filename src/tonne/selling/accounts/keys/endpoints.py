"""HTTP endpoints: API keys manage the keys of their organisation and mode."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.db.database import Connection, Database
from tonne.platform.http.errors import AccountNotFound, Unauthorised
from tonne.platform.http.json_body import read
from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut, Paging, list_response
from tonne.platform.http.permissions import PERMISSIONS
from tonne.platform.http.route import Creation, Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.context import Clock, Mode, Scope, same_named, to_wire
from tonne.platform.values.errors import Fault, Invalid
from tonne.platform.web.fields import described
from tonne.selling.accounts import errors
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.keys.api_keys import issue_key, revoke_key, rotate_key
from tonne.selling.accounts.keys.restrictions import check_restrictions
from tonne.selling.accounts.model import ApiKey

_ACCOUNT = "acc_06dq2k8v7p3h5n9s4t1w0x2y6z"
_TIME = "2027-02-15T10:00:00.000Z"
_NOT_FOUND = "There is no such API key in this organisation and mode."
OVERLAP_HOURS = 24

# No enum: clients that are generated today must be able to read permissions that are added later.
_Permission = Annotated[
    str,
    Meta(
        max_length=100,
        description=f"One of {', '.join(f'`{permission}`' for permission in PERMISSIONS)}.",
        examples=["orders:write"],
        extra_json_schema={"pattern": "^[a-z_]+:(read|write)$"},
    ),
]
_Permissions = Annotated[list[_Permission], Meta(max_length=100, examples=[["orders:write", "catalogue:read"]])]
_AccountIds = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=100, examples=[[_ACCOUNT]])]
_Networks = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=50, examples=[["203.0.113.0/24"]])]
_NAME = described(
    "What the key is for.",
    example="Web shop",
    label="Name",
    hint="What the key is for, such as “Web shop” or “Nightly report”.",
    option="",
)
_MAY = described(
    "What the key may do; writing includes reading. Left out: everything except keys and persons.",
    label="What it may do",
    option="",
)
_ACCOUNTS = described(
    "The accounts that the key may act for. Left out: all accounts.", label="Accounts", option="--account"
)
_DEFAULT_ACCOUNT = described(
    "The account of requests that name none. Left out: the account of this request.",
    example=_ACCOUNT,
    label="Default account",
    hint="Requests use it unless they name another account.",
    option="",
)
_NETWORKS = described(
    "The networks that the key works from. Left out: from everywhere.",
    label="Allowed networks",
    hint="One address or network per line, IPv4 or IPv6. Empty: the key works from everywhere.",
    option="--network",
)
_EXPIRES = described(
    "When the key stops working. Left out: it does not expire.", example=_TIME, label="Expires", option=""
)
_TimeOut = Annotated[str, Meta(examples=[_TIME], extra_json_schema={"format": "date-time"})]


class ApiKeyIn(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=200), _NAME]
    permissions: Annotated[_Permissions | None, _MAY] = None
    account_ids: Annotated[_AccountIds | None, _ACCOUNTS] = None
    default_account_id: Annotated[Annotated[str, Meta(max_length=100)] | None, _DEFAULT_ACCOUNT] = None
    networks: Annotated[_Networks | None, _NETWORKS] = None
    expires_at: Annotated[
        Annotated[str, Meta(max_length=40, extra_json_schema={"format": "date-time"})] | None, _EXPIRES
    ] = None


class RotateKeyIn(msgspec.Struct, forbid_unknown_fields=True):
    overlap_hours: Annotated[
        Annotated[int, Meta(ge=0, le=168)] | None,
        Meta(description="How long the old key still works. Left out: 24 hours.", examples=[24]),
    ] = None


class ApiKeyOut(msgspec.Struct):
    id: Annotated[str, Meta(description="Id of the key.", examples=["key_06dq2k8v7p3h5n9s4t1w0x2y6z"])]
    account_type: Annotated[Mode, Meta(description="Mode of the key.", examples=["live"])]
    name: Annotated[str, Meta(description="What the key is for.", examples=["Web shop"])]
    last_four: Annotated[str, Meta(description="The last characters of the secret.", examples=["x2y6"])]
    default_account_id: Annotated[str, Meta(description="The account of requests that name none.", examples=[_ACCOUNT])]
    permissions: Annotated[
        list[_Permission] | None,
        Meta(
            description="What the key may do. Null: everything, except what needs a right.", examples=[["orders:write"]]
        ),
    ]
    rights: Annotated[
        list[str],
        Meta(description="`persons` and `api_keys`, if the key may use them.", examples=[[]]),
    ]
    account_ids: Annotated[
        list[str] | None, Meta(description="The accounts that the key may act for. Null: all.", examples=[[_ACCOUNT]])
    ]
    networks: Annotated[
        list[str], Meta(description="The networks that the key works from. Empty: all.", examples=[["203.0.113.0/24"]])
    ]
    created_at: Annotated[_TimeOut, Meta(description="When the key was created.")]
    expires_at: Annotated[_TimeOut | None, Meta(description="When the key stops working, or null.")]
    last_used_at: Annotated[_TimeOut | None, Meta(description="When the key was last used, or null.")]
    revoked_at: Annotated[_TimeOut | None, Meta(description="When the key was revoked, or null.")]
    replaced_by: Annotated[
        str | None,
        Meta(description="The key that a rotation has created, or null.", examples=["key_06gtv6a2k5mt6mitjtjihcsfns"]),
    ]


class ApiKeyWithSecretOut(ApiKeyOut):
    secret: Annotated[
        str | None,
        Meta(
            description="The API key itself. It is shown only now; null in a repeat after 24 hours.",
            examples=["tonne_live_…"],
        ),
    ]


class KeyEndpoints:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def create_api_key(self, request: Request) -> Response:
        """Create an API key.

        Creates a key in the organisation and mode of the request, and returns its secret, which is not stored.

        The new key cannot have more rights than the key of the request: permissions, accounts, networks and expiry are
        at most the same. Needs the permission `api_keys:write`.
        """
        body, now = read(request.json(), ApiKeyIn), self._clock()
        scope = request.scope
        restrictions = check_restrictions(
            body.permissions, body.account_ids, body.networks or [], _parse_time(body.expires_at), now
        )
        scope = Scope(scope.organisation_id, body.default_account_id or scope.account_id, scope.mode)
        async with self._database.transaction() as tx:
            if not await key_store.count_accounts(tx, scope.tenant, [scope.account_id]):
                raise AccountNotFound(field="default_account_id")
            key, secret = await issue_key(
                tx,
                scope,
                body.name,
                by=request.actor.at(now),
                restrictions=restrictions,
                creator=await _own_key(tx, request),
            )
        return json_response(_with_secret(key, secret), 201)

    async def list_api_keys(self, request: Request) -> Response:
        """List API keys, newest first.

        Returns the keys of the organisation in the mode of the request, also expired and revoked ones, without their
        secrets.
        """
        scope = request.scope
        paging = Paging.of(request, f"api keys {scope.organisation_id} {scope.mode}")
        found = await self._database.run(key_store.list_mode_keys, scope.tenant, paging.start, paging.fetch)
        page, cursor = paging.cut(found)
        return list_response([key_out(key) for key in page], cursor)

    async def read_api_key(self, request: Request) -> Response:
        """Read an API key.

        Returns a key without its secret.
        """
        scope, key_id = request.scope, request.path("api_key_id")
        key = await self._database.run(key_store.find_key, scope.tenant, key_id)
        if key is None:
            raise errors.KeyNotFound(_NOT_FOUND)
        return json_response(key_out(key))

    async def rotate_api_key(self, request: Request) -> Response:
        """Rotate an API key.

        Creates a key with the same name, permissions, restrictions and spending limit, and returns its secret. The old
        key stops working after the overlap, 24 hours by default.
        """
        body, scope = read(request.json_or_empty(), RotateKeyIn), request.scope
        hours = OVERLAP_HOURS if body.overlap_hours is None else body.overlap_hours
        async with self._database.transaction() as tx:
            try:
                key, secret = await rotate_key(
                    tx,
                    scope.tenant,
                    request.path("api_key_id"),
                    overlap=timedelta(hours=hours),
                    by=request.actor.at(self._clock()),
                    creator=await _own_key(tx, request),
                )
            except errors.KeyNotFound as error:
                raise errors.KeyNotFound(_NOT_FOUND) from error
        return json_response(_with_secret(key, secret), 201)

    async def revoke_api_key(self, request: Request) -> Response:
        """Revoke an API key.

        The key stops working within a few seconds, for good. A key may revoke itself, and keys that have no more
        rights than itself.
        """
        scope = request.scope
        async with self._database.transaction() as tx:
            try:
                key = await revoke_key(
                    tx,
                    request.path("api_key_id"),
                    by=request.actor.at(self._clock()),
                    tenant=scope.tenant,
                    revoker=await _own_key(tx, request),
                )
            except errors.KeyNotFound as error:
                raise errors.KeyNotFound(_NOT_FOUND) from error
        return json_response(key_out(key))


def key_routes(endpoints: KeyEndpoints) -> list[Route]:
    route, one = RouteMaker("API keys"), "/v1/api-keys/{api_key_id}"
    key = Creation(read=endpoints.read_api_key, parameter="api_key_id", has_secret=True, of_organisation=True)
    refused = (errors.KeyRestrictionInvalid, errors.KeyRightsExceeded, errors.KeyLimitReached)
    return [
        route(
            "POST /v1/api-keys",
            endpoints.create_api_key,
            {201: ApiKeyWithSecretOut},
            *refused,
            errors.KeyRightInvalid,
            errors.NameInvalid,
            operation_id="createApiKey",
            body=ApiKeyIn,
            example={"name": "Web shop", "permissions": ["orders:write", "catalogue:read"]},
            creates=key,
        ),
        route(
            "GET /v1/api-keys",
            endpoints.list_api_keys,
            ListOut[ApiKeyOut],
            *LIST_ERRORS,
            operation_id="listApiKeys",
            query=LIST_PARAMETERS,
        ),
        route(f"GET {one}", endpoints.read_api_key, ApiKeyOut, errors.KeyNotFound, operation_id="getApiKey"),
        route(
            f"POST {one}/rotate",
            endpoints.rotate_api_key,
            {201: ApiKeyWithSecretOut},
            errors.KeyNotFound,
            errors.KeyEnded,
            *refused,
            operation_id="rotateApiKey",
            body=RotateKeyIn,
            body_required=False,
            creates=key,
        ),
        route(
            f"DELETE {one}",
            endpoints.revoke_api_key,
            ApiKeyOut,
            errors.KeyNotFound,
            errors.KeyRightsExceeded,
            operation_id="revokeApiKey",
        ),
    ]


async def _own_key(connection: Connection, request: Request) -> ApiKey:
    """The key of the request, which may have been revoked a moment ago. Raises Unauthorised."""
    scope = request.scope
    key = await key_store.find_key(connection, scope.tenant, request.actor.name)
    if key is None or key.revoked_at is not None:
        raise Unauthorised
    return key


def _parse_time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        utc = None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        message = "expires_at is not a timestamp: send one such as 2027-02-15T10:00:00Z."
        raise Invalid([Fault("validation_error", message, "expires_at")])
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def _wire(moment: datetime | None) -> str | None:
    return None if moment is None else to_wire(moment)


def key_out(key: ApiKey) -> ApiKeyOut:
    limits = key.restrictions
    return same_named(
        ApiKeyOut,
        key,
        account_type=key.scope.mode,
        default_account_id=key.scope.account_id,
        permissions=None if limits.permissions is None else list(limits.permissions),
        rights=[*key.rights],
        account_ids=None if limits.account_ids is None else list(limits.account_ids),
        networks=[str(network) for network in limits.networks],
        created_at=to_wire(key.created_at),
        expires_at=_wire(limits.expires_at),
        last_used_at=_wire(key.last_used_at),
        revoked_at=_wire(key.revoked_at),
    )


def _with_secret(key: ApiKey, secret: str) -> ApiKeyWithSecretOut:
    return ApiKeyWithSecretOut(**msgspec.structs.asdict(key_out(key)), secret=secret)
