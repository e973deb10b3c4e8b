"""The status code of each kind of error, and the format of all error responses."""

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Annotated

import msgspec

from tonne.platform.values.context import Mode, Scope, same_named
from tonne.platform.values.errors import Fault, Kind, TonneError
from tonne.platform.values.language import N_

# The address of the service that handles the request, for links to its documentation.
BASE_URL: ContextVar[str] = ContextVar("base_url")
STATUS: dict[Kind, int] = {
    Kind.INVALID: 400,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.METHOD_NOT_ALLOWED: 405,
    Kind.TIMED_OUT: 408,
    Kind.CONFLICT: 409,
    Kind.TOO_LARGE: 413,
    Kind.WRONG_MEDIA_TYPE: 415,
    Kind.RATE_LIMITED: 429,
    Kind.INTERNAL: 500,
    Kind.UNAVAILABLE: 503,
}


class FaultOut(msgspec.Struct, omit_defaults=True):
    error_code: Annotated[
        str, msgspec.Meta(description="Stable: programs may rely on it.", examples=["validation_error"])
    ]
    message: Annotated[
        str, msgspec.Meta(description="For people. It may change.", examples=["mass.amount is required."])
    ]
    documentation_url: Annotated[
        str,
        msgspec.Meta(
            description="Where the documentation says when this code is used and what to do.",
            examples=["https://offsets.example.com/docs/errors/#validation_error"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    field: Annotated[
        str | None,
        msgspec.Meta(
            description="Path of the invalid field or query parameter. Omitted if the whole request is meant.",
            examples=["mass.amount"],
        ),
    ] = None
    minimum: Annotated[
        str | None,
        msgspec.Meta(
            description="Only of `charge_too_small`: the smallest amount that can be paid.", examples=["0.50"]
        ),
    ] = None
    quantity_at_minimum: Annotated[
        str | None,
        msgspec.Meta(
            description="Only of `charge_too_small`: the tonnes that `minimum` buys of the same bundles.",
            examples=["0.035561"],
        ),
    ] = None


class RefusalOut(msgspec.Struct):
    """Instead of a part of the response. `error` is the first of `errors`."""

    error: Annotated[FaultOut, msgspec.Meta(description="The first of `errors`.")]
    errors: Annotated[list[FaultOut], msgspec.Meta(description="Everything that is wrong with the request.")]


class ErrorOut(RefusalOut):
    """`error` is the first of `errors`; `error_code` is stable, `message` is for people and may change."""

    request_id: Annotated[
        str,
        msgspec.Meta(
            description="Also in the header `X-Request-Id`. Quote it when you ask for help.",
            examples=["req_06gtv67pjgdsg50qjnffgu5fio"],
        ),
    ]


class Unauthorised(TonneError, kind=Kind.UNAUTHENTICATED, code="unauthorised"):
    """The API key is missing, malformed, unknown, expired or revoked; the response says only whether there was an
    `Authorization` header.

    Send `Authorization: Bearer <API_KEY>` with a valid key.

    Malformed, unknown and revoked keys get the same response, so that it reveals nothing about them.
    """

    message = "Send a valid API key in the header `Authorization: Bearer <API_KEY>`."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.headers["WWW-Authenticate"] = "Bearer"


class AccountClosed(TonneError, kind=Kind.FORBIDDEN, code="account_closed"):
    """The account, the key's own account or its organisation is closed: keys of closed accounts do not work, and
    nothing new is ordered.

    Ask the operator; a key of another account of the organisation can still read.
    """

    message = "This account is closed, so nothing can be ordered and its API keys do not work. Ask the operator."


class KeyPermissionMissing(TonneError, kind=Kind.FORBIDDEN, code="key_permission_missing"):
    """The API key is [restricted](api-keys.md), and lacks the permission that the message names.

    Use a key that has it, or create one: the permissions of a key do not change.
    """

    message = "This API key lacks the permission for this request. Use a key that has it."

    @classmethod
    def of(cls, permission: str) -> "KeyPermissionMissing":
        return cls(
            f"This API key lacks the permission {permission}. Use a key that has it, or create one: permissions of a "
            "key do not change."
        )


class KeyAccountNotAllowed(TonneError, kind=Kind.FORBIDDEN, code="key_account_not_allowed"):
    """The API key is restricted to accounts, and `Service-Account` or the path names another one of the organisation,
    or a new one is created.

    Use a key that may act for this account.
    """

    message = "This API key is restricted to other accounts. Use a key that may act for this account."


class KeyNetworkNotAllowed(TonneError, kind=Kind.FORBIDDEN, code="key_network_not_allowed"):
    """The API key is restricted to networks, and the request comes from another one; the message names the address.

    Send the request from one of them, or create a key for this network.
    """

    message = "This API key is restricted to other networks. Use it from one of them."

    @classmethod
    def of(cls, client: str) -> "KeyNetworkNotAllowed":
        return cls(
            f"This API key is restricted to networks that {client} does not belong to. Use it from one of them, or "
            "create a key for this network."
        )


class AccountNotFound(TonneError, kind=Kind.NOT_FOUND, code="account_not_found"):
    """`Service-Account` or the path names an account outside the key's organisation and mode, or of the other kind.

    Use one of your own accounts, or omit the header.
    """

    message = "This API key has no access to such an account. Check the account id and the key's mode."


class RouteNotFound(TonneError, kind=Kind.NOT_FOUND, code="route_not_found"):
    """With 404, there is nothing at this URL; with 400, no way leads from the source of an estimate to its destination
    by this method, or not through the `transit_corridor`.

    See `/docs/api/`; send the distance, or split the way into legs.
    """

    message = "This path does not exist. /docs/api/ lists all endpoints."


def require_test_mode(scope: Scope) -> None:
    """Test helpers do not exist in live mode."""
    if scope.mode is not Mode.TEST:
        raise RouteNotFound("Test helpers work with test API keys only.")


class BodyTimeout(TonneError, kind=Kind.TIMED_OUT, code="request_timeout"):
    """The body did not arrive within 10 seconds.

    Send the whole request again.
    """

    message = N_("The body did not arrive within 10 seconds. Send the whole request again.")


class MethodNotAllowed(TonneError, kind=Kind.METHOD_NOT_ALLOWED, code="method_not_allowed"):
    """The URL does not support this method; the message names URLs below it that do.

    Use a method from the `Allow` header, or one of those URLs.
    """

    message = "This path does not support this method. The Allow header lists the methods that it supports."


class BodyTooLarge(TonneError, kind=Kind.TOO_LARGE, code="body_too_large"):
    """The body is larger than 256 KiB.

    Send a smaller body.
    """

    message = N_("The body is larger than 256 KiB. Send a smaller one.")


def too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(N_("The body is larger than %(size)s KiB. Send a smaller one."), size=max_bytes // 1024)


class MediaTypeInvalid(TonneError, kind=Kind.WRONG_MEDIA_TYPE, code="media_type_invalid"):
    """The `Content-Type` is not `application/json`.

    Send `Content-Type: application/json`.
    """

    message = "Send the body as JSON, with the header `Content-Type: application/json`."


class FormInvalid(TonneError, kind=Kind.INVALID, code="form_invalid"):
    """The form cannot be read.

    Reload the page.
    """

    message = N_("The form could not be read. Go back, reload the page and send it again.")


class RateLimited(TonneError, kind=Kind.RATE_LIMITED, code="rate_limited"):
    """The key or the organisation makes too many requests, or there are too many failed authentications or certificate
    lookups from this address.

    Wait for the number of seconds in `Retry-After`; `RateLimit-Remaining` warns beforehand.
    """

    message = "Too many requests. Wait for the number of seconds in the Retry-After header."


class InternalError(TonneError, kind=Kind.INTERNAL, code="internal_error"):
    """An error on our side.

    Repeat the request with the same `idempotency_key`; if it persists, send us the `request_id`.
    """

    message = "An internal error occurred. You can safely repeat the request with the same idempotency_key."


class ServiceUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="service_unavailable"):
    """The database cannot be reached or took too long.

    Repeat the request after `Retry-After` seconds; it is safe.
    """

    message = N_("The database is unavailable. You can safely repeat the request in a moment.")

    def __init__(self, *, is_draining: bool = False) -> None:
        super().__init__(N_("The server is about to stop. Use another one.") if is_draining else None)
        self.is_draining = is_draining
        self.headers["Retry-After"] = "1"


def documented(faults: Iterable[Fault]) -> list[FaultOut]:
    page = f"{BASE_URL.get('')}/docs/errors/"
    return [same_named(FaultOut, each, documentation_url=f"{page}#{each.error_code}") for each in faults]


def refusal_out(faults: Iterable[Fault]) -> RefusalOut:
    entries = documented(faults)
    return RefusalOut(entries[0], entries)


def error_body(faults: Sequence[Fault], request_id: str) -> bytes:
    entries = documented(faults)
    return msgspec.json.encode(ErrorOut(entries[0], entries, request_id))
