"""The amount of a link's form: its units, conversion between them, and amounts to choose from."""

from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum

from msgspec import Struct

from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.values.amounts import GRAMS_PER_TONNE, MAX_GRAMS, format_money, format_tonnes

_GRAMS_PER_KILOGRAM = 1000
_FACTORS = (Decimal("0.5"), Decimal(1), Decimal(2), Decimal(5))
_NICE = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))


class AmountUnit(StrEnum):
    """The values of the form's field `by`."""

    TONNES = "quantity"
    KILOGRAMS = "kilograms"
    VALUE = "value"


def unit_of(text: str | None) -> AmountUnit:
    return AmountUnit(text) if text in set(AmountUnit) else AmountUnit.TONNES


class Bought(Struct, frozen=True):
    """What an amount buys, and what it costs with fee and tax."""

    grams: int
    due_minor: int
    currency: str

    def amount_in(self, unit: AmountUnit) -> str:
        """As the field contains it, with a point. Masses are rounded: people read them, and the price is shown."""
        match unit:
            case AmountUnit.VALUE:
                return format_money(self.due_minor, self.currency)
            case AmountUnit.KILOGRAMS:
                return _plain(_rounded(Decimal(self.grams) / _GRAMS_PER_KILOGRAM))
            case AmountUnit.TONNES:
                return _plain(_rounded(Decimal(self.grams) / GRAMS_PER_TONNE))


class Suggestion(Struct, frozen=True):
    """A button that fills in an amount."""

    unit: AmountUnit
    amount: str

    @property
    def value(self) -> str:
        return f"{self.unit}:{self.amount}"


def suggestions(link: OffsetLink, unit_price_minor: int | None, currency: str) -> list[Suggestion]:
    """Up to four amounts per unit, within the link's limits. Values depend on the price of a tonne, if it is known."""
    anchor = link.preset_quantity_grams or _clamp(
        GRAMS_PER_TONNE, link.min_quantity_grams, link.max_quantity_grams, MAX_GRAMS
    )
    masses = [
        grams
        for grams in (int(anchor * factor) for factor in _FACTORS)
        if _is_within(grams, link.min_quantity_grams, link.max_quantity_grams) and 1 <= grams <= MAX_GRAMS
    ]
    found = [Suggestion(AmountUnit.TONNES, format_tonnes(grams)) for grams in masses]
    found += [Suggestion(AmountUnit.KILOGRAMS, _plain(Decimal(grams) / _GRAMS_PER_KILOGRAM)) for grams in masses]
    values = [
        minor
        for minor in _values(link, anchor, unit_price_minor)
        if minor >= 1 and _is_within(minor, link.min_value_minor, link.max_value_minor)
    ]
    return found + [Suggestion(AmountUnit.VALUE, _plain(Decimal(format_money(minor, currency)))) for minor in values]


def _values(link: OffsetLink, anchor_grams: int, unit_price_minor: int | None) -> list[int]:
    if link.preset_value_minor is not None:
        return [int(link.preset_value_minor * factor) for factor in _FACTORS]
    if unit_price_minor is None:
        return []
    cost = Decimal(anchor_grams) * unit_price_minor / GRAMS_PER_TONNE
    return list(dict.fromkeys(_nice(cost * factor) for factor in _FACTORS))


def _nice(amount: Decimal) -> int:
    """The next round number: 1, 2, 2.5 or 5 times a power of ten."""
    if amount <= 1:
        return 1
    power = Decimal(1).scaleb(amount.adjusted())
    return int(next(step * power for step in _NICE if step * power >= amount))


def _clamp(amount: int, least: int | None, most: int | None, limit: int) -> int:
    return min(max(amount, least or 1), limit if most is None else most)


def _is_within(amount: int, least: int | None, most: int | None) -> bool:
    return (least is None or amount >= least) and (most is None or amount <= most)


def _rounded(amount: Decimal) -> Decimal:
    """Three decimals, or three significant digits if it is smaller."""
    decimals = max(3, 2 - amount.adjusted()) if amount else 0
    return amount.quantize(Decimal(1).scaleb(-min(decimals, 6)), rounding=ROUND_HALF_UP)


def _plain(amount: Decimal) -> str:
    """Without trailing zeros and without an exponent."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
