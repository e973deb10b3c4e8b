"""How much each benchmark does. The defaults are those of a full run on two idle cores."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiPace:
    """Value and limit are measured in turn, `rounds` times each; their medians count."""

    rounds: int = 4
    warm_up_s: float = 0.5
    round_s: float = 2.0
    # Orders prepared for one round of direct writes.
    direct_orders: int = 6_000
    # Growth measures each kind of request in short blocks, in turn.
    probe_blocks: int = 5
    probe_block_s: float = 0.4
    small_orders: int = 10_000
    large_orders: int = 1_000_000


@dataclass(frozen=True, slots=True)
class DeliveryPace:
    rounds: int = 3
    # The backlog of the one receiver, and of each of the 200.
    backlog_events: int = 20_000
    events_each: int = 500
    # The bare client is faster, so it sends the same requests this many times.
    bare_times: int = 2
    # Orders placed one at a time, for latency and for growth, with random pauses between them.
    latency_orders: int = 120
    single_orders: int = 50
    cpu_orders: int = 300
    looks: int = 2000
    pause_s: tuple[float, float] = (0.04, 0.1)
    small_events: int = 100_000
    large_events: int = 1_000_000
    # How many of the newest events a round of growth sends.
    newest_events: int = 10_000
    newest_rounds: int = 4


@dataclass(frozen=True, slots=True)
class LifePace:
    rounds: int = 3
    # Every round completes the same orders.
    orders: int = 4_000
    # Completed before the first round, so that plans are made for tables that are not empty.
    warm_up_orders: int = 1_000
    probe_orders: int = 1_000
    probe_blocks: int = 3
    small_orders: int = 10_000
    large_orders: int = 1_000_000
    certificates_s: float = 2.0


@dataclass(frozen=True, slots=True)
class WholePace:
    rounds: int = 3
    place_for_s: float = 4.0


@dataclass(frozen=True, slots=True)
class DashboardPace:
    small_orders: int = 10_000
    large_orders: int = 1_000_000
    # Requests of each page. The first ones fill caches and make plans, and do not count.
    warm_ups: int = 3
    # The cheapest round counts: other processes make a round dearer, never cheaper.
    rounds: int = 3
    requests: int = 10


@dataclass(frozen=True, slots=True)
class DoctorPace:
    # Completed by the service, before one of them is copied.
    first_orders: int = 300
    small_orders: int = 10_000
    large_orders: int = 1_000_000


@dataclass(frozen=True, slots=True)
class RegistryPace:
    """Lots of 100 units per mode, and orders per round and mode. The first round warms up."""

    few_lots: int = 1_000
    lots: int = 10_000
    rounds: int = 4
    orders: int = 500


@dataclass(frozen=True, slots=True)
class BillingPace:
    """Accounts are in organisations of ten. Orders are per account."""

    accounts: int = 1_000
    warm_up_each: int = 5
    # The smaller run is repeated, because it is short; its median counts.
    small_rounds: int = 3
    small_each: int = 10
    large_each: int = 100


@dataclass(frozen=True, slots=True)
class LogPace:
    # Completed by the service, before one of them is copied.
    first_orders: int = 300
    # Complete orders, each with a certificate and its retirements. They are appended to trees of two sizes.
    orders: int = 10_000
    warm_up_batches: int = 3
    small_leaves: int = 10_000
    large_leaves: int = 10_000_000
    # Retirements that 50 sellers disclose.
    disclosed: int = 10_000_000
    certificates: int = 500
    rounds: int = 4
    warm_up_s: float = 0.5
    round_s: float = 2.0


@dataclass(frozen=True, slots=True)
class DiskPace:
    """Each wave places orders until there are this many."""

    waves: int = 40
    wave_orders: int = 150


@dataclass(frozen=True, slots=True)
class PeerPace:
    rounds: int = 5
    warm_up_s: float = 0.5
    round_s: float = 3.0
    # Every tenant has more than one page of 100.
    orders: int = 5_500


@dataclass(frozen=True, slots=True)
class MailPace:
    """Mails per lane."""

    warm_up_each: int = 5
    mails_each: int = 80


@dataclass(frozen=True, slots=True)
class ClientPace:
    rounds: int = 7
    warm_up_calls: int = 50
    calls: int = 200


@dataclass(frozen=True, slots=True)
class EstimatePace:
    rounds: int = 5
    warm_up_calls: int = 50
    calls: int = 300
    cold_calls: int = 80


# Enough to check that everything works. The numbers mean nothing.
QUICK_API = ApiPace(
    rounds=3,
    warm_up_s=0.2,
    round_s=0.8,
    direct_orders=2_000,
    probe_blocks=3,
    probe_block_s=0.2,
    large_orders=50_000,
)
QUICK_WHOLE = WholePace(rounds=1, place_for_s=0.5)
QUICK_DELIVERY = DeliveryPace(
    rounds=2,
    backlog_events=4_000,
    events_each=200,
    bare_times=1,
    latency_orders=20,
    single_orders=20,
    cpu_orders=20,
    looks=100,
    small_events=40_000,
    large_events=80_000,
    newest_events=2_000,
    newest_rounds=2,
)
QUICK_LIFE = LifePace(
    rounds=2,
    orders=500,
    warm_up_orders=300,
    probe_orders=200,
    probe_blocks=2,
    small_orders=2_000,
    large_orders=20_000,
    certificates_s=0.8,
)
QUICK_BILLING = BillingPace(accounts=50, warm_up_each=2, small_rounds=2, small_each=20, large_each=200)
QUICK_LOG = LogPace(
    first_orders=50,
    orders=1_000,
    warm_up_batches=1,
    small_leaves=2_000,
    large_leaves=100_000,
    disclosed=50_000,
    certificates=50,
    rounds=2,
    warm_up_s=0.2,
    round_s=0.8,
)
QUICK_DISK = DiskPace(waves=2, wave_orders=50)
QUICK_PEER = PeerPace(rounds=2, warm_up_s=0.2, round_s=0.8)
QUICK_DASHBOARD = DashboardPace(large_orders=20_000, warm_ups=1, rounds=1, requests=3)
QUICK_DOCTOR = DoctorPace(first_orders=50, small_orders=1_000, large_orders=5_000)
QUICK_REGISTRY = RegistryPace(few_lots=100, lots=200, rounds=2, orders=20)
QUICK_MAIL = MailPace(warm_up_each=2, mails_each=10)
QUICK_CLIENT = ClientPace(rounds=2, warm_up_calls=5, calls=20)
QUICK_ESTIMATES = EstimatePace(rounds=2, warm_up_calls=3, calls=20, cold_calls=5)
