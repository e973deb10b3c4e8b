"""Properties of every allocation, on thousands of random orders: no gram is lost or allocated twice."""

import dataclasses
import os
import random
from collections import defaultdict
from copy import copy, deepcopy
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from tonne.platform.values.context import replace
from tonne.selling.catalogue.coverage import Demand, cover
from tonne.supply.stock.model import Lot, LotStatus, Parcel, ParcelStatus, Share
from tonne.supply.stock.plan_allocation import LineDemand, Recipient, Source, Supply, whole_units

CASES = 4_000
TONNE, KILOGRAM = 1_000_000, 1_000
NOW = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
WAIT = timedelta(days=30)
SERVICE = "The Service"
URL = "https://registry.example/1"


@dataclass
class Stock:
    """The locked lots and units, and the granularity of each project."""

    lots: list[Lot]
    units: list[Parcel]
    granularity: dict[str, int]

    def supply(self) -> Supply:
        return Supply(self.lots, self.units, now=NOW, wait=WAIT, service_name=SERVICE)


@dataclass
class Bid:
    order_id: str
    buyer: Recipient
    requested: list[LineDemand]


def lot(name: str, project_id: str, vintage: int, tonnes: int, taken_grams: int = 0, *, retired: bool = False) -> Lot:
    return Lot(
        id=name,
        project_id=project_id,
        vintage=vintage,
        status=LotStatus.PRE_RETIRED if retired else LotStatus.HELD,
        quantity_grams=tonnes * TONNE,
        allocated_grams=taken_grams,
        retired_on=date(2025, 5, 6) if retired else None,
        retirement_url=URL if retired else None,
    )


def unit(
    name: str, project_id: str, grams: int, filled_grams: int, *, status: ParcelStatus, buyer: Recipient | None = None
) -> Parcel:
    """A unit with free grams; without a buyer it is in the service's name."""
    retired = status is ParcelStatus.RETIRED
    return Parcel(
        id=name,
        lot_id=f"lot of {name}",
        project_id=project_id,
        start_grams=0,
        quantity_grams=grams,
        allocated_grams=filled_grams,
        account_id=buyer.account_id if buyer else None,
        beneficiary=buyer.beneficiary if buyer else SERVICE,
        status=status,
        close_at=NOW + timedelta(days=3) if status is ParcelStatus.OPEN else None,
        retired_on=date(2026, 1, 1) if retired else None,
        retirement_url=URL if retired else None,
    )


