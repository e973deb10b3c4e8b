"""Values of webhooks: registration, progress, lease and batch."""

import time
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tonne.channels.webhooks.event_types import STATUS_TYPES, delivered_types
from tonne.platform.values.context import Mode


class DisabledReason(StrEnum):
    """Why Tonne has disabled a webhook."""

    # The receiver answered with 410, and the webhook asks for it.
    GONE = "gone"


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
