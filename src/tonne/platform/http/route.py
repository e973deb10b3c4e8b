"""Routes: path, endpoint, access rule, and what the OpenAPI document says about them. Requests and responses."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from enum import Enum, auto
from operator import itemgetter
from typing import Any, get_origin
from urllib.parse import unquote_to_bytes

import msgspec

from tonne.platform.http.client_address import limit_name
from tonne.platform.http.errors import FormInvalid, MediaTypeInvalid
from tonne.platform.http.json_body import (
    MAX_NAME,
    MAX_SUGGESTIONS,
    MAX_VALUES,
    Document,
    decode_json,
    decode_json_array,
    did_you_mean,
)
from tonne.platform.http.multipart import MULTIPART, MultipartForm, UploadedFile, parse_multipart
from tonne.platform.http.permissions import FULL_ACCESS, permission_of
from tonne.platform.http.query import is_map_entry, read_pairs, read_query
from tonne.platform.values.context import Actor, ActorKind, Scope
from tonne.platform.values.errors import Fault, Invalid, TonneError

JSON = b"application/json"
# All other methods are refused while the service is held.
READING_METHODS = frozenset({"GET", "HEAD"})
FORM = b"application/x-www-form-urlencoded"
MAX_BODY_BYTES = 256 * 1024


class Access(Enum):
    """Who may call a route. Every route must say it: there is no default."""

    PUBLIC = auto()
    API_KEY = auto()
    # People who are signed in. The server lets everyone pass; `apps/dashboard/viewer.py` wraps the endpoints.
    USER = auto()


class Response(msgspec.Struct):
    body: bytes
    status: int = 200
    media_type: bytes = JSON
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    # Instead of `body`, for long files: sent part by part, without a length. If it fails, the connection is closed
    # before the end, so that the client does not take a part for the whole. Each part is admitted and charged like a
    # request; a refusal before the first one is the response.
    stream: AsyncGenerator[bytes] | None = None
    # Values of `Set-Cookie` in addition to the one in `headers`.
    cookies: Sequence[str] = ()
    # Instead of `body`, until `put_together`: a page that is rendered only as far as it has been read.
    pieces: Iterator[str] | None = None


class Request:
    """A request that passed its route's access rule."""

    __slots__ = (
        *("_key_id", "_multipart", "_pairs", "_path_parameters", "_query_string", "_scope", "_whole_path"),
        *("accounts", "body", "client", "headers", "idempotency_key", "method", "permissions"),
    )

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
        idempotency_key: str | None = None,
        whole_path: str = "",
        accounts: frozenset[str] | None = None,
        permissions: frozenset[str] = FULL_ACCESS,
        method: str = "GET",
    ) -> None:
        self._scope = scope
        # The accounts that the API key is restricted to. None: all of its organisation.
        self.accounts = accounts
        self.permissions = permissions
        self._key_id = key_id
        # HEAD is answered by the endpoint for GET.
        self.method = method
        # The client's network address.
        self.client = client
        self.headers = headers
        self._path_parameters = path_parameters
        self._query_string = query_string
        self._pairs: list[tuple[str, str]] | None = None
        self.body = body
        # The header, for routes whose body has the field of the same name.
        self.idempotency_key = idempotency_key
        self._whole_path = whole_path
        self._multipart: MultipartForm | None = None

    @property
    def scope(self) -> Scope:
        """The account whose data this request may access. Only routes with `Access.API_KEY` have a scope."""
        if self._scope is None:
            raise LookupError("this route is public: it has no scope")
        return self._scope

    @property
    def location(self) -> str:
        """The path and the query string, still encoded, as in a browser's address bar."""
        query = self._query_string.decode("latin-1")
        return f"{self._whole_path}?{query}" if query else self._whole_path

    @property
    def limited_as(self) -> str:
        """The name under which limits per client are counted."""
        return limit_name(self.client)

    @property
    def actor(self) -> Actor:
        """Who is calling, for the audit log. Only routes with `Access.API_KEY` have an actor."""
        if self._scope is None:
            raise LookupError("this route is public: it has no actor")
        return Actor(ActorKind.KEY, self._key_id, self.client)

    def path(self, name: str) -> str:
        """A decoded path parameter, or the empty string, which matches nothing, if the database cannot store it."""
        try:
            text = unquote_to_bytes(self._path_parameters[name].encode("latin-1")).decode("utf-8")
        except UnicodeDecodeError:
            return ""
        return "" if "\x00" in text else text

    def with_path(self, name: str, value: str) -> "Request":
        """The same request with another path parameter."""
        changed = copy(self)
        changed._path_parameters = {**self._path_parameters, name: value}  # noqa: SLF001 - of the same class
        return changed

    def acting(self, scope: Scope, body: bytes) -> "Request":
        """The same request for another account, with another body."""
        changed = copy(self)
        changed._scope, changed.body = scope, body  # noqa: SLF001 - of the same class
        return changed

    def query(self, *names: str) -> list[str | None]:
        """The values of these query parameters. Raises Invalid for one that is given twice."""
        values: dict[str, str] = {}
        for name, value in self._query_pairs():
            if name in names and name in values:
                raise Invalid([Fault("validation_error", f"{name} is given twice.", name)])
            # The database cannot store NUL. The parameters of pagination have errors of their own.
            if name in names and "\x00" in value and name not in {"limit", "after"}:
                raise Invalid([Fault("validation_error", f"{name} contains a NUL character.", name)])
            values[name] = value
        return [values.get(name) for name in names]

    def query_values(self, name: str) -> list[str]:
        """All values of a query parameter that may be repeated."""
        return [value.replace("\x00", "") for found, value in self._query_pairs() if found == name]

    def query_map(self, name: str) -> dict[str, str]:
        """The values of `name[key]=value`, by key. Raises Invalid for a key that is given twice or is empty."""
        found: dict[str, str] = {}
        for full, value in self._query_pairs():
            if not is_map_entry(full, name):
                continue
            key = full[len(name) + 1 : -1]
            if not key or key in found or "\x00" in full + value:
                problem = "has no key" if not key else "is given twice" if key in found else "contains a NUL character"
                raise Invalid([Fault("validation_error", f"{full[:MAX_NAME]} {problem}.", full[:MAX_NAME])])
            found[key] = value
        return found

    def _query_pairs(self) -> list[tuple[str, str]]:
        if self._pairs is None:
            self._pairs = read_query(self._query_string)
        return self._pairs

    def form(self) -> dict[str, list[str]]:
        """The fields of a form, without NUL characters, which the database cannot store."""
        if self._media_type == MULTIPART:
            return self._read_multipart().fields
        if self._media_type != FORM:
            raise FormInvalid
        try:
            pairs = read_pairs(self.body)
        except ValueError as error:
            raise FormInvalid from error
        fields: dict[str, list[str]] = {}
        for name, value in pairs:
            fields.setdefault(name, []).append(value.replace("\x00", ""))
        return fields

    def file(self, name: str) -> UploadedFile | None:
        """The file of a form with `enctype="multipart/form-data"`; None if no file was chosen."""
        return self._read_multipart().files.get(name) if self._media_type == MULTIPART else None

    def upload(self, name: str) -> UploadedFile:
        """The file that an API client sends in a form. Raises MediaTypeInvalid or Invalid."""
        if self._media_type != MULTIPART:
            raise MediaTypeInvalid(f"Send the file as `multipart/form-data`, in the field `{name}`.")
        file = self.file(name)
        if file is None:
            raise Invalid([Fault("validation_error", f"The form has no file in the field `{name}`.", name)])
        return file

    def _read_multipart(self) -> MultipartForm:
        if self._multipart is None:
            self._multipart = parse_multipart(self.headers.get(b"content-type", b""), self.body)
        return self._multipart

    @property
    def _media_type(self) -> bytes:
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()

    @classmethod
    def without_body(cls, path: str, query_string: bytes, headers: dict[bytes, bytes]) -> "Request":
        """For the page of an error, which may occur before the route, the client or the body is known."""
        return cls(
            scope=None,
            key_id="",
            client="",
            headers=headers,
            path_parameters={},
            query_string=query_string,
            body=b"",
            whole_path=path,
        )

    def cookie(self, name: str) -> str:
        """The cookie's value, or the empty string."""
        for part in self.headers.get(b"cookie", b"").decode("latin-1").split(";"):
            found, _, value = part.strip().partition("=")
            if found == name:
                return value
        return ""

    def json_or_empty(self) -> Document:
        """For bodies in which all fields are optional: then the body is optional too."""
        return self.json() if self.body else Document(b"{}", {})

    def json(self, max_values: int = MAX_VALUES) -> Document:
        if self._media_type != JSON:
            raise MediaTypeInvalid
        document = decode_json(self.body, max_values)
        if self.idempotency_key is not None:
            document.add_idempotency_key(self.idempotency_key)
        return document

    def json_array(self, max_values: int = MAX_VALUES) -> list[Any]:
        """The body of a route whose body is an array."""
        if self._media_type != JSON:
            raise MediaTypeInvalid
        return decode_json_array(self.body, max_values)

    def check_query(self, known: Collection[str]) -> None:
        """Raises Invalid for unknown parameters: a misspelt filter would return the wrong rows."""
        unknown = list(
            dict.fromkeys(
                name
                for name, _ in self._query_pairs()
                if name not in known and not any(is_map_entry(name, each[:-2]) for each in known if each.endswith("[]"))
            )
        )
        if unknown:
            otherwise = f"Remove it: this path knows {', '.join(sorted(known))}." if known else "Remove it."
            names = [name[:MAX_NAME] for name in unknown[:MAX_SUGGESTIONS]]
            texts = {name: f"Unknown query parameter {name}. {did_you_mean(name, known, otherwise)}" for name in names}
            raise Invalid([Fault("validation_error", text, name) for name, text in texts.items()])


