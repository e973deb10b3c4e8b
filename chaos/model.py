"""What scenarios speak of: organisations, webhooks, faults, and expectations that were not met."""

from dataclasses import dataclass
from typing import NamedTuple

from chaos.receivers import Receiver
from tonne.platform.values.context import Scope


class NotAsExpected(Exception):
    """The scenario cannot continue; the message says what did not happen."""


class Refused(NotAsExpected):
    """The api returned an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Payment(NamedTuple):
    """How the orders of an account are paid. Without a card number: by invoice."""

    card: str | None = None
    auto_advance: bool = False


@dataclass(frozen=True, slots=True)
class Organisation:
    id: str
    key: str
    scopes: list[Scope]

    @property
    def account_ids(self) -> list[str]:
        return [scope.account_id for scope in self.scopes]


@dataclass(slots=True)
class Secret:
    """Valid between two times of the monotonic clock, as its owner saw it."""

    text: str
    from_s: float
    until_s: float = float("inf")


@dataclass(slots=True)
class Hook:
    """A webhook with all receivers that it has had; scenarios use the first."""

    id: str
    organisation: Organisation
    receivers: list[Receiver]
    secrets: list[Secret]
    removed: bool = False

    @property
    def receiver(self) -> Receiver:
        return self.receivers[0]


@dataclass(slots=True)
class Fault:
    """Counts how often it fired. A fault that fires less often than announced fails the scenario."""

    name: str
    at_least: int
    count: int = 0

    def __call__(self, times: int = 1) -> None:
        self.count += times
