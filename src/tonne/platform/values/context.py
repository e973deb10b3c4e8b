"""What every change needs: the id of what is new, whose it is, who made it, when, and copies of values.

`replace(value, field=…)` is a copy of a struct with some fields changed.
"""

import re
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from msgspec import Meta, Struct

# The type checker verifies names and types of changed fields only for the function of the standard library.
if TYPE_CHECKING:
    from dataclasses import replace
else:
    from msgspec.structs import replace

# The type checker takes other names of this module as its own, but not an imported one.
__all__ = ["replace"]
T = TypeVar("T", bound=Struct)


class Mode(StrEnum):
    LIVE = "live"
    TEST = "test"


class Tenant(NamedTuple):
    """One organisation in one mode. A query takes both values of it: `*tenant`."""

    organisation_id: str
    mode: Mode


class Scope(Struct, frozen=True):
    """The tenant of a request: one account of one organisation in one mode. Queries on tenant data take it."""

    organisation_id: str
    account_id: str
    mode: Mode

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.organisation_id, self.mode)


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
    # The network address of an API client or of a user, or what the environment of a command claims. Payers' addresses
    # are not stored: entries can never be deleted.
    address: str | None = None

    def __str__(self) -> str:
        """As it is stored, such as `key:key_06dq2k8v7p3h5n9s4t1w0x2y6z`."""
        return f"{self.kind}:{self.name}"

    @property
    def key_id(self) -> str | None:
        return self.name if self.kind is ActorKind.KEY else None

    def at(self, moment: datetime) -> "By":
        return By(self, moment)

    def now(self) -> "By":
        return By(self, utc_now())


class By(Struct, frozen=True):
    """Who makes a change, and when."""

    actor: Actor
    at: datetime


def person_of(actor: str) -> str | None:
    """The user behind a stored actor; None for all others. A command line without a login may be anybody."""
    kind, _, name = actor.partition(":")
    return name if kind == ActorKind.USER else None


def job_actor(job: str) -> Actor:
    return Actor(ActorKind.SYSTEM, job)


# Times are in UTC with millisecond precision.
Clock = Callable[[], datetime]
# What `to_wire` makes, as a field of the API.
Timestamp = Annotated[str, Meta(examples=["2026-11-15T10:00:00.123Z"], extra_json_schema={"format": "date-time"})]


# How far the time of this process is from that of the machine. Only the history of the demo is made at another time.
_shift_ns = 0


def utc_now() -> datetime:
    """The current time, truncated to milliseconds, the precision of the API and the database."""
    return datetime.fromtimestamp((time.time_ns() + _shift_ns) // 1_000_000 / 1000, UTC)


def set_time(moment: datetime | None) -> None:
    """From now on it is `moment` in this whole process, and time goes on from there; None: the time of the machine."""
    global _shift_ns  # noqa: PLW0603 - ids and all clocks follow
    _shift_ns = 0 if moment is None else int(moment.timestamp() * 1000) * 1_000_000 - time.time_ns()


def to_wire(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-11-15T10:00:00.123Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Identifiers: `<prefix>_<opaque>`.
_OPAQUE = re.compile(r"[a-z0-9]{26}")
# Base32 in an alphabet that sorts like the bytes. Encoding two letters at a time is ten times as fast as the standard
# library's encoder; every request needs several ids.
_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(120, -1, -10)
_MADE = re.compile(r"[a-z]+_([0-9a-v]{10})[0-9a-v]{16}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# 48 bits are enough for times that `datetime` cannot hold.
_MAX_MS = (datetime(9998, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def new_id(prefix: str) -> str:
    """An id that sorts by creation time: 48 bits of milliseconds, 20 of the nanoseconds in them, 60 random bits."""
    milliseconds, nanoseconds = divmod(time.time_ns() + _shift_ns, 1_000_000)
    random = int.from_bytes(secrets.token_bytes(8), "big") >> 4
    return _encode(prefix, milliseconds << 80 | nanoseconds << 60 | random)


def new_secret_id(prefix: str) -> str:
    """An id that is also a secret: 128 random bits."""
    return _encode(prefix, int.from_bytes(secrets.token_bytes(16), "big"))


def is_id(prefix: str, text: str) -> bool:
    """Whether `text` has the form of an id with this prefix. Others need no database lookup."""
    return text.startswith(f"{prefix}_") and _OPAQUE.fullmatch(text, len(prefix) + 1) is not None


def made_at(id_: str) -> datetime | None:
    """When an id of `new_id` was made; None for text that is no such id."""
    match = _MADE.fullmatch(id_)
    milliseconds = _MAX_MS if match is None else int(match[1], 32) >> 2
    return _EPOCH + timedelta(milliseconds=milliseconds) if milliseconds < _MAX_MS else None


def _encode(prefix: str, number: int) -> str:
    number <<= 2
    return f"{prefix}_{''.join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])}"


def same_named(target: type[T], source: object, /, **others: Any) -> T:
    """A `target` whose fields have the values of the attributes of `source` with the same names, except for `others`.

    Fields that neither has keep their default, so a new field that is passed on as it is needs no further line.
    """
    names = [name for name in target.__struct_fields__ if name not in others and hasattr(source, name)]
    return target(**{name: getattr(source, name) for name in names}, **others)
