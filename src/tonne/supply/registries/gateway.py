"""The interface of registries that retire on request. Refusals and network failures are results, not exceptions."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from tonne.platform.values.context import Mode
from tonne.supply.stock.serial_runs import Numbers


class Outcome(StrEnum):
    RETIRED = "retired"
    # Accepted by the registry, which may still reject it.
    PENDING = "pending"
    # This copy of the request retires nothing.
    DECLINED = "declined"
    # The request was sent and its result is not known. Use `look_up`; do not ask under another key.
    UNKNOWN = "unknown"
    # Certainly not retired: the registry was not reached, or served no request.
    UNAVAILABLE = "unavailable"
    # Only from `look_up`, and preliminary: a delayed request may still arrive.
    NOT_FOUND = "not_found"


class Repeat(StrEnum):
    """Why the same request can be repeated without retiring twice."""

    # The registry returns one answer per key.
    KEY = "key"
    # A holding is used once: whatever uses it splits or retires it.
    HOLDING = "holding"


# What `Instruction.reference` looks like in the texts that a registry returns.
REFERENCE = re.compile(r"T-[0-9a-f]{16}")


class Instruction(Struct, frozen=True, kw_only=True):
    """What the registry is asked for. A repeat is exactly the same; `id` is its key.

    `units` are numbers in the lot. Registries of the kind HOLDING retire as many units, but choose them.
    """

    mode: Mode
    id: str
    registry_account: str
    lot_id: str
    holding_id: str
    units: tuple[Numbers, ...]
    beneficiary: str
    # Public, so it says nothing about orders.
    reference: str
    registry_reference: str | None = None

    @property
    def unit_count(self) -> int:
        return sum(last - first + 1 for first, last in self.units)


class Answer(Struct, frozen=True, kw_only=True):
    """`is_final`: the registry stores this refusal for the key, or somebody else has used the holding.

    `next_holding_id` has what is left of a holding that is used.
    """

    outcome: Outcome
    registry_reference: str | None = None
    units: tuple[Numbers, ...] = ()
    retired_on: date | None = None
    url: str | None = None
    next_holding_id: str | None = None
    code: str | None = None
    message: str | None = None
    is_final: bool = False

    @property
    def unit_count(self) -> int:
        return sum(last - first + 1 for first, last in self.units)


# Codes of refusals that say our books are wrong. After any other refusal, a person retires the units.
INSUFFICIENT = "insufficient_units"
HOLDING_UNKNOWN = "holding_unknown"
HOLDING_USED = "holding_used"
BOOKS_WRONG = frozenset({INSUFFICIENT, HOLDING_UNKNOWN, HOLDING_USED})
# The registry serves no request of the account until a person has done something.
UNAUTHORISED = "unauthorised"


class Holding(Struct, frozen=True):
    """Units that the registry shows in the account.

    `lot_id` is known of what requests have split off a lot. A registry that does not know our lots says by numbers that
    are unique within `namespace` which units these are, and from which holding they were split off.
    """

    id: str
    lot_id: str
    units: tuple[Numbers, ...]
    namespace: str = ""
    parent_id: str | None = None

    @property
    def unit_count(self) -> int:
        return sum(last - first + 1 for first, last in self.units)


class Movement(Struct, frozen=True):
    """A retirement or transfer of the account. `reference` is empty if it has none of ours."""

    reference: str
    holding_id: str


class NotRead(Exception):
    """The registry could not be reached or understood; the message says why."""


class RegistryGateway(Protocol):
    async def retire(self, instruction: Instruction) -> Answer:
        """Retire units of the holding that the instruction names, at most once per instruction."""

    async def look_up(self, instruction: Instruction) -> Answer:
        """Find the result of an instruction; never retires.

        Returns `unknown`, never `unavailable`, if the registry cannot be reached: `unavailable` means "not retired".
        """

    async def list_holdings(self) -> Sequence[Holding]:
        """What is active in the account. Raises NotRead."""

    async def read_balance(self) -> int:
        """How many units are active in the account, in one request. Raises NotRead."""

    async def list_movements(self, since: datetime) -> Sequence[Movement]:
        """What has left the account since, at anybody's request. Raises NotRead."""


class RegistryAccount(Struct, frozen=True):
    """An account whose gateway retires credits."""

    id: str
    mode: Mode
    adapter: str
    gateway: RegistryGateway
    unit_grams: int
    # The last day of its credentials, if it is known.
    expires_on: date | None = None


RegistryAccounts = Mapping[str, RegistryAccount]
