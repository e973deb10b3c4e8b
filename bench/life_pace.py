"""How long the benchmarks of an order's life take: all of them must end within eight minutes on two cores."""

from dataclasses import dataclass

from bench import pace


@dataclass(frozen=True, slots=True)
class Pace:
    # Rounds of value and limit in turn; the median of each counts.
    rounds: int
    # In each round, the same ones again.
    orders: int
    # Complete before the first round, so that plans are made for tables that hold something.
    warm_up_orders: int
    # Orders that go their way while the CPU is counted, and how often that is done.
    probe_orders: int
    probe_blocks: int
    small_orders: int
    large_orders: int
    certificates: pace.Pace


FULL = Pace(
    rounds=3,
    orders=4_000,
    warm_up_orders=1_000,
    probe_orders=1_000,
    probe_blocks=3,
    small_orders=10_000,
    large_orders=1_000_000,
    certificates=pace.FULL,
)
# To see whether everything still works: too short to conclude anything from the numbers.
QUICK = Pace(
    rounds=2,
    orders=500,
    warm_up_orders=300,
    probe_orders=200,
    probe_blocks=2,
    small_orders=2_000,
    large_orders=20_000,
    certificates=pace.QUICK,
)
