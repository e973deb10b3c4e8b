"""Webhooks on the wire."""

from typing import Annotated

import msgspec

from tonne.base.clock import to_wire
from tonne.catalog.schemas import Timestamp
from tonne.webhooks.model import Progress, Webhook
from tonne.webhooks.outcomes import Delivered, SendOutcome

_URL = Annotated[
    str,
    msgspec.Meta(
        description="A public https address, on port 443 or 8443.",
        extra_json_schema={"maxLength": 2048},
        examples=["https://hooks.example.com/tonne"],
    ),
]
_ACCOUNTS = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=100)]],
    msgspec.Meta(max_length=1000, description="Only events of these accounts. Empty: all of the organisation's."),
]
_EVENT_ID = Annotated[str, msgspec.Meta(max_length=100, examples=["evt_06gtv1alff3htg9thvlvj59t20"])]


class WebhookIn(msgspec.Struct, forbid_unknown_fields=True):
    url: _URL
    account_ids: _ACCOUNTS | None = None


class WebhookChangeIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    url: _URL | None = None
    enabled: bool | None = None
    account_ids: _ACCOUNTS | None = None


class RotateIn(msgspec.Struct, forbid_unknown_fields=True):
    overlap_seconds: Annotated[
        int, msgspec.Meta(ge=0, le=604_800, description="For so long both secrets sign; at most 7 days.")
    ] = 0


class RewindIn(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one of the two."""

    sequence: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=30,
                description="Deliver again all events from this sequence on.",
                examples=["2026-11-15T10:00:00.000Z"],
            ),
        ]
        | None
    ) = None
    event_id: _EVENT_ID | None = None


class SkipIn(msgspec.Struct, forbid_unknown_fields=True):
    event_id: _EVENT_ID


class ParkedOut(msgspec.Struct):
    """An account whose next event the receiver keeps refusing while it takes others."""

    account_id: str
    event_id: str
    event_type: str
    refusals: int
    parked_at: Timestamp
    next_attempt_at: Timestamp


class DeliveryOut(msgspec.Struct):
    """Why an event has not arrived yet."""

    state: Annotated[
        str,
        msgspec.Meta(
            description="idle: nothing waits. delivering: events are on their way. failing: the receiver refuses or "
            "does not answer. disabled: switched off; events wait.",
            extra_json_schema={"enum": ["idle", "delivering", "failing", "disabled"]},
        ),
    ]
    waiting_events: Annotated[int, msgspec.Meta(description="Events behind, those out of scope included.")]
    oldest_waiting_at: Timestamp | None
    failures: int
    failing_since: Timestamp | None
    next_attempt_at: Timestamp | None
    parked: list[ParkedOut]


class WebhookOut(msgspec.Struct):
    """`secret` is whole only in the answers to registration and rotation; elsewhere its last four characters show."""

    id: str
    url: str
    enabled: bool
    account_type: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["live", "test"]})]
    account_ids: list[str]
    created_at: Timestamp
    secret: str
    delivery: DeliveryOut


class AttemptOut(msgspec.Struct):
    id: str
    at: Timestamp
    event_ids: list[str]
    acknowledged: bool
    status: int | None
    error: Annotated[str | None, msgspec.Meta(examples=["timeout"])]
    duration_ms: int
    answer: Annotated[str, msgspec.Meta(description="The first 2 KiB of what the receiver answered.")]


class TestOut(msgspec.Struct):
    event_id: str
    acknowledged: bool
    status: int | None
    error: str | None
    duration_ms: int
    answer: str


def webhook_out(webhook: Webhook, progress: Progress, secret: str | None = None) -> WebhookOut:
    return WebhookOut(
        id=webhook.id,
        url=webhook.url,
        enabled=webhook.enabled,
        account_type=webhook.mode,
        account_ids=list(webhook.account_ids),
        created_at=to_wire(webhook.created_at),
        secret=secret or f"whsec_...{webhook.secret_last_four}",
        delivery=_delivery_out(webhook, progress),
    )


def test_out(event_id: str, outcome: SendOutcome) -> TestOut:
    return TestOut(
        event_id, isinstance(outcome, Delivered), outcome.status, outcome.error, outcome.duration_ms, outcome.answer
    )


def _delivery_out(webhook: Webhook, progress: Progress) -> DeliveryOut:
    waiting = progress.last_position - progress.cursor_position
    state = "idle" if waiting == 0 else "delivering"
    if progress.failures:
        state = "failing"
    if not webhook.enabled:
        state = "disabled"
    return DeliveryOut(
        state=state,
        waiting_events=waiting,
        oldest_waiting_at=to_wire(progress.oldest_waiting) if progress.oldest_waiting else None,
        failures=progress.failures,
        failing_since=to_wire(progress.failing_since) if progress.failing_since else None,
        next_attempt_at=to_wire(progress.next_attempt_at) if waiting and webhook.enabled else None,
        parked=[
            ParkedOut(
                lane.account_id,
                lane.event_id,
                lane.event_type,
                lane.refusals,
                to_wire(lane.parked_at),
                to_wire(lane.next_attempt_at),
            )
            for lane in progress.parked
        ],
    )
