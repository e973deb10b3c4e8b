"""One call of the API with all its attempts: the request, when to repeat it, and the result. No I/O."""

import json
import random
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from enum import Enum
from types import NoneType
from typing import Any, Final
from urllib.parse import quote

import httpx

from tonne_client.base_model import converter
from tonne_client.errors import ConnectionFailed, TimedOut, TonneError, UnexpectedResponse, api_error

FileInput = bytes | tuple[str, bytes, str]
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 8.0
# A longer `Retry-After` is left to the caller.
LONGEST_RETRY_AFTER_S = 60.0
_KEY: Final = "idempotency_key"
# The service, or a proxy in front of it, failed or is not available for a moment.
_TRY_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
# The request was refused before anything was done.
_REFUSED: Final = frozenset({408, 429})
# What may be repeated with a key beside the body.
_WITH_KEY: Final = frozenset({"header", "items"})
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Omit(Enum):
    """The type of `OMIT`, which leaves a field out. `None` sends null."""

    OMIT = "omit"

    def __repr__(self) -> str:
        return "OMIT"


OMIT: Final = Omit.OMIT


def segment(name: str, value: str) -> str:
    """A parameter of a path, encoded."""
    if value in {"", ".", ".."}:
        raise ValueError(f"{name} must not be {value!r}.")
    return quote(value, safe="")


class Call:
    """The state of one call. `repeat` says when the request may be sent again:

    always: it changes nothing, or sets a state. key, items: it carries an idempotency key, or each of its items does;
    those that are missing are made here, once, so that every attempt has the same. header: likewise, with the key in
    the header `Idempotency-Key`. delete: always, and if a repeated one finds nothing, the first one was successful.
    never: only if it had no effect.
    """

    __slots__ = ("_attempts", "_max_retries", "_repeat", "content", "files", "headers", "method", "path", "query")

    def __init__(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        files: Mapping[str, FileInput] | None = None,
        repeat: str | None = None,
        idempotency_key: str | Omit = OMIT,
        max_retries: int = 0,
    ) -> None:
        repeat = repeat or ("never" if method == "POST" else "always")
        if isinstance(idempotency_key, str):
            if repeat not in _WITH_KEY:
                raise TypeError(f"{method} {path} takes no idempotency_key: it creates nothing.")
            # The service makes the keys of the items from it.
            repeat = "header"
        self.method = method
        self.path = path
        self.query = _pairs(query) if query else None
        self.files = dict(files) if files else None
        self.headers: dict[str, str] = {}
        self.content: bytes | None = None
        if body is not None:
            self.content = _encode(_with_keys(_without_omitted(body), repeat))
            self.headers["Content-Type"] = "application/json"
        if repeat == "header":
            self.headers["Idempotency-Key"] = idempotency_key if isinstance(idempotency_key, str) else _new_key()
        self._repeat = repeat
        self._max_retries = max_retries
        self._attempts = 0

    def wait_after_failure(self, error: httpx.TransportError) -> float:
        """How long to wait before the next attempt, in seconds. Raises the error if there is none."""
        if self._has_retry and (self._repeat != "never" or isinstance(error, _NOT_SENT)):
            return self._back_off()
        kind = TimedOut if isinstance(error, httpx.TimeoutException) else ConnectionFailed
        raise kind(f"{self.method} {self.path} failed: {str(error) or type(error).__name__}") from error

    def wait_after_response(self, response: httpx.Response) -> float | None:
        """As above. None if the response is a success; raises the error that it describes."""
        if response.is_success:
            return None
        # The attempt before has deleted it, and its response was lost.
        if self._repeat == "delete" and response.status_code == 404 and self._attempts > 0:
            return None
        retry_after_s = _retry_after(response)
        error = _error(response, retry_after_s)
        if (
            not self._has_retry
            or response.status_code not in _TRY_AGAIN
            or (retry_after_s or 0) > LONGEST_RETRY_AFTER_S
        ):
            raise error
        is_refused = response.status_code in _REFUSED or getattr(error, "code", "") == "service_held"
        if self._repeat == "never" and not is_refused:
            raise error
        return max(retry_after_s or 0, self._back_off())

    @property
    def _has_retry(self) -> bool:
        return self._attempts < self._max_retries

    def _back_off(self) -> float:
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * (1 << self._attempts))
        self._attempts += 1
        # Jitter: clients that failed together must not come back together.
        return wait_s * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


def decode(returns: Any, response: httpx.Response) -> Any:
    """The body of a successful response as this type."""
    if returns is bytes:
        return response.content
    if returns is NoneType:
        return None
    try:
        # `loads` also finds out the encoding; it is always UTF-8.
        document = json.loads(response.content)
    except ValueError as error:
        text = f"The response with the status {response.status_code} is not JSON. Check base_url."
        raise UnexpectedResponse(text) from error
    return converter(returns)(document)


def _error(response: httpx.Response, retry_after_s: float | None) -> TonneError:
    try:
        document = json.loads(response.content)
    except ValueError:
        document = None
    return api_error(response.status_code, document, response.headers.get("X-Request-Id"), retry_after_s)


def _retry_after(response: httpx.Response) -> float | None:
    """`Retry-After` in seconds: the header has a number or a date."""
    text = response.headers.get("Retry-After", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _without_omitted(body: Any) -> Any:
    return {name: value for name, value in body.items() if value is not OMIT} if isinstance(body, Mapping) else body


def _with_keys(body: Any, repeat: str) -> Any:
    """The body with the idempotency keys that are missing."""
    if repeat == "key":
        return {**body, _KEY: body.get(_KEY) or _new_key()}
    return [{**item, _KEY: item.get(_KEY) or _new_key()} for item in body] if repeat == "items" else body


def _new_key() -> str:
    return f"auto-{uuid.uuid4().hex}"


def _pairs(query: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        if value is OMIT or value is None:
            continue
        if isinstance(value, Mapping):
            pairs += [(f"{name}[{key}]", _text(entry)) for key, entry in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            pairs += [(name, _text(entry)) for entry in value]
        else:
            pairs.append((name, _text(value)))
    return pairs


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else _plain(value)


def _encode(body: Any) -> bytes:
    return json.dumps(body, default=_plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _plain(value: Any) -> Any:
    """A value that JSON has no type for. Decimals never become floats."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    raise TypeError(f"{type(value).__name__} cannot be sent: use str, int, Decimal, datetime, list or dict.")
