"""Values of webhooks: registration, types of events, progress, lease and batch."""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field

from tonne.platform.events.notification import Stream
from tonne.platform.values.context import Mode


class EventType(StrEnum):
    """New types may be added: ignore those that you do not know."""

    ORDER_RECEIVED = "order.received"
    ORDER_PLACED = "order.placed"
    ORDER_PAID = "order.paid"
    ORDER_RETIRING = "order.retiring"
    ORDER_CANCELLED = "order.cancelled"
    ORDER_FAILED = "order.failed"
    ORDER_COMPLETED = "order.completed"
    ORDER_PAYMENT_UPDATED = "order.payment_updated"
    ORDER_PERSON_ERASED = "order.person_erased"
    ORDER_REDUCED = "order.reduced"
    ORDER_RELEASED = "order.released"
    ALLOCATION_NEW = "allocation.new"
    ALLOCATION_RETIRED = "allocation.retired"
    INVOICE_ISSUED = "invoice.issued"
    INVOICE_OVERDUE = "invoice.overdue"
    INVOICE_PAID = "invoice.paid"
    INVOICE_CREDITED = "invoice.credited"
    INVOICE_CANCELLED = "invoice.cancelled"
    REFUND_REQUESTED = "refund.requested"
    REFUND_SUCCEEDED = "refund.succeeded"
    REFUND_FAILED = "refund.failed"
    REFUND_CANCELLED = "refund.cancelled"
    CERTIFICATE_REPLACED = "certificate.replaced"
    WEBHOOK_TEST = "webhook.test"


# The types that a webhook can name. A test event is sent on request only, to any webhook.
NAMEABLE = tuple(each for each in EventType if each is not EventType.WEBHOOK_TEST)
# The seven types that report the status of an order. A webhook that names no types gets these.
STATUS_TYPES = tuple(each.value for each in NAMEABLE[:7])


def delivered_types(named: tuple[str, ...]) -> tuple[str, ...]:
    """The types that a webhook gets which names these."""
    return named or STATUS_TYPES


def in_order(named: Iterable[str]) -> tuple[str, ...]:
    """Without repetitions, in the order of the documentation."""
    given = set(named)
    return tuple(each.value for each in EventType if each.value in given)


def types_of(row: str) -> str:
    """An SQL expression: `delivered_types` of a row with `event_types`."""
    status_types = ", ".join(f"'{each}'" for each in STATUS_TYPES)
    return f"CASE WHEN {row}.event_types = '{{}}' THEN ARRAY[{status_types}] ELSE {row}.event_types END"


class DisabledReason(StrEnum):
    """Why Tonne has disabled a webhook."""

    # The receiver answered with 410, and the webhook asks for it.
    GONE = "gone"


class WebhookRequest(Struct, frozen=True):
    """What is said about a webhook when it is registered."""

    url: str
    account_ids: Sequence[str] = ()
    event_types: Sequence[str] = ()
    disable_on_gone: bool = False
    standard_webhooks: bool = False


class Webhook(Struct, frozen=True):
    """A registration. An empty `account_ids` means all accounts of the organisation in that mode.

    `event_types` are those that it names. Without any it gets those that report the status of an order.
    """

    organisation_id: str
    mode: Mode
    id: str
    url: str
    enabled: bool
    account_ids: tuple[str, ...]
    created_at: datetime
    secret_last_four: str
    event_types: tuple[str, ...] = ()
    # Whether a 410 of the receiver disables it.
    disable_on_gone: bool = False
    # Whether requests also have the headers of Standard Webhooks.
    standard_webhooks: bool = False
    disabled_reason: DisabledReason | None = None

    @property
    def delivered_types(self) -> tuple[str, ...]:
        return delivered_types(self.event_types)


class ParkedAccount(Struct, frozen=True):
    """An account whose next event the receiver keeps refusing while it accepts those of other accounts."""

    account_id: str
    position: int
    event_id: str
    event_type: str
    refusals: int
    parked_at: datetime
    next_attempt_at: datetime


