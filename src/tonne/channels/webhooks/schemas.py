"""Request and response bodies of the webhook endpoints."""

from enum import StrEnum
from typing import Annotated, Any, cast

import asyncpg
import msgspec
from msgspec import Meta

from tonne.channels.webhooks.delivery.outcomes import Delivered, SendOutcome
from tonne.channels.webhooks.model import DisabledReason, EventType, ParkedAccount, Progress, Webhook, in_order
from tonne.platform.values.context import Mode, Timestamp, replace, same_named, to_wire
from tonne.platform.web.fields import described

_EVENT = "evt_06gtv1alff3htg9thvlvj59t20"
_ACCOUNT = "acc_06gtv1alff3htg9thvlvj59t20"
_TIME = "2026-11-15T10:00:00.123Z"
_ADDRESS = "https://hooks.example.com/tonne"

_URL = described(
    "An https URL whose host has public addresses.",
    example=_ADDRESS,
    label="Address",
    hint="A public https address. It gets the events below.",
)
_Url = Annotated[str, Meta(extra_json_schema={"maxLength": 2048, "format": "uri"}), _URL]
_AccountIds = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=1000, examples=[[_ACCOUNT]])]
_OnlyAccounts = described(
    "Only events of these accounts. An empty list means all accounts of the organisation.",
    example=[_ACCOUNT],
    label="Only these accounts",
    hint="Ids of accounts, separated by spaces. Leave it empty for all accounts.",
)
_EventTypes = Annotated[
    list[EventType],
    Meta(
        description="The types of events that the webhook gets. An empty list means the seven types that report the "
        "status of an order, `order.received` to `order.completed`. Other types go only to webhooks that name them.",
        max_length=len(EventType),
        examples=[["order.completed", "refund.succeeded"]],
    ),
]
_OnGone = described(
    "Whether a response with status 410 disables the webhook. Otherwise its events are sent again until the receiver "
    "responds with 2xx.",
    example=False,
    label="Turn the webhook off when the receiver responds with status 410",
)
_Standard = described(
    "Whether requests also have the headers of Standard Webhooks, so that its libraries can verify them.",
    example=False,
    label="Sign requests for libraries of Standard Webhooks, too",
)
_EventId = Annotated[str, Meta(max_length=100, description="The id of an event.", examples=[_EVENT])]
_Acknowledged = Annotated[bool, Meta(description="Whether the receiver returned a 2xx status.", examples=[False])]
_Status = Annotated[
    int | None, Meta(description="The HTTP status. Null when the receiver did not respond.", examples=[503])
]
_Error = Annotated[
    str | None,
    Meta(
        description="Why the request failed. Null when it was acknowledged. `secret_unreadable`: nothing was sent, "
        "because the service cannot read the signing secret; its operator must act, or you rotate the secret.",
        examples=["timeout"],
    ),
]
_Duration = Annotated[int, Meta(description="How long the request took, in milliseconds.", examples=[87])]
_Body = Annotated[str, Meta(description="The first 2 KiB of the receiver's response body.", examples=["OK"])]


class DeliveryState(StrEnum):
    IDLE = "idle"
    DELIVERING = "delivering"
    FAILING = "failing"
    DISABLED = "disabled"


class WebhookIn(msgspec.Struct, forbid_unknown_fields=True):
    url: _Url
    account_ids: Annotated[_AccountIds | None, _OnlyAccounts] = None
    event_types: _EventTypes | None = None
    disable_on_gone: Annotated[bool, _OnGone] = False
    standard_webhooks: Annotated[bool, _Standard] = False


