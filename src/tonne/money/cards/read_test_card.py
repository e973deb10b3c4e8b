from collections.abc import Mapping, Sequence

from tonne.money.cards.errors import TestCardUnknown
from tonne.money.cards.gateways.card_simulated import SIMULATED_CARDS

_TEST_NUMBERS = {card.number for card in SIMULATED_CARDS}


def card_number_in(fields: Mapping[str, Sequence[str]]) -> str:
    """Typed into the form, or selected from its list of test cards."""
    return (fields.get("card_number") or [""])[0] or (fields.get("test_card") or [""])[0]


def read_test_card(text: str) -> str:
    """Returns the number of a test card. Any other input is never stored, logged or repeated."""
    number = "".join(text.split()).replace("-", "")
    if number not in _TEST_NUMBERS:
        raise TestCardUnknown(field="card_number")
    return number
