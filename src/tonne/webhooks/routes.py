"""Routes of the webhook endpoints."""

from tonne.events.errors import SequenceInvalid
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.http.route import Route, RouteMaker
from tonne.webhooks.endpoints import WebhookEndpoints
from tonne.webhooks.errors import (
    EventNotParked,
    RewindInvalid,
    WebhookAccountInvalid,
    WebhookLimitReached,
    WebhookNotFound,
    WebhookUrlInvalid,
)
from tonne.webhooks.schemas import (
    AttemptOut,
    RewindIn,
    RotateIn,
    SkipIn,
    TestOut,
    WebhookChangeIn,
    WebhookIn,
    WebhookOut,
)

_ONE = "/v1/webhooks/{webhook_id}"
_URL_ERRORS = (WebhookUrlInvalid, WebhookAccountInvalid)


def webhook_routes(endpoints: WebhookEndpoints) -> list[Route]:
    route = RouteMaker("Webhooks")
    page, attempts = ListOut[WebhookOut], ListOut[AttemptOut]
    sequence = {"sequence": "2026-11-15T10:00:00.000Z"}
    return [
        route(
            *("POST /v1/webhooks", endpoints.register_webhook, {201: WebhookOut}),
            *(*_URL_ERRORS, WebhookLimitReached),
            body=WebhookIn,
        ),
        route("GET /v1/webhooks", endpoints.list_webhooks, page, *LIST_ERRORS, query=LIST_PARAMETERS),
        route(f"GET {_ONE}", endpoints.read_webhook, WebhookOut, WebhookNotFound),
        route(f"PUT {_ONE}", endpoints.change_webhook, WebhookOut, WebhookNotFound, *_URL_ERRORS, body=WebhookChangeIn),
        route(f"DELETE {_ONE}", endpoints.delete_webhook, {204: None}, WebhookNotFound),
        route(
            *(f"POST {_ONE}/rotate-secret", endpoints.rotate_secret, WebhookOut, WebhookNotFound),
            body=RotateIn,
            body_required=False,
        ),
        route(f"POST {_ONE}/test", endpoints.test_webhook, TestOut, WebhookNotFound),
        route(
            *(f"GET {_ONE}/attempts", endpoints.list_attempts, attempts, *LIST_ERRORS, WebhookNotFound),
            query=LIST_PARAMETERS,
        ),
        route(
            *(f"POST {_ONE}/rewind", endpoints.rewind_webhook, WebhookOut),
            *(WebhookNotFound, RewindInvalid, SequenceInvalid),
            body=RewindIn,
            example=sequence,
        ),
        route(f"POST {_ONE}/retry-now", endpoints.retry_webhook_now, WebhookOut, WebhookNotFound),
        route(f"POST {_ONE}/skip", endpoints.skip_event, WebhookOut, WebhookNotFound, EventNotParked, body=SkipIn),
    ]
