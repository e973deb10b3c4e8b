from pathlib import Path

from tonne.money.cards.gateways.card_simulated import SIMULATED_CARDS

PAGE = Path(__file__).parents[4] / "docs" / "cards.md"


def test_the_documentation_lists_the_cards_of_test_mode() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("<!-- cards -->\n")[2].partition("<!-- /cards -->")[0]
    assert table.splitlines()[2:] == [f"| `{card.number}` | {card.behaviour} |" for card in SIMULATED_CARDS]
