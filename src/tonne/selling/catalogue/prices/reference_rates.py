"""Reference rates, at which the tax of documents in a foreign currency is stated in the national one (Art. 91, 230).

They are those of the European Central Bank, or others that the tax office accepts, and have nothing to do with prices.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, half_up
from tonne.platform.values.context import By
from tonne.platform.values.countries import EU_COUNTRIES

EURO, ECB = "EUR", "ECB"
# There are no rates on weekends and holidays: the last one before counts, but not an older one.
MAX_AGE = timedelta(days=7)
_OWN_CURRENCIES = {"CZ": "CZK", "DK": "DKK", "HU": "HUF", "PL": "PLN", "RO": "RON", "SE": "SEK"}
_CROSS_RATE = Decimal("1e-12")


class HomeRate(Struct, frozen=True):
    """One `base` is `rate` units of `quote`: a foreign currency and the national one, in either order."""

    base: str
    quote: str
    rate: Decimal
    source: str
    day: date

    def convert(self, amount_minor: int, currency: str) -> int:
        """An amount in the foreign currency, in the national one, rounded half up."""
        home = self.quote if currency == self.base else self.base
        rate = Fraction(self.rate) if currency == self.base else 1 / Fraction(self.rate)
        exact = abs(amount_minor) * rate * Fraction(10) ** (DECIMALS[home] - DECIMALS[currency])
        rounded = half_up(exact.numerator, exact.denominator)
        return rounded if amount_minor >= 0 else -rounded


def home_currency_of(settings: Settings) -> str | None:
    """The currency in which the seller owes tax. None if nothing says which it is."""
    country = settings.seller_country
    if settings.home_currency or country not in EU_COUNTRIES:
        return settings.home_currency or None
    return _OWN_CURRENCIES.get(country, EURO)


class ReferenceRate(Struct, frozen=True):
    """One euro is `rate` units of the currency."""

    currency: str
    day: date
    rate: Decimal
    source: str


LIST_RATES = """
SELECT currency::text AS currency, day, rate, source FROM reference_rates
WHERE currency = ANY ($1::text[]) AND day BETWEEN $2 AND $3 ORDER BY day DESC
"""


async def find_home_rates(
    connection: Connection, currencies: Collection[str], home: str | None, day: date
) -> dict[str, HomeRate]:
    """By foreign currency, the rates of the day or of the last one before it. Those that are not known are missing."""
    foreign = set(currencies) - {home}
    if home is None or not foreign:
        return {}
    rows = await connection.fetch(LIST_RATES, sorted({*foreign, home} - {EURO}), day - MAX_AGE, day)
    known = [ReferenceRate(**row) for row in rows]
    found = {currency: _home_rate(currency, home, known) for currency in foreign}
    return {currency: rate for currency, rate in found.items() if rate is not None}


def _home_rate(currency: str, home: str, known: Sequence[ReferenceRate]) -> HomeRate | None:
    """Of the newest day that has what is needed. A cross rate goes through the euro."""
    by_day: dict[date, dict[str, ReferenceRate]] = {}
    for each in known:
        by_day.setdefault(each.day, {})[each.currency] = each
    needed = {currency, home} - {EURO}
    for day, rates in by_day.items():
        if needed <= rates.keys():
            used = [rates[each] for each in sorted(needed)]
            source = ", ".join(dict.fromkeys(each.source for each in used))
            if len(used) == 1:
                return HomeRate(EURO, used[0].currency, used[0].rate, source, day)
            cross = (rates[home].rate / rates[currency].rate).quantize(_CROSS_RATE, ROUND_HALF_UP)
            return HomeRate(currency, home, cross, source, day)
    return None


SAVE_RATES = """
INSERT INTO reference_rates (currency, day, rate, source)
SELECT currency, day, rate, source
FROM unnest($1::text[], $2::date[], $3::numeric[], $4::text[]) AS new (currency, day, rate, source)
ON CONFLICT (currency, day) DO UPDATE SET rate = excluded.rate, source = excluded.source
WHERE (reference_rates.rate, reference_rates.source) IS DISTINCT FROM (excluded.rate, excluded.source)
RETURNING currency
"""


async def save_reference_rates(tx: Connection, rates: Sequence[ReferenceRate], *, by: By) -> int:
    """The number of new and changed rates. Documents that were issued keep theirs."""
    saved = len(await tx.fetch(SAVE_RATES, *columns(rates, "currency, day, rate, source")))
    if saved:
        days = [each.day for each in rates]
        stated: Mapping[str, object] = {
            "from": min(days).isoformat(),
            "to": max(days).isoformat(),
            "saved": saved,
            "source": ", ".join(sorted({each.source for each in rates})),
        }
        await audit.record(tx, None, "reference_rates.imported", by=by, subject_id="reference_rates", after=stated)
    return saved


LIST_NEWEST = """
SELECT DISTINCT ON (currency) currency::text AS currency, day, rate, source FROM reference_rates
ORDER BY currency, day DESC
"""


async def list_newest_rates(connection: Connection) -> list[ReferenceRate]:
    return [ReferenceRate(**row) for row in await connection.fetch(LIST_NEWEST)]
