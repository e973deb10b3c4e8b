"""`tonne page`: what the interface does, from a terminal."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import output_of, refusal_of, tonne
from tests.sustainability.scene import png
from tests.world import World
from tonne.db.pool import Database

Operator = Callable[..., str]


@pytest.fixture
def does(furnished_db: Database) -> Operator:
    return lambda *words: output_of("page", *words, database_url=furnished_db._url, public_url="https://tonne.test")


@pytest.fixture
def is_refused(furnished_db: Database) -> Operator:
    return lambda *words: refusal_of("page", *words, database_url=furnished_db._url)


def facts(printed: str) -> dict[str, str]:
    return {line[:13].strip(): line[13:] for line in printed.splitlines() if line[0] != " "}


def test_a_page_is_shown_set_up_and_changed(does: Operator, world: World, tmp_path: Path) -> None:
    account_id = world.ours_test.scope.account_id
    before = facts(does("show", account_id))
    assert (before["slug"], before["enabled"], before["changed"]) == ("account-test", "no", "never")
    image = tmp_path / "logo.png"
    image.write_bytes(png())
    words = ("--slug", "acme", "--title", "Acme & co", "--description", "One\ntwo", "--logo", str(image))
    printed = does("set", account_id, *words, "--section", "projects", "--section", "timeline", "--enable")
    page = facts(printed)
    assert page["address"] == "https://tonne.test/sustainability/test/acme"
    assert (page["enabled"], page["title"], page["sections"]) == ("yes", "Acme & co", "timeline, projects")
    assert page["logo"].startswith("https://tonne.test/sustainability/test/acme/logo?v=")
    assert "\n" + " " * 13 + "two\n" in printed
    assert facts(does("show", account_id)) == page
    changed = facts(does("set", account_id, "--disable", "--remove-logo"))
    assert (changed["enabled"], changed["logo"], changed["title"]) == ("no", "none", "Acme & co")


async def test_it_is_on_record_who_did_it(does: Operator, furnished_db: Database, world: World) -> None:
    does("set", world.ours_live.scope.account_id, "--enable")
    async with furnished_db.connection() as connection:
        row = await connection.fetchrow(
            "SELECT actor, subject_id FROM audit_log WHERE action = 'sustainability_page.changed'"
        )
    assert row is not None
    assert row["actor"].startswith("cli:")
    assert row["subject_id"] == world.ours_live.scope.account_id


def test_refusals_are_one_sentence(does: Operator, is_refused: Operator, world: World, tmp_path: Path) -> None:
    account_id = world.ours_test.scope.account_id
    assert "There is no such account" in is_refused("show", "acc_nobody")
    assert "slug must have 3 to 60" in is_refused("set", account_id, "--slug", "A B")
    assert "kept for the service" in is_refused("set", account_id, "--slug", "admin")
    does("set", world.theirs_test.scope.account_id, "--slug", "acme")
    assert "choose another one" in is_refused("set", account_id, "--slug", "acme")
    drawing = tmp_path / "logo.svg"
    drawing.write_bytes(b"<svg/>")
    assert "an SVG cannot be used" in is_refused("set", account_id, "--logo", str(drawing))
    drawing.write_bytes(bytes(200_000))
    assert "larger than 96 KiB" in is_refused("set", account_id, "--logo", str(drawing))


def test_contradictions_are_refused(furnished_db: Database, world: World, tmp_path: Path) -> None:
    image = tmp_path / "logo.png"
    image.write_bytes(png())
    words = ("page", "set", world.ours_test.scope.account_id, "--logo", str(image), "--remove-logo")
    done = tonne(*words, database_url=furnished_db._url)
    assert done.returncode == 2
    assert "not both" in done.stderr
