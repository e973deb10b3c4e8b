from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from chaos.scene import QUICK, Scene, Settings


@dataclass(frozen=True, slots=True)
class Scenario:
    """`play` makes faults happen and waits until all is delivered; the checker judges afterwards."""

    name: str
    play: Callable[[Scene], Awaitable[None]]
    within_s: float = 60.0
    settings: Settings = field(default_factory=lambda: QUICK)
