"""Routes of the webhook endpoints."""

from functools import partial

from tonne.events.errors import SequenceInvalid
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.http.route import Access, Route
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

_route = partial(Route, access=Access.API_KEY, tag="Webhooks")
_ONE = "/v1/webhooks/{webhook_id}"


def webhook_routes(endpoints: WebhookEndpoints) -> list[Route]:
    return [*_registration_routes(endpoints), *_delivery_routes(endpoints)]


def _registration_routes(endpoints: WebhookEndpoints) -> list[Route]:
    return [
        _route(
            method="POST",
            path="/v1/webhooks",
            endpoint=endpoints.register_webhook,
            summary="Register a webhook",
            body=WebhookIn,
            example={"url": "https://hooks.example.com/tonne"},
            answers={201: WebhookOut},
            errors=(WebhookUrlInvalid, WebhookAccountInvalid, WebhookLimitReached),
        ),
        _route(
            method="GET",
            path="/v1/webhooks",
            endpoint=endpoints.list_webhooks,
            summary="List the webhooks, newest first",
            query=LIST_PARAMETERS,
            answers={200: ListOut[WebhookOut]},
            errors=LIST_ERRORS,
        ),
        _route(
            method="GET",
            path=_ONE,
            endpoint=endpoints.read_webhook,
            summary="Read a webhook and its delivery state",
            answers={200: WebhookOut},
            errors=(WebhookNotFound,),
        ),
        _route(
            method="PUT",
            path=_ONE,
            endpoint=endpoints.change_webhook,
            summary="Change a webhook",
            body=WebhookChangeIn,
            example={"enabled": False},
            answers={200: WebhookOut},
            errors=(WebhookNotFound, WebhookUrlInvalid, WebhookAccountInvalid),
        ),
        _route(
            method="DELETE",
            path=_ONE,
            endpoint=endpoints.delete_webhook,
            summary="Delete a webhook",
            answers={204: None},
            errors=(WebhookNotFound,),
        ),
        _route(
            method="POST",
            path=f"{_ONE}/rotate-secret",
            endpoint=endpoints.rotate_secret,
            summary="Rotate the signing secret",
            body=RotateIn,
            body_required=False,
            example={"overlap_seconds": 86400},
            answers={200: WebhookOut},
            errors=(WebhookNotFound,),
        ),
    ]


def _delivery_routes(endpoints: WebhookEndpoints) -> list[Route]:
    return [
        _route(
            method="POST",
            path=f"{_ONE}/test",
            endpoint=endpoints.test_webhook,
            summary="Send a test event now",
            answers={200: TestOut},
            errors=(WebhookNotFound,),
        ),
        _route(
            method="GET",
            path=f"{_ONE}/attempts",
            endpoint=endpoints.list_attempts,
            summary="List the delivery attempts, newest first",
            query=LIST_PARAMETERS,
            answers={200: ListOut[AttemptOut]},
            errors=(*LIST_ERRORS, WebhookNotFound),
        ),
        _route(
            method="POST",
            path=f"{_ONE}/rewind",
            endpoint=endpoints.rewind_webhook,
            summary="Send events again from a sequence or an event on",
            body=RewindIn,
            example={"sequence": "2026-11-15T10:00:00.000Z"},
            answers={200: WebhookOut},
            errors=(WebhookNotFound, RewindInvalid, SequenceInvalid),
        ),
        _route(
            method="POST",
            path=f"{_ONE}/retry-now",
            endpoint=endpoints.retry_webhook_now,
            summary="Retry without waiting for the back-off",
            answers={200: WebhookOut},
            errors=(WebhookNotFound,),
        ),
        _route(
            method="POST",
            path=f"{_ONE}/skip",
            endpoint=endpoints.skip_event,
            summary="Skip the refused event of a parked account",
            body=SkipIn,
            example={"event_id": "evt_06gtv1alff3htg9thvlvj59t20"},
            answers={200: WebhookOut},
            errors=(WebhookNotFound, EventNotParked),
        ),
    ]
