"""Long work shows a bar on a terminal, on standard error, and removes it. Programs and files never see it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tests.support.command import Operator
from tests.support.orders import bring_to
from tests.support.terminal import ERASE, HIDE_CURSOR, SHOW_CURSOR, on_terminal
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.process.progress import Advance, progress, shown_by
from tonne.selling.orders.model import OrderStatus

DEMO = Path(__file__).parents[3] / "src" / "tonne" / "selling" / "catalogue" / "demo"
STATEMENT = "booked_on,amount,currency,payer,reference\n" + "2026-03-02,1.00,EUR,Ada,nothing\n" * 2
PAYOUTS = "payout_id,paid_on,currency,amount,fee\npo_1,2026-03-02,EUR,10.00,1.00\npo_2,2026-03-03,EUR,20.00,1.00\n"


def labels(screen: str) -> list[str]:
    """What each bar said, once."""
    return list(dict.fromkeys(re.findall(r"([A-Z][^\[\r\x1b]*?) *\[[#-]+\]", screen)))


def test_the_doctor_shows_how_far_it_is_and_removes_the_bar(operator: Operator) -> None:
    screen = on_terminal("doctor", database_url=operator.url, secret_key=operator.secret_key)
    assert labels(screen) == ["Checking the data", "Looking for what waits"]
    assert "100%" in screen
    rest = screen.rpartition(ERASE)[2]
    assert rest.startswith(SHOW_CURSOR)
    assert "checks" in rest or "warning" in rest
    assert HIDE_CURSOR not in rest


@pytest.mark.parametrize("piped", ["stdout", "stderr"])
def test_nothing_is_drawn_when_a_stream_is_no_terminal(operator: Operator, piped: str) -> None:
    screen = on_terminal("doctor", piped=piped, database_url=operator.url, secret_key=operator.secret_key)
    assert labels(screen) == []
    assert HIDE_CURSOR not in screen


@pytest.mark.parametrize(
    "words", [("doctor", "--json"), ("export", "balances", "--json"), ("export", "balances", "--csv")]
)
def test_nothing_is_drawn_for_programs(operator: Operator, words: tuple[str, ...]) -> None:
    screen = on_terminal(*words, database_url=operator.url, secret_key=operator.secret_key)
    assert "\033" not in screen


def test_exports_of_the_books_show_bars(operator: Operator, tmp_path: Path) -> None:
    words = ("export", "journal", "--month", "2026-03")
    to_file = on_terminal(*words, "-o", str(tmp_path / "march.csv"), database_url=operator.url)
    assert labels(to_file) == ["Writing the journal"]
    assert "march.csv: 0 entries." in to_file
    assert labels(on_terminal(*words, database_url=operator.url)) == [], "the entries are on the terminal"


def test_imports_show_bars(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "march.csv").write_text(STATEMENT)
    (tmp_path / "payouts.csv").write_text(PAYOUTS)
    statement = on_terminal(
        "invoice", "import-statement", "--mode", "live", str(tmp_path / "march.csv"), database_url=operator.url
    )
    assert labels(statement) == ["Reading march.csv", "Settling invoices"]
    assert "2 lines" in statement
    payouts = on_terminal("payout", "import", str(tmp_path / "payouts.csv"), database_url=operator.url)
    assert labels(payouts) == ["Reading payouts.csv"]
    rates = on_terminal(
        "catalogue",
        "import",
        "--mode",
        "live",
        "--allow-large-change",
        str(DEMO / "exchange_rates.csv"),
        database_url=operator.url,
    )
    assert labels(rates)[:2] == ["Reading exchange_rates.csv", "Saving"]


def test_a_failed_import_removes_the_bar_before_the_errors(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "march.csv").write_text(STATEMENT.replace("EUR", "XXX"))
    screen = on_terminal(
        "invoice", "import-statement", "--mode", "live", str(tmp_path / "march.csv"), database_url=operator.url
    )
    assert labels(screen) == ["Reading march.csv"]
    assert "march.csv, line 2, column currency" in screen.rpartition(ERASE)[2]


async def test_the_work_list_and_mails_of_several_orders_show_bars(
    services: Services, clock: ManualClock, world: World, tmp_path: Path
) -> None:
    orders = [await bring_to(services, world.ours_live.scope, OrderStatus.RETIRING, clock()) for _ in range(3)]
    url = services.database._url
    path = tmp_path / "list.csv"
    screen = on_terminal("retirement", "export", "--mode", "live", "-o", str(path), database_url=url)
    assert f"{path}: " in screen
    settings = {"database_url": url, "secret_key": services.settings.secret_key}
    sent = on_terminal("order", "resend", *[order.id for order in orders], "ord_nope", **settings)
    assert labels(sent) == ["Preparing mails"]
    assert "ord_nope: There is no order ord_nope." in sent


def test_without_a_listener_progress_costs_nothing_and_with_one_it_is_reported() -> None:
    with progress("nobody listens", 3) as advance:
        advance(3)
    seen: list[object] = []

    @contextmanager
    def open_bar(label: str, total: int) -> Iterator[Advance]:
        seen.append((label, total))
        yield seen.append

    with shown_by(open_bar), progress("Reading", 2) as advance:
        advance(2)
    with progress("Reading", 2) as advance:
        advance(2)
    assert seen == [("Reading", 2), 2]
