"""Values of webhooks: registration, progress, lease and batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tonne.base.scope import Mode


@dataclass(frozen=True, slots=True)
class Webhook:
    """A registration. An empty `account_ids` means all accounts of the organisation in that mode."""

    organisation_id: str
    mode: Mode
    id: str
    url: str
    enabled: bool
    account_ids: tuple[str, ...]
    created_at: datetime
    secret_last_four: str


@dataclass(frozen=True, slots=True)
class ParkedAccount:
    """An account whose next event the receiver keeps refusing while it accepts those of other accounts."""

    account_id: str
    position: int
    event_id: str
    event_type: str
    refusals: int
    parked_at: datetime
    next_attempt_at: datetime


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a webhook's deliveries: enough to see why an event has not arrived."""

    cursor_position: int
    last_position: int
    failures: int
    failing_since: datetime | None
    next_attempt_at: datetime
    oldest_waiting: datetime | None
    parked: tuple[ParkedAccount, ...]


@dataclass(frozen=True, slots=True)
class Lease:
    """A webhook that a worker holds, with everything that one delivery needs."""

    organisation_id: str
    mode: Mode
    id: str
    url: str
    account_ids: tuple[str, ...]
    sealed_secret: bytes
    # The previous secret, which still signs while a rotation overlaps.
    old_sealed_secret: bytes | None
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
    def takes_whole_stream(self) -> bool:
        """No failure, no parked account and no filter: the next events are simply those at the next positions."""
        return self.main_due and not self.failures and not self.account_ids and not self.has_parked


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one request, in order."""

    # A range when nothing was filtered out: it is cheaper to settle.
    positions: Sequence[int]
    # Their JSON, joined by commas.
    events: bytes
    # Where the cursor moves once they are delivered: also past events that are out of scope.
    reaches: int
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


@dataclass(frozen=True, slots=True)
class Probe:
    """The next event of an account, as a batch of its own."""

    account_id: str
    batch: EventBatch

    @property
    def position(self) -> int:
        return self.batch.positions[0]