class Progress(Struct, frozen=True):
    """The state of a webhook's deliveries: enough to see why an event has not arrived."""

    cursor_position: int
    last_position: int
    failures: int
    failing_since: datetime | None
    next_attempt_at: datetime
    oldest_waiting: datetime | None
    parked: tuple[ParkedAccount, ...]

    @property
    def waiting_events(self) -> int:
        """How many events are ahead of the cursor, including those out of scope."""
        return self.last_position - self.cursor_position


class Lease(Struct, frozen=True):
    """A webhook that a worker holds, with everything that one delivery needs."""

    organisation_id: str
    mode: Mode
    id: str
    url: str
    account_ids: tuple[str, ...]
    # The types that the webhook names.
    event_types: tuple[str, ...]
    sealed_secret: bytes
    # Replaced secrets, which still sign while a rotation overlaps; None for one that does not.
    old_sealed_secrets: Sequence[bytes | None]
    standard_webhooks: bool
    cursor_position: int
    batch_limit: int
    failures: int
    # How often the first event after the cursor has been refused alone.
    head_refusals: int
    # The state of probing: see the columns of the same names.
    probe_after: int | None
    accepted_probe: int | None
    # Fencing token: settling under an older one changes nothing.
    token: int
    # Incremented by every change of the registration: a request sent before the change does not move the cursor.
    version: int
    # A webhook may be claimed for a parked account while the main stream still waits for its back-off.
    main_due: bool
    # The end of the stream when this was read.
    last_position: int
    has_parked: bool
    # On this process's monotonic clock: from then on another worker may hold the webhook.
    expires_at: float
    # The waiting events, if they are few and the claim has read them.
    first_batch: "EventBatch | None" = None
    # The last result was stored together with the end of the lease.
    is_released: bool = False
    # The session for which the worker keeps the lease while nothing waits.
    keeper: int | None = None
    # How many webhooks of the stream are in use, if the claim has counted them.
    siblings: int = 0
    # When the registration was read, on the same clock.
    read_at: float = field(default_factory=time.monotonic)

    @property
    def stream(self) -> Stream:
        return Stream(self.organisation_id, self.mode)

    @property
    def fence(self) -> tuple[str, str, int, int]:
        """The keys of the webhook's row, and the token and version that it must still have."""
        return self.organisation_id, self.id, self.token, self.version

    @property
    def delivered_types(self) -> tuple[str, ...]:
        return delivered_types(self.event_types)

    @property
    def main_waits(self) -> bool:
        return self.main_due and self.cursor_position < self.last_position

    def covers(self, seconds: float) -> bool:
        """Whether a request that is started now and takes this long ends before the lease."""
        return time.monotonic() + seconds <= self.expires_at

    @property
    def takes_whole_stream(self) -> bool:
        """No failure, no parked account, all accounts, and the types of most events: few are filtered out."""
        if self.failures or self.account_ids or self.has_parked or not self.main_due:
            return False
        return not self.event_types or set(STATUS_TYPES).issubset(self.event_types)


class EventBatch(Struct, frozen=True):
    """Events of one request, in order."""

    # A range when nothing was filtered out: it is cheaper to settle.
    positions: Sequence[int]
    # Their JSON, joined by commas.
    events: bytes
    # Where the cursor moves once they are delivered: also past events that are out of scope.
    reaches: int
    # Where the cursor was when they were read, for a batch that moves it. A database that crashed may have lost the
    # result of the batch before: the cursor then may not move past it.
    after: int = 0
    # Digest of the ids of the events: the same whenever the same events are sent together.
    message_id: str = ""
    # An event of another account, sent to find out whether the receiver refuses only the first account.
    is_probe: bool = False
    # The time of the first event, in seconds since 1970, if it counts for the latency of deliveries.
    oldest_at: float | None = None

    @property
    def body(self) -> bytes:
        return b'{"events":[%b]}' % self.events

    @property
    def is_head_alone(self) -> bool:
        """Only the first event after the cursor: a refusal is a refusal of that event."""
        return len(self.positions) == 1 and not self.is_probe


class Probe(Struct, frozen=True):
    """The next event of an account, as a batch of its own."""

    account_id: str
    batch: EventBatch

    @property
    def position(self) -> int:
        return self.batch.positions[0]
