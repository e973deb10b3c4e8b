"""A route is a row: address, endpoint, who may call it, what it takes and answers. OpenAPI is made from these rows."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from tonne.base.errors import Fault, Invalid, TonneError
from tonne.base.scope import Scope
from tonne.http.errors import FormInvalid, MediaTypeInvalid
from tonne.http.json_body import Document, decode_json

JSON = b"application/json"
FORM = b"application/x-www-form-urlencoded"


class Access(Enum):
    """Who may call a route. There is no default: a route that does not say is refused by a test and by the type."""

    PUBLIC = auto()
    API_KEY = auto()


@dataclass(slots=True)
class Response:
    body: bytes
    status: int = 200
    media_type: bytes = JSON
    headers: dict[str, str] = field(default_factory=dict)


class Request:
    """One request, admitted."""

    __slots__ = ("_key_id", "_path_parameters", "_scope", "body", "client", "headers", "query_string")

    def __init__(
        self,
        *,
        scope: Scope | None,
        key_id: str,
        client: str,
        headers: dict[bytes, bytes],
        path_parameters: dict[str, str],
        query_string: bytes,
        body: bytes,
    ) -> None:
        self._scope = scope
        self._key_id = key_id
        # The caller's network address.
        self.client = client
        self.headers = headers
        self._path_parameters = path_parameters
        self.query_string = query_string
        self.body = body

    @property
    def scope(self) -> Scope:
        """Whose data this call may touch. Only routes with `Access.API_KEY` have one."""
        if self._scope is None:
            raise LookupError("this route is public: it has no scope")
        return self._scope

    @property
    def actor(self) -> str:
        """Who is calling, for the audit log."""
        return f"key:{self._key_id}"

    def path(self, name: str) -> str:
        """A decoded path parameter; the empty string, which matches nothing, when it cannot be text in the database."""
        try:
            text = unquote_to_bytes(self._path_parameters[name].encode("latin-1")).decode("utf-8")
        except UnicodeDecodeError:
            return ""
        return "" if "\x00" in text else text

    def query(self, *names: str) -> list[str | None]:
        """The values of these query parameters; one sent twice is refused, since either could be meant."""
        values: dict[str, str] = {}
        for name, value in self._query_pairs():
            if name in names and name in values:
                raise Invalid([Fault("validation_error", f"{name} is given twice.", name)])
            # The database takes no NUL; the two that page a list are judged by their own rules.
            if name in names and "\x00" in value and name not in {"limit", "after"}:
                raise Invalid([Fault("validation_error", f"{name} has a NUL character.", name)])
            values[name] = value
        return [values.get(name) for name in names]

    def query_values(self, name: str) -> list[str]:
        """All values of a query parameter that may be repeated."""
        return [value.replace("\x00", "") for found, value in self._query_pairs() if found == name]

    def _query_pairs(self) -> list[tuple[str, str]]:
        try:
            return _pairs(self.query_string.decode("ascii"))
        except ValueError as error:
            raise Invalid([Fault("validation_error", "The query string cannot be read.")]) from error

    def form(self) -> dict[str, list[str]]:
        """The fields of a form that a page has sent. NUL characters, which no honest field has, are dropped."""
        media_type = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type != FORM:
            raise FormInvalid
        try:
            pairs = parse_qsl(self.body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=200)
        except ValueError as error:
            raise FormInvalid from error
        fields: dict[str, list[str]] = {}
        for name, value in pairs:
            fields.setdefault(name, []).append(value.replace("\x00", ""))
        return fields

    def cookie(self, name: str) -> str:
        """Empty when the browser sent none."""
        for part in self.headers.get(b"cookie", b"").decode("latin-1").split(";"):
            found, _, value = part.strip().partition("=")
            if found == name:
                return value
        return ""

    def json_or_empty(self) -> Document:
        """For bodies of which every field may be left out: so may the body."""
        return self.json() if self.body else Document(b"{}", {})

    def json(self) -> Document:
        media_type = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type != JSON:
            raise MediaTypeInvalid
        return decode_json(self.body)


def _pairs(query: str) -> list[tuple[str, str]]:
    if "%" in query or "+" in query:
        return parse_qsl(query, keep_blank_values=True, errors="strict")
    # Nothing to decode, as in nearly every request: then splitting is all there is to do.
    split = [part.partition("=") for part in query.split("&") if part]
    return [(name, value) for name, _, value in split]


Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query or path parameter, as the OpenAPI document shows it."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str
    endpoint: Endpoint
    access: Access
    tag: str
    body: type[msgspec.Struct] | None = None
    body_required: bool = True
    query: Sequence[Parameter] = ()
    # Status code to the shape of the answer; None for one that is not JSON.
    answers: dict[int, Any]
    errors: Sequence[type[TonneError]] = ()
    # Of the body; without it the OpenAPI document shows the examples of the body's fields.
    example: Any = None
    # How a page shows a refusal, with the id of the request; without it, a refusal is JSON.
    show_error: Callable[[TonneError, str], Response] | None = None


class RouteMaker:
    """Makes routes that share a tag, an access rule, and whatever else `shared` names.

    A route's summary is the first line of its endpoint's docstring, its description the rest.
    """

    def __init__(self, tag: str, access: Access = Access.API_KEY, **shared: Any) -> None:
        self._shared = {"tag": tag, "access": access, **shared}

    def __call__(
        self, place: str, endpoint: Endpoint, answer: Any = None, *errors: type[TonneError], **more: Any
    ) -> Route:
        """`place` is method and path; `answer` is the shape of a 200, or a dictionary of shapes by status."""
        method, path = place.split(" ")
        answers = answer if isinstance(answer, dict) else {200: answer}
        fields = {**self._shared, "errors": errors, **more}
        return Route(method=method, path=path, endpoint=endpoint, answers=answers, **fields)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status)