class WebhookChangeIn(msgspec.Struct, forbid_unknown_fields=True):
    """Fields that are left out keep their values."""

    url: Annotated[_Url | None, Meta(description="The new address.", examples=[_ADDRESS])] = None
    enabled: Annotated[bool | None, Meta(description="False stops deliveries; events wait.", examples=[False])] = None
    account_ids: Annotated[_AccountIds | None, _OnlyAccounts] = None
    event_types: _EventTypes | None = None
    disable_on_gone: Annotated[bool | None, _OnGone] = None
    standard_webhooks: Annotated[bool | None, _Standard] = None

    def applied_to(self, webhook: Webhook) -> Webhook:
        given: dict[str, Any] = {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not None
        }
        if self.account_ids is not None:
            given["account_ids"] = tuple(self.account_ids)
        if self.event_types is not None:
            given["event_types"] = in_order(self.event_types)
        return replace(webhook, **given)


class RotateIn(msgspec.Struct, forbid_unknown_fields=True):
    overlap_s: Annotated[
        int,
        Meta(
            ge=0,
            le=604_800,
            description="For how many seconds the replaced secret still signs, at most 7 days. 0 ends it and all older "
            "secrets at once.",
            examples=[3600],
        ),
    ] = 86_400


class RewindIn(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one of the two fields."""

    sequence: Annotated[
        Annotated[str, Meta(max_length=30)] | None,
        Meta(description="Send all events from this sequence on again.", examples=["2026-11-15T10:00:00.000Z"]),
    ] = None
    event_id: Annotated[
        _EventId | None, Meta(description="Send all events from this one on again.", examples=[_EVENT])
    ] = None


class SkipIn(msgspec.Struct, forbid_unknown_fields=True):
    event_id: Annotated[_EventId, Meta(description="The refused event of a parked account.")]


class ParkedAccountOut(msgspec.Struct):
    """An account whose next event the receiver keeps refusing while it accepts those of other accounts."""

    account_id: Annotated[str, Meta(description="The parked account.", examples=[_ACCOUNT])]
    event_id: Annotated[str, Meta(description="The event that the receiver refuses.", examples=[_EVENT])]
    event_type: Annotated[EventType, Meta(description="The type of that event.", examples=["order.placed"])]
    refusals: Annotated[int, Meta(description="How often the event has been refused.", examples=[7])]
    parked_at: Annotated[Timestamp, Meta(description="Since when only this account waits.")]
    next_attempt_at: Annotated[Timestamp, Meta(description="When the event is sent again.")]


class DeliveryProgressOut(msgspec.Struct):
    """Shows why an event has not arrived yet."""

    state: Annotated[
        DeliveryState,
        Meta(
            description="`idle`: no event waits. `delivering`: events are being sent. `failing`: the receiver refuses "
            "events or does not respond. `disabled`: deliveries are switched off and events wait.",
            examples=["failing"],
        ),
    ]
    waiting_events: Annotated[
        int, Meta(description="How many events are ahead of the cursor, including those out of scope.", examples=[3])
    ]
    oldest_waiting_at: Annotated[
        Timestamp | None, Meta(description="When the oldest of them happened.", examples=[_TIME])
    ]
    failures: Annotated[int, Meta(description="Failed attempts since the last success.", examples=[2])]
    failing_since: Annotated[Timestamp | None, Meta(description="The first of these failures.", examples=[_TIME])]
    next_attempt_at: Annotated[
        Timestamp | None,
        Meta(description="When the next request is due. Null when no event waits.", examples=[_TIME]),
    ]
    parked: Annotated[list[ParkedAccountOut], Meta(description="Accounts whose events wait separately.")]


class WebhookOut(msgspec.Struct):
    id: Annotated[str, Meta(description="The id of the webhook.", examples=["wh_06gtv1alff3htg9thvlvj59t20"])]
    url: Annotated[str, Meta(description="Where events are sent.", examples=[_ADDRESS])]
    enabled: Annotated[bool, Meta(description="False while deliveries are switched off.", examples=[True])]
    account_type: Annotated[Mode, Meta(description="The mode of its events.", examples=["live"])]
    account_ids: Annotated[list[str], _OnlyAccounts]
    event_types: _EventTypes
    disable_on_gone: Annotated[bool, _OnGone]
    standard_webhooks: Annotated[bool, _Standard]
    disabled_reason: Annotated[
        DisabledReason | None,
        Meta(
            description="Why Tonne has disabled the webhook. `gone`: the receiver answered with status 410, and "
            "`disable_on_gone` is set. Null when it is enabled, or a person disabled it.",
            examples=["gone"],
        ),
    ]
    created_at: Annotated[Timestamp, Meta(description="When it was registered.")]
    secret: Annotated[
        str | None,
        Meta(
            description="The signing secret. Complete only in the responses to registration and rotation, and null in "
            "repeats of them after 24 hours; elsewhere only its last four characters.",
            examples=["whsec_...x2Rk"],
        ),
    ]
    delivery: Annotated[DeliveryProgressOut, Meta(description="The state of its deliveries.")]


class WebhookAttemptOut(msgspec.Struct):
    id: Annotated[str, Meta(description="The id of the attempt.", examples=["att_06gtv1alff3htg9thvlvj59t20"])]
    at: Annotated[Timestamp, Meta(description="When the attempt ended.")]
    event_ids: Annotated[list[str], Meta(description="The events of the request, in order.", examples=[[_EVENT]])]
    acknowledged: _Acknowledged
    status: _Status
    error: _Error
    duration_ms: _Duration
    answer: _Body


class WebhookTestOut(msgspec.Struct):
    event_id: Annotated[str, Meta(description="The id of the test event.", examples=[_EVENT])]
    acknowledged: _Acknowledged
    status: _Status
    error: _Error
    duration_ms: _Duration
    answer: _Body


def webhook_out(webhook: Webhook, progress: Progress, secret: str | None = None) -> WebhookOut:
    return same_named(
        WebhookOut,
        webhook,
        account_type=webhook.mode,
        account_ids=list(webhook.account_ids),
        # Not converted: a newer release may know more types.
        event_types=cast("list[EventType]", list(webhook.event_types)),
        created_at=to_wire(webhook.created_at),
        secret=secret or f"whsec_...{webhook.secret_last_four}",
        delivery=_delivery_out(webhook, progress),
    )


def attempt_out(row: asyncpg.Record) -> WebhookAttemptOut:
    return WebhookAttemptOut(**{**row, "at": to_wire(row["at"])})


def webhook_test_out(event_id: str, outcome: SendOutcome) -> WebhookTestOut:
    delivered = isinstance(outcome, Delivered)
    return WebhookTestOut(event_id, delivered, outcome.status, outcome.error, outcome.duration_ms, outcome.answer)


def delivery_state(webhook: Webhook, progress: Progress) -> DeliveryState:
    if not webhook.enabled:
        return DeliveryState.DISABLED
    if progress.failures:
        return DeliveryState.FAILING
    return DeliveryState.DELIVERING if progress.waiting_events else DeliveryState.IDLE


def _delivery_out(webhook: Webhook, progress: Progress) -> DeliveryProgressOut:
    waiting = progress.waiting_events
    return DeliveryProgressOut(
        state=delivery_state(webhook, progress),
        waiting_events=waiting,
        oldest_waiting_at=to_wire(progress.oldest_waiting) if progress.oldest_waiting else None,
        failures=progress.failures,
        failing_since=to_wire(progress.failing_since) if progress.failing_since else None,
        next_attempt_at=to_wire(progress.next_attempt_at) if waiting and webhook.enabled else None,
        parked=[_parked_out(parked) for parked in progress.parked],
    )


def _parked_out(parked: ParkedAccount) -> ParkedAccountOut:
    """Its type is not converted: a newer release may have written one that this one does not know."""
    times = {"parked_at": to_wire(parked.parked_at), "next_attempt_at": to_wire(parked.next_attempt_at)}
    return same_named(ParkedAccountOut, parked, **times)
