"""How long the benchmarks of delivery take: all of them must end within two minutes on two cores."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    # Rounds of value and limit in turn; the median of each counts.
    rounds: int
    # To the one receiver.
    backlog_events: int
    # To each of the 200.
    events_each: int
    # The bare loop is quicker: it sends the same so often that it takes about as long.
    bare_times: int
    # Orders placed one at a time, for the latency and for the growth.
    latency_orders: int
    single_orders: int
    # The pause between them, spread so that nothing falls into step.
    pause_s: tuple[float, float]
    small_events: int
    large_events: int
    # How many of the newest are sent in one round of the growth, and how many rounds there are.
    newest_events: int
    newest_rounds: int


FULL = Pace(
    rounds=3,
    backlog_events=20_000,
    events_each=500,
    bare_times=2,
    latency_orders=120,
    single_orders=50,
    pause_s=(0.04, 0.1),
    small_events=100_000,
    large_events=1_000_000,
    newest_events=10_000,
    newest_rounds=4,
)
# To see whether everything still works: too short to conclude anything from the numbers.
QUICK = Pace(
    rounds=2,
    backlog_events=4_000,
    events_each=200,
    bare_times=1,
    latency_orders=20,
    single_orders=20,
    pause_s=(0.04, 0.1),
    small_events=40_000,
    large_events=80_000,
    newest_events=2_000,
    newest_rounds=2,
)
