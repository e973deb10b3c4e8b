"""Values of error messages that are formatted in the language of the reader. As text they look as in the API."""

from typing import NamedTuple

from tonne.platform.values.amounts import format_money, format_tonnes


class MassValue(NamedTuple):
    grams: int

    def __str__(self) -> str:
        return f"{format_tonnes(self.grams)} t"


class MoneyValue(NamedTuple):
    amount_minor: int
    currency: str

    def __str__(self) -> str:
        return f"{format_money(self.amount_minor, self.currency)} {self.currency}"


class NamesValue(NamedTuple):
    names: tuple[str, ...]

    def __str__(self) -> str:
        return " and ".join(self.names)
