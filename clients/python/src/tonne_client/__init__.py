"""Client of Tonne, a service that sells carbon offsets as orders."""

from tonne_client.attempts import OMIT, Omit
from tonne_client.base_model import Model, UnknownModel
from tonne_client.callers import VERSION, CallOptions
from tonne_client.client import AsyncClient, Client
from tonne_client.errors import (
    ApiError,
    BadRequest,
    Conflict,
    ConnectionFailed,
    FieldError,
    Forbidden,
    NotFound,
    RateLimited,
    ServiceFailed,
    TimedOut,
    TonneError,
    Unauthorised,
    UnexpectedResponse,
)
from tonne_client.inbox import InboxStore, StoredEvent, WebhookInbox
from tonne_client.inbox_stores import MemoryStore, SqliteStore
from tonne_client.pages import AsyncPages, Page, Pages
from tonne_client.webhooks import WebhookInvalid, parse_events, verify_webhook

__version__ = VERSION
__all__ = [
    "OMIT",
    "ApiError",
    "AsyncClient",
    "AsyncPages",
    "BadRequest",
    "CallOptions",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "FieldError",
    "Forbidden",
    "InboxStore",
    "MemoryStore",
    "Model",
    "NotFound",
    "Omit",
    "Page",
    "Pages",
    "RateLimited",
    "ServiceFailed",
    "SqliteStore",
    "StoredEvent",
    "TimedOut",
    "TonneError",
    "Unauthorised",
    "UnexpectedResponse",
    "UnknownModel",
    "WebhookInbox",
    "WebhookInvalid",
    "__version__",
    "parse_events",
    "verify_webhook",
]
