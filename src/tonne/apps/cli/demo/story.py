"""What happens in the demo, as tables: six customers, their orders of twelve months, and what goes wrong.

The plan is the same every time, relative to today: random numbers come from a fixed seed. `history.py` makes it happen.
"""

import random
from bisect import bisect_left
from enum import StrEnum

from msgspec import Struct

from tonne.selling.accounts.model import Billing, PaymentMethod

DAYS, BUSY_DAYS = 365, 110
# The owner. Mail to example.com is never delivered.
ADMIN = "demo@example.com"
# Of the idempotency keys of the orders.
KEY_PREFIX = "demo-"
_SEED = 20_26
CARD, INVOICE = PaymentMethod.CARD, PaymentMethod.INVOICE


class DemoCustomer(Struct, frozen=True, kw_only=True):
    """`orders` in twelve months, each of `least` to `most` kilograms, or of a price in minor units if `by_value`.

    A customer is a client account of the demo organisation, or an organisation of its own (`is_direct`).
    `credit` is what it may owe: its orders are fulfilled at once. Persons are named on certificates, if there are any.
    """

    name: str
    currency: str
    method: PaymentMethod
    orders: int
    least: int
    most: int
    bundles: tuple[str, ...]
    reference: str
    is_direct: bool = False
    by_value: bool = False
    by_estimate: str = ""
    billing: Billing = Billing.PER_ORDER
    credit: str | None = None
    persons: tuple[str, ...] = ()
    metadata: tuple[str, tuple[str, ...]] | None = None


_GUESTS = ("Ines Albrecht", "Tomás Ferreira", "Noor de Vries", "Élodie Marchand", "Kofi Mensah", "Giulia Conti")
_SITES = ("Lisbon", "Oslo", "Nairobi", "New York", "Kyoto", "Lima")
CUSTOMERS = (
    DemoCustomer(
        name="Hotel Seeblick",
        currency="EUR",
        method=CARD,
        orders=62,
        least=300,
        most=3_200,
        bundles=("living-soil",),
        reference="Stay",
        persons=_GUESTS,
        metadata=("house", ("Seeblick", "Altstadt")),
    ),
    DemoCustomer(
        name="Northline Parcels",
        currency="EUR",
        method=INVOICE,
        orders=52,
        least=2_000,
        most=14_000,
        bundles=("wind-power",),
        reference="Week",
        billing=Billing.MONTHLY,
        credit="20000.00",
        metadata=("depot", ("Bremen", "Aarhus", "Gdynia")),
    ),
    DemoCustomer(
        name="Wayfarer Travel",
        currency="USD",
        method=CARD,
        orders=84,
        least=350,
        most=5_200,
        bundles=("wind-power", "clean-cooking"),
        reference="Booking",
        by_estimate="Flight to {}",
        persons=_GUESTS,
        metadata=("destination", _SITES),
    ),
    DemoCustomer(
        name="Alpina Bank",
        currency="CHF",
        method=INVOICE,
        orders=22,
        least=40_000,
        most=310_000,
        bundles=("wind-power", "living-soil"),
        reference="Branch programme",
        is_direct=True,
        credit="90000.00",
    ),
    DemoCustomer(
        name="Linden & Oak Shop",
        currency="EUR",
        method=CARD,
        orders=56,
        least=400,
        most=6_500,
        bundles=("clean-cooking",),
        reference="Basket",
        by_value=True,
        persons=_GUESTS,
    ),
    DemoCustomer(
        name="City of Brookhaven",
        currency="EUR",
        method=INVOICE,
        orders=24,
        least=15_000,
        most=120_000,
        bundles=("balanced-portfolio", "forest-mix"),
        reference="Council resolution",
        is_direct=True,
        credit="60000.00",
    ),
)


class PlannedOrder(Struct, frozen=True):
    """The amount is in grams, or in minor units. `at` is in minutes of its day, `person` the beneficiary."""

    key: str
    customer: DemoCustomer
    at: int
    amount: int
    bundle: str
    reference: str
    person: str | None
    metadata: dict[str, str]


class Deed(StrEnum):
    REFUND = "refund"
    DISPUTE = "dispute"
    WIN = "win"
    CANCEL = "cancel"
    DECLINED_CARD = "declined_card"
    GOOD_CARD = "good_card"
    SHORT_SUPPLY = "short_supply"
    MAIL = "mail"


class Happening(Struct, frozen=True):
    """On which day something happens to a customer, or to its last order."""

    day: int
    deed: Deed
    customer: str


# From this day on mails are composed: those of the months before would have been sent and forgotten.
MAILED_FROM = DAYS - 12
HAPPENINGS = (
    Happening(118, Deed.REFUND, "Hotel Seeblick"),
    Happening(171, Deed.DISPUTE, "Wayfarer Travel"),
    Happening(196, Deed.WIN, "Wayfarer Travel"),
    Happening(224, Deed.DECLINED_CARD, "Linden & Oak Shop"),
    Happening(231, Deed.GOOD_CARD, "Linden & Oak Shop"),
    Happening(289, Deed.REFUND, "Wayfarer Travel"),
    Happening(361, Deed.DISPUTE, "Hotel Seeblick"),
    Happening(356, Deed.SHORT_SUPPLY, "Linden & Oak Shop"),
    Happening(360, Deed.REFUND, "Linden & Oak Shop"),
    Happening(MAILED_FROM, Deed.MAIL, "Hotel Seeblick"),
)


def planned_orders() -> dict[int, list[PlannedOrder]]:
    """By day. Business grows: the second half of the year has more orders than the first."""
    days: dict[int, list[PlannedOrder]] = {day: [] for day in range(DAYS)}
    # There are quiet days.
    busy = sorted({*random.Random(_SEED).sample(range(DAYS), BUSY_DAYS), DAYS - 1})  # noqa: S311 - not a secret
    for customer in CUSTOMERS:
        dice = random.Random(f"{_SEED} {customer.name}")  # noqa: S311 - not a secret
        for number in range(customer.orders):
            day = int(DAYS * ((number + dice.random()) / customer.orders) ** 0.8)
            days[busy[bisect_left(busy, day)]].append(_planned(customer, number, dice))
    return {day: sorted(orders, key=lambda order: (order.at, order.key)) for day, orders in days.items()}


def _planned(customer: DemoCustomer, number: int, dice: random.Random) -> PlannedOrder:
    unit = 1 if customer.by_value else 1_000
    # Small orders are more frequent than large ones.
    amount = round(customer.least * (customer.most / customer.least) ** dice.random()) * unit
    metadata = {}
    if customer.metadata is not None:
        name, values = customer.metadata
        metadata[name] = dice.choice(values)
    return PlannedOrder(
        key=f"{KEY_PREFIX}{customer.name.split()[0].lower()}-{number + 1:03}",
        customer=customer,
        at=10 * 60 + dice.randrange(40),
        amount=amount,
        bundle=dice.choice(customer.bundles),
        reference=f"{customer.reference} {1200 + number}",
        person=dice.choice(customer.persons) if customer.persons and dice.random() < 0.6 else None,
        metadata=metadata,
    )