def random_stock(rng: random.Random, buyers: list[Recipient]) -> Stock:
    stock = Stock([], [], {})
    for number in range(rng.randint(1, 4)):
        project, grams = f"prj_{number}", rng.choice((TONNE, TONNE, KILOGRAM))
        stock.granularity[project] = grams
        for place in range(rng.randint(0, 4)):
            tonnes = rng.randint(1, 10 ** rng.randint(0, 4))
            taken = rng.choice((0, 0, rng.randint(0, tonnes * TONNE // grams) * grams))
            vintage, retired = rng.randint(2015, 2020), rng.random() < 0.3
            stock.lots.append(lot(f"lot_{number}{place}", project, vintage, tonnes, taken, retired=retired))
        for place in range(rng.randint(0, 3)):
            buyer = rng.choice((*buyers, None))
            status = rng.choice((ParcelStatus.RETIRED, ParcelStatus.TO_RETIRE)) if buyer is None else ParcelStatus.OPEN
            filled = rng.randrange(1, grams)
            stock.units.append(unit(f"par_{number}{place}", project, grams, filled, status=status, buyer=buyer))
    return stock


def random_bid(rng: random.Random, number: int, stock: Stock, buyers: list[Recipient]) -> Bid:
    requested = []
    for position in range(1, rng.choice((1, 1, 2, 3)) + 1):
        chosen = rng.sample(sorted(stock.granularity), rng.randint(1, len(stock.granularity)))
        sources = [Source(project, rng.randint(1, 100), stock.granularity[project]) for project in chosen]
        requested.append(LineDemand(position, f"bun_{position}", rng.randint(1, 10 ** rng.randint(1, 10)), sources))
    return Bid(f"ord_{number}", rng.choice(buyers), requested)


def random_buyers(rng: random.Random) -> list[Recipient]:
    at_once = rng.random() < 0.3
    return [Recipient(f"acc_{number % 2}", f"B{number // 2}", at_once and number % 2 == 0) for number in range(4)]


def place_of(share: Share) -> tuple[int, str, int, int]:
    """A share without the random id of its parcel."""
    return share.line_position, share.parcel.lot_id, share.parcel.start_grams, share.quantity_grams


def check_shares(bid: Bid, shares: list[Share]) -> None:
    grams: defaultdict[int, int] = defaultdict(int)
    for share in shares:
        assert share.quantity_grams > 0
        grams[share.line_position] += share.quantity_grams
        parcel = share.parcel
        assert parcel.project_id in {s.project_id for w in bid.requested for s in w.sources}
        assert parcel.account_id in {None, bid.buyer.account_id}, "no account gets a share of another account's unit"
        assert parcel.account_id is None or parcel.beneficiary == bid.buyer.beneficiary
        if bid.buyer.in_service_name:
            assert parcel.status is not ParcelStatus.OPEN, "the order does not wait for other fractions"
    assert grams == {requested.position: requested.quantity_grams for requested in bid.requested}
    assert len(shares) == len({(share.line_position, share.parcel.id) for share in shares})


def check_stock(before: Stock, stock: Stock, supply: Supply, given: dict[str, int]) -> None:
    """`given` has the grams that orders got of each parcel. All that the schema would refuse is refused here, too."""
    parcels = {each.id: each for each in stock.units} | supply.touched_parcels
    old = {each.id: each.allocated_grams for each in before.units}
    taken: defaultdict[str, list[Parcel]] = defaultdict(list)
    for parcel in parcels.values():
        assert parcel.allocated_grams == old.get(parcel.id, 0) + given.get(parcel.id, 0)
        assert 0 < parcel.allocated_grams <= parcel.quantity_grams
        assert parcel.quantity_grams % stock.granularity[parcel.project_id] == 0
        assert (parcel.status is ParcelStatus.OPEN) == (parcel.close_at is not None)
        assert (parcel.status is ParcelStatus.RETIRED) == (parcel.retired_on is not None)
        assert parcel.status is not ParcelStatus.OPEN or parcel.room_grams
        assert parcel.beneficiary
        if parcel.is_new:
            taken[parcel.lot_id].append(parcel)
    for was, now in zip(before.lots, stock.lots, strict=True):
        end = was.allocated_grams
        for parcel in sorted(taken[now.id], key=lambda parcel: parcel.start_grams):
            assert parcel.start_grams == end, "units of a lot follow each other"
            assert now.status is LotStatus.HELD or parcel.status is ParcelStatus.RETIRED
            end += parcel.quantity_grams
        assert end == now.allocated_grams <= now.quantity_grams
        if taken[now.id]:
            check_nothing_older_is_free(now, stock)


def check_nothing_older_is_free(drawn: Lot, stock: Stock) -> None:
    for other in stock.lots:
        if other.project_id == drawn.project_id and (other.vintage, other.id) < (drawn.vintage, drawn.id):
            assert other.quantity_grams - other.allocated_grams < stock.granularity[drawn.project_id]


def covers(bid: Bid, stock: Stock) -> bool:
    """Whether one project of each line alone has enough for the whole order, in free lots."""
    need = sum(line.quantity_grams for line in bid.requested) + TONNE * sum(len(w.sources) for w in bid.requested)
    free: defaultdict[str, int] = defaultdict(int)
    for each in stock.lots:
        free[each.project_id] += each.quantity_grams - each.allocated_grams
    return all(any(free[source.project_id] >= need for source in requested.sources) for requested in bid.requested)


def state(stock: Stock, supply: Supply) -> tuple[object, ...]:
    new = [parcel for parcel in supply.touched_parcels.values() if parcel.is_new]
    return [copy(each) for each in stock.lots], [copy(each) for each in (*stock.units, *new)]


def test_every_gram_is_given_once_and_in_turn() -> None:
    seed = int(os.environ.get("SUPPLY_SEED") or random.SystemRandom().getrandbits(32))
    print(f"SUPPLY_SEED={seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    served = refused = 0
    for _ in range(CASES):
        buyers = random_buyers(rng)
        stock = random_stock(rng, buyers)
        before, supply, given = deepcopy(stock), stock.supply(), dict[str, int]()
        for number in range(rng.randint(1, 6)):
            bid = random_bid(rng, number, stock, buyers)
            untouched, enough = state(stock, supply), covers(bid, stock)
            shares = supply.allocate(bid.buyer, bid.requested)
            if shares is None:
                refused += 1
                assert not enough
                assert state(stock, supply) == untouched, "all or nothing leaves no trace"
                continue
            served += 1
            check_shares(bid, shares)
            for share in shares:
                given[share.parcel.id] = given.get(share.parcel.id, 0) + share.quantity_grams
        check_stock(before, stock, supply, given)
    assert min(served, refused) > CASES / 10, "both ends are met often enough to mean something"


def test_the_same_orders_on_the_same_stock_are_split_the_same_way() -> None:
    rng = random.Random(7)  # noqa: S311 - repeatable on purpose
    for _ in range(500):
        buyers = random_buyers(rng)
        stock = random_stock(rng, buyers)
        bids = [random_bid(rng, number, stock, buyers) for number in range(3)]
        splits = []
        for again in (deepcopy(stock), deepcopy(stock)):
            rng.shuffle(again.lots)  # the order in which lots come from the database does not count
            supply = again.supply()
            found = [supply.allocate(bid.buyer, bid.requested) for bid in bids]
            splits.append([None if shares is None else [place_of(share) for share in shares] for shares in found])
        assert splits[0] == splits[1]


def test_an_order_that_does_not_wait_leaves_the_open_unit_of_its_account() -> None:
    """An account that waited for the helpers, and now goes on by itself, may have left such a unit behind."""
    buyer = Recipient("acc_1", "B", in_service_name=True)
    left = unit("par_1", "prj", TONNE, 400_000, status=ParcelStatus.OPEN, buyer=buyer)
    stock = Stock([lot("lot_1", "prj", 2020, 5)], [left], {"prj": TONNE})
    shares = stock.supply().allocate(buyer, [LineDemand(1, "bun", 500_000, [Source("prj", 1, TONNE)])])
    assert shares is not None
    assert [(share.parcel.status, share.parcel.account_id) for share in shares] == [(ParcelStatus.TO_RETIRE, None)]


def test_the_rest_of_a_unit_is_used_up_also_after_the_service_got_another_name() -> None:
    buyer = Recipient("acc_1", "B")
    rest = unit("par_1", "prj", TONNE, 400_000, status=ParcelStatus.RETIRED)
    rest.beneficiary = "The Service, as it was called"
    stock = Stock([lot("lot_1", "prj", 2020, 5)], [rest], {"prj": TONNE})
    shares = stock.supply().allocate(buyer, [LineDemand(1, "bun", 600_000, [Source("prj", 1, TONNE)])])
    assert shares is not None
    assert [share.parcel.id for share in shares] == ["par_1"]


def test_small_orders_take_their_fraction_from_projects_by_weight() -> None:
    """Each comes from one project. All together follow the weights exactly."""
    sources = [Source("prj_a", 70, TONNE), Source("prj_b", 30, TONNE)]
    stock = Stock([lot("lot_a", "prj_a", 2020, 900), lot("lot_b", "prj_b", 2020, 900)], [], dict.fromkeys("ab", TONNE))
    supply, drawn = stock.supply(), defaultdict[str, int](int)
    for _ in range(1_000):
        shares = supply.allocate(Recipient("acc_1", "B"), [LineDemand(1, "bun", 1, sources)])
        assert shares is not None
        (share,) = shares
        drawn[share.parcel.project_id] += 1
    assert drawn == {"prj_a": 700, "prj_b": 300}


def hold(stock: Stock, bid: Bid, held: dict[str, int]) -> Bid | None:
    """The order with grams held for each line, as `hold_supply` does it; None if they are not free."""
    free: defaultdict[str, int] = defaultdict(int)
    for each in stock.lots:
        free[each.project_id] += each.quantity_grams - each.allocated_grams
    for project_id, grams in held.items():
        free[project_id] -= grams
    demands = [Demand(line.quantity_grams, [source.project_id for source in line.sources]) for line in bid.requested]
    found = cover(demands, free)
    lines = [
        replace(line, held={id_: whole_units(grams, stock.granularity[id_]) for id_, grams in taken.items()})
        for line, taken in zip(bid.requested, found.taken, strict=True)
    ]
    reserved = {id_: sum(line.held.get(id_, 0) for line in lines) for id_ in stock.granularity}
    if found.short or any(grams > free[id_] for id_, grams in reserved.items()):
        return None
    for id_, grams in reserved.items():
        held[id_] = held.get(id_, 0) + grams
    return dataclasses.replace(bid, requested=lines)


def test_orders_get_what_is_held_for_them_in_whichever_order_they_are_paid() -> None:
    seed = int(os.environ.get("SUPPLY_SEED") or random.SystemRandom().getrandbits(32))
    print(f"SUPPLY_SEED={seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    served = refused = others = 0
    for _ in range(CASES // 2):
        buyers = [Recipient(f"acc_{number}", "B") for number in range(3)]
        stock = random_stock(rng, buyers)
        held: dict[str, int] = {}
        bids = [random_bid(rng, number, stock, buyers) for number in range(rng.randint(1, 8))]
        holders = [holder for bid in bids if (holder := hold(stock, bid, held)) is not None]
        refused += len(bids) - len(holders)
        paid = [*holders, *(random_bid(rng, 100 + number, stock, buyers) for number in range(3))]
        rng.shuffle(paid)
        before, given = deepcopy(stock), dict[str, int]()
        supply = Supply(stock.lots, stock.units, now=NOW, wait=WAIT, service_name=SERVICE, held=held)
        for bid in paid:
            shares = supply.allocate(bid.buyer, bid.requested)
            if any(line.held for line in bid.requested):
                assert shares is not None, "its grams were held"
                served += 1
            if shares is not None:
                others += not any(line.held for line in bid.requested)
                check_shares(bid, shares)
                for share in shares:
                    given[share.parcel.id] = given.get(share.parcel.id, 0) + share.quantity_grams
        check_stock(before, stock, supply, given)
    assert min(served, refused, others) > CASES / 20
