"""The transition table in docs/orders.md matches the code."""

from pathlib import Path

from tonne.selling.orders.model import EVENT_TYPES, TRANSITIONS, OrderStatus

DOCS = Path(__file__).resolve().parents[2] / "docs" / "orders.md"


def test_the_documented_transitions_match_the_code() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("<!-- transitions -->")[2].partition("<!-- /transitions -->")[0]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.strip().splitlines()[2:]]
    first = ("(new)", OrderStatus.RECEIVED, "creation accepted", EVENT_TYPES[OrderStatus.RECEIVED])
    moves = [(before, after, trigger, EVENT_TYPES[after]) for (before, after), trigger in TRANSITIONS.items()]
    assert rows == [first, *moves]
