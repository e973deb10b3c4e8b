"""How long everything takes: the whole of it must end within five minutes on two cores."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    # Rounds of value and limit in turn; the median of each counts.
    rounds: int
    warm_up_s: float
    round_s: float
    # Orders made ready for one round of direct writing.
    direct_orders: int
    # Blocks of each kind of request, one after the other.
    probe_blocks: int
    probe_block_s: float
    small_orders: int
    large_orders: int


FULL = Pace(
    rounds=4,
    warm_up_s=0.5,
    round_s=2.0,
    direct_orders=6_000,
    probe_blocks=5,
    probe_block_s=0.4,
    small_orders=10_000,
    large_orders=1_000_000,
)
# To see whether everything still works: too short to conclude anything from the numbers.
QUICK = Pace(
    rounds=3,
    warm_up_s=0.2,
    round_s=0.8,
    direct_orders=2_000,
    probe_blocks=3,
    probe_block_s=0.2,
    small_orders=10_000,
    large_orders=50_000,
)
