"""`tonne page`."""

from pathlib import Path

from tests.channels.public_pages.scene import png
from tests.support.command import Operator, tonne
from tests.support.world import World
from tonne.platform.db.database import Database


def test_a_page_is_set_up_and_changed(operator: Operator, world: World, tmp_path: Path) -> None:
    account_id = world.ours_test.scope.account_id
    before = operator.facts("page", "show", account_id)
    assert (before["slug"], before["enabled"], before["changed"]) == ("account-test", "no", "never")
    image = tmp_path / "logo.png"
    image.write_bytes(png())
    words = ("--slug", "acme", "--title", "Acme & co", "--description", "One\ntwo", "--logo", str(image))
    sections = ("--section", "projects", "--section", "timeline")
    page = operator.facts("page", "set", account_id, *words, *sections, "--enable")
    assert page["address"] == "https://offsets.example.com/sustainability/test/acme"
    assert (page["enabled"], page["title"], page["sections"]) == ("yes", "Acme & co", "timeline, projects")
    assert page["logo"].startswith("https://offsets.example.com/sustainability/test/acme/logo?v=")
    assert "\n" + " " * 13 + "two\n" in operator.does("page", "show", account_id)
    assert operator.facts("page", "show", account_id) == page
    changed = operator.facts("page", "set", account_id, "--disable", "--remove-logo")
    assert (changed["enabled"], changed["logo"], changed["title"]) == ("no", "none", "Acme & co")


async def test_the_audit_log_names_the_operator(operator: Operator, populated_db: Database, world: World) -> None:
    operator.does("page", "set", world.ours_live.scope.account_id, "--enable")
    async with populated_db.connection() as connection:
        row = await connection.fetchrow(
            "SELECT actor, subject_id FROM audit_log WHERE action = 'sustainability_page.changed'"
        )
    assert row is not None
    assert row["actor"].startswith("cli:")
    assert row["subject_id"] == world.ours_live.scope.account_id


def test_errors_are_one_sentence(operator: Operator, world: World, tmp_path: Path) -> None:
    set_page = ("page", "set", world.ours_test.scope.account_id)
    assert "There is no account acc_nobody" in operator.is_refused("page", "show", "acc_nobody")
    assert "slug must have 3 to 60" in operator.is_refused(*set_page, "--slug", "A B")
    assert "This slug is reserved" in operator.is_refused(*set_page, "--slug", "admin")
    operator.does("page", "set", world.theirs_test.scope.account_id, "--slug", "acme")
    assert "Choose another one" in operator.is_refused(*set_page, "--slug", "acme")
    drawing = tmp_path / "logo.svg"
    drawing.write_bytes(b"<svg/>")
    assert "SVG is not supported" in operator.is_refused(*set_page, "--logo", str(drawing))
    drawing.write_bytes(bytes(200_000))
    assert "larger than 96 KiB" in operator.is_refused(*set_page, "--logo", str(drawing))


def test_contradictory_options_are_rejected(populated_db: Database, world: World, tmp_path: Path) -> None:
    image = tmp_path / "logo.png"
    image.write_bytes(png())
    words = ("page", "set", world.ours_test.scope.account_id, "--logo", str(image), "--remove-logo")
    done = tonne(*words, database_url=populated_db._url)
    assert done.returncode == 2
    assert "not both" in done.stderr
