"""What every use case is told: whose data is meant, who makes a change, and what time it is."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct


class Mode(StrEnum):
    LIVE = "live"
    TEST = "test"


class Scope(Struct, frozen=True):
    """The tenant of a request: one account of one organisation in one mode. Queries on tenant data take it."""

    organisation_id: str
    account_id: str
    mode: Mode


class ActorKind(StrEnum):
    CLI = "cli"
    KEY = "key"
    SYSTEM = "system"
    PAYER = "payer"
    USER = "user"


class Actor(Struct, frozen=True):
    """Who makes a change, for the audit log.

    `name` is the operator's user and host, the job, or the id of the API key, the user or the payer's link.
    """

    kind: ActorKind
    name: str
    # The network address of an API client or of a user. Payers' addresses are not stored: entries can never be deleted.
    address: str | None = None

    def __str__(self) -> str:
        """As it is stored, such as `key:key_06dq2k8v7p3h5n9s4t1w0x2y6z`."""
        return f"{self.kind}:{self.name}"

    @property
    def key_id(self) -> str | None:
        return self.name if self.kind is ActorKind.KEY else None


def person_of(actor: str) -> str | None:
    """The person behind a stored actor, on any host and through sudo; None for jobs, keys and payers."""
    kind, _, name = actor.partition(":")
    if kind == ActorKind.USER:
        return name
    if kind != ActorKind.CLI:
        return None
    _, sudo, invoker = name.partition(" (sudo by ")
    return invoker.removesuffix(")") if sudo else name.partition("@")[0]


def job_actor(job: str) -> Actor:
    return Actor(ActorKind.SYSTEM, job)


# Times are in UTC with millisecond precision.
Clock = Callable[[], datetime]
# What `to_wire` makes, as a field of the API.
Timestamp = Annotated[str, Meta(examples=["2026-11-15T10:00:00.123Z"], extra_json_schema={"format": "date-time"})]


def utc_now() -> datetime:
    """The current time, truncated to milliseconds, the precision of the API and the database."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def to_wire(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-11-15T10:00:00.123Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
