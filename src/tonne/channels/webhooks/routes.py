"""Routes of the webhook endpoints."""

from tonne.channels.webhooks import schemas
from tonne.channels.webhooks.endpoints import WebhookEndpoints
from tonne.channels.webhooks.errors import (
    EventNotParked,
    OverlapPromised,
    RewindInvalid,
    WebhookAccountInvalid,
    WebhookLimitReached,
    WebhookNotFound,
    WebhookUrlInvalid,
)
from tonne.platform.events.errors import EventsRemoved, SequenceInvalid
from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.platform.http.route import Creation, Parameter, Route, RouteMaker

_ONE = "/v1/webhooks/{webhook_id}"
_URL_ERRORS = (WebhookUrlInvalid, WebhookAccountInvalid)


def webhook_routes(endpoints: WebhookEndpoints) -> list[Route]:
    return [*_registration_routes(endpoints), *_delivery_routes(endpoints)]


def _registration_routes(endpoints: WebhookEndpoints) -> list[Route]:
    route = RouteMaker("Webhooks")
    secret = Creation(read=endpoints.read_webhook, parameter="webhook_id", has_secret=True, of_organisation=True)
    return [
        route(
            "POST /v1/webhooks",
            endpoints.register_webhook,
            {201: schemas.WebhookOut},
            *_URL_ERRORS,
            WebhookLimitReached,
            operation_id="registerWebhook",
            body=schemas.WebhookIn,
            creates=secret,
        ),
        route(
            "GET /v1/webhooks",
            endpoints.list_webhooks,
            list[schemas.WebhookOut],
            operation_id="listWebhooks",
            query=(
                # Existing clients send them to every list.
                Parameter("limit", "Accepted and ignored: the array is always complete.", {"type": "string"}),
                Parameter("after", "Accepted and ignored: the array is always complete.", {"type": "string"}),
                Parameter(
                    "account_id",
                    "Only webhooks that get events of this account. May be repeated.",
                    {"type": "array", "items": {"type": "string"}},
                ),
            ),
        ),
        route(f"GET {_ONE}", endpoints.read_webhook, schemas.WebhookOut, WebhookNotFound, operation_id="getWebhook"),
        route(
            f"PUT {_ONE}",
            endpoints.change_webhook,
            schemas.WebhookOut,
            WebhookNotFound,
            *_URL_ERRORS,
            operation_id="updateWebhook",
            body=schemas.WebhookChangeIn,
        ),
        route(f"DELETE {_ONE}", endpoints.delete_webhook, {204: None}, WebhookNotFound, operation_id="deleteWebhook"),
        # Some clients rotate with PUT: both methods do the same.
        *(
            route(
                f"{method} {_ONE}/rotate-secret",
                endpoints.rotate_secret,
                schemas.WebhookOut,
                WebhookNotFound,
                OverlapPromised,
                operation_id=operation_id,
                body=schemas.RotateIn,
                body_required=False,
                creates=secret,
            )
            for method, operation_id in (("POST", "rotateWebhookSecret"), ("PUT", "replaceWebhookSecret"))
        ),
    ]


def _delivery_routes(endpoints: WebhookEndpoints) -> list[Route]:
    route = RouteMaker("Webhooks")
    return [
        route(
            f"POST {_ONE}/test",
            endpoints.send_test_event,
            schemas.WebhookTestOut,
            WebhookNotFound,
            operation_id="sendTestEvent",
        ),
        route(
            f"GET {_ONE}/attempts",
            endpoints.list_attempts,
            ListOut[schemas.WebhookAttemptOut],
            *LIST_ERRORS,
            WebhookNotFound,
            operation_id="listWebhookAttempts",
            query=LIST_PARAMETERS,
        ),
        route(
            f"POST {_ONE}/rewind",
            endpoints.rewind_webhook,
            schemas.WebhookOut,
            WebhookNotFound,
            RewindInvalid,
            SequenceInvalid,
            EventsRemoved,
            operation_id="rewindWebhook",
            body=schemas.RewindIn,
            example={"sequence": "2026-11-15T10:00:00.000Z"},
        ),
        route(
            f"POST {_ONE}/retry-now",
            endpoints.retry_webhook_now,
            schemas.WebhookOut,
            WebhookNotFound,
            operation_id="retryWebhookNow",
        ),
        route(
            f"POST {_ONE}/skip",
            endpoints.skip_event,
            schemas.WebhookOut,
            WebhookNotFound,
            EventNotParked,
            operation_id="skipParkedEvent",
            body=schemas.SkipIn,
        ),
    ]
