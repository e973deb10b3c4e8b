"""What can go wrong. Every error of this library is a `TonneError`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class TonneError(Exception):
    """Base class of all errors of this library."""


class ConnectionFailed(TonneError):
    """The service could not be reached, or the connection broke. The cause is in `__cause__`.

    All retries failed, or the request could not be repeated: it is then unknown whether it was carried out.
    """


class TimedOut(ConnectionFailed):
    """The service did not respond in time."""


class UnexpectedResponse(TonneError):
    """The response is not one of the service: a proxy may have sent it, or the base URL is wrong."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One of the things that are wrong with a request. `field` is a path such as `bundle_selection[0].percentage`."""

    code: str
    message: str
    field: str | None = None


class ApiError(TonneError):
    """The service refused the request. The meaning of a `code` never changes."""

    def __init__(
        self,
        status: int,
        errors: Sequence[FieldError],
        *,
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        # The first one says what is wrong; the others are further faults of the same request.
        self.errors = tuple(errors)
        self.code = errors[0].code
        self.message = errors[0].message
        self.field = errors[0].field
        # Quote it when you ask the operator for help.
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        super().__init__(f"{self.message} ({status} {self.code}, request {request_id})")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.status, self.errors, self.request_id, self.retry_after_s)


class BadRequest(ApiError):
    """400 and 422: the request is invalid. `errors` lists every fault with its field."""


class Unauthorised(ApiError):
    """401: the API key is missing, wrong, expired or revoked."""


class Forbidden(ApiError):
    """403: the key may not do this."""


class NotFound(ApiError):
    """404: it does not exist, or belongs to another account or mode."""


class Conflict(ApiError):
    """409: the state of the resource does not allow this, such as `quote_expired`."""


class RateLimited(ApiError):
    """429: too many requests. `retry_after_s` says how long to wait."""


class ServiceFailed(ApiError):
    """5xx: the service failed, or is not available for a moment."""


BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorised,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: BadRequest,
    429: RateLimited,
}


def api_error(status: int, document: Any, request_id: str | None, retry_after_s: float | None) -> TonneError:
    """The error that a response describes."""
    try:
        faults = [document["error"], *document["errors"]]
        errors = [FieldError(fault["error_code"], fault["message"], fault.get("field")) for fault in faults]
        request_id = document.get("request_id") or request_id
    except (TypeError, KeyError):
        return UnexpectedResponse(f"The response has the status {status} and no error of the service. Check base_url.")
    # `error` repeats the first of `errors`.
    unique = list(dict.fromkeys(errors))
    kind = BY_STATUS.get(status, ServiceFailed if status >= 500 else ApiError)
    return kind(status, unique, request_id=request_id, retry_after_s=retry_after_s)


def _restore(kind: type[ApiError], status: int, errors: Sequence[FieldError], *rest: Any) -> ApiError:
    return kind(status, errors, request_id=rest[0], retry_after_s=rest[1])
