"""A webhook as a value, and what can come of an attempt to deliver."""

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
class Progress:
    """How a webhook's deliveries stand: enough to see why an event has not arrived."""

    cursor_position: int
    last_position: int
    failures: int
    failing_since: datetime | None
    next_attempt_at: datetime
    oldest_waiting: datetime | None
    parked: tuple["Parked", ...]


@dataclass(frozen=True, slots=True)
class Parked:
    """An account whose next event the receiver keeps refusing while it takes others."""

    account_id: str
    position: int
    event_id: str
    event_type: str
    refusals: int
    parked_at: datetime
    next_attempt_at: datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """A webhook that a worker holds, with all that one delivery needs."""

    organisation_id: str
    mode: Mode
    id: str
    url: str
    account_ids: tuple[str, ...]
    secret_box: bytes
    old_secret_box: bytes | None
    cursor_position: int
    batch_limit: int
    failures: int
    head_refusals: int
    token: int
    # Raised by every change of the registration: what was read before such a change settles nothing.
    version: int
    # A webhook may be claimed for a parked account while the main lane still waits out a failure.
    main_due: bool
    # Where the stream ended when this was read.
    last_position: int
    has_parked: bool
    # On this process's monotonic clock: afterwards another worker may hold the webhook.
    expires_at: float

    @property
    def is_plain(self) -> bool:
        """Nothing is the matter with it and it gets all events: its main lane is the stream itself."""
        return self.main_due and not self.failures and not self.account_ids and not self.has_parked


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in order, as bytes, and where the cursor stands once they are taken: past what was out of scope, too."""

    # A range where they follow each other by nature: with nothing filtered out and nobody parked.
    positions: Sequence[int]
    # Their bytes, with a comma between each two.
    events: bytes
    reaches: int

    @property
    def body(self) -> bytes:
        return b'{"events":[%b]}' % self.events


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a receiver answered. A refusal is an outcome, not an error."""

    status: int | None
    error: str | None
    duration_ms: int
    answer: str

    @property
    def acknowledged(self) -> bool:
        return self.status is not None and 200 <= self.status < 300