Endpoint = Callable[[Request], Awaitable[Response]]
ShowError = Callable[[TonneError, str, Request], Response]


class Parameter(msgspec.Struct, frozen=True):
    """A query or path parameter, as the OpenAPI document shows it.

    A name that ends with `[]` accepts parameters such as `metadata[key]=value`.
    """

    name: str
    description: str
    schema: dict[str, Any]


class FileType(msgspec.Struct, frozen=True):
    """The type of a response body that is a file for download, or the types that the client can ask for."""

    media_types: tuple[str, ...]


PDF_FILE = FileType(("application/pdf",))


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """What a route creates, if a repeat with the same `Idempotency-Key` must not create another one.

    For routes that do not store the key with what they create. Their endpoints create in a transaction.
    """

    # Answers a repeat to which the first response is not sent any more.
    read: Endpoint
    # The path parameter with which `read` finds what was created.
    parameter: str = ""
    # The id in the response.
    id_of: Callable[[Any], str] = itemgetter("id")
    # The response has a `secret`, which `read` does not show.
    has_secret: bool = False
    # It belongs to the organisation, not to one account, and so do the keys.
    of_organisation: bool = False


class Route(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    endpoint: Endpoint
    access: Access
    tag: str
    # A struct, or a list of structs for a body that is an array.
    body: Any = None
    body_required: bool = True
    # The field of a form (`multipart/form-data`) that carries a file, instead of a JSON body.
    file_field: str = ""
    query: Sequence[Parameter] = ()
    # The type of the JSON body for each status code, or a FileType; None if there is no body, or it is a page.
    answers: dict[int, Any]
    # The name of the operation in generated clients. It never changes; every route under /v1 has one.
    operation_id: str = ""
    errors: Sequence[type[TonneError]] = ()
    # Changes to the example of the response, which is made of the examples of its fields.
    shows: Mapping[str, Any] = {}
    # An example of the body; without it the OpenAPI document shows the examples of the body's fields.
    example: Any = None
    # Larger for forms with files.
    max_body_bytes: int = MAX_BODY_BYTES
    # False if the endpoint itself limits how much one organisation uses at a time. Of small bodies only.
    takes_fair_share: bool = True
    # Who is charged for a request that proves by its content who sent it. None: its network is.
    find_payer: Callable[[Request], str | None] | None = None
    # Renders errors as a page, with the request id. Without it, errors are JSON. The request has no body here.
    show_error: ShowError | None = None
    creates: Creation | None = None
    # The type of the member `client_account` of the body: the request is for this account, which is found or made.
    client_account: Any = None
    # What an API key needs to call the route, such as `orders:read`; empty for routes without an API key.
    permission: str = ""

    def __post_init__(self) -> None:
        if self.access is Access.API_KEY:
            msgspec.structs.force_setattr(self, "permission", permission_of(self.method, self.path))
        if self.creates is not None and 201 in self.answers:
            msgspec.structs.force_setattr(self, "answers", {200: self.answers[201], **self.answers})

    @property
    def reads_body(self) -> bool:
        return self.body is not None or bool(self.file_field)

    @property
    def creates_items(self) -> bool:
        """The body is an array. What its items create has the key of the request and their number."""
        return self.method == "POST" and get_origin(self.body) is list

    @property
    def takes_idempotency_key(self) -> bool:
        """Stores the key with what it creates. Other routes with keys have `creates`."""
        return self.creates_items or "idempotency_key" in getattr(self.body, "__struct_fields__", ())

    @property
    def is_idempotent_creation(self) -> bool:
        """201 for a new resource; 200 for the original if the idempotency key was used before."""
        return bool(self.takes_idempotency_key or self.creates) and {200, 201} <= self.answers.keys()


class RouteMaker:
    """Creates routes that share a tag, an access rule and the fields in `shared`.

    A route's summary is the first line of its endpoint's docstring, its description the rest.
    """

    def __init__(self, tag: str, access: Access = Access.API_KEY, **shared: Any) -> None:
        self._shared = {"tag": tag, "access": access, **shared}

    def __call__(
        self, method_and_path: str, endpoint: Endpoint, answer: Any = None, *errors: type[TonneError], **more: Any
    ) -> Route:
        """`answer` is the type of the body of a 200, or a dictionary of types by status."""
        method, path = method_and_path.split(" ")
        answers = answer if isinstance(answer, dict) else {200: answer}
        fields = {**self._shared, "errors": errors, **more}
        return Route(method=method, path=path, endpoint=endpoint, answers=answers, **fields)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status)
