"""tonne audit, and who the operator is."""

import json
import os
import pwd
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.api_client import ApiClient
from tests.support.clock import START
from tests.support.command import Operator, tonne
from tests.support.world import TESTER, World
from tonne.apps.cli.operator import operator as operator_of
from tonne.platform.db.database import Database
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Mode, to_wire

USER, HOST = pwd.getpwuid(os.geteuid()).pw_name, socket.gethostname()


def test_security_7_the_operator_is_the_user_of_the_system() -> None:
    assert str(operator_of({"USER": "forged"})) == f"cli:{USER}@{HOST}"
    claimed = operator_of({"SUDO_USER": "ada"})
    assert (str(claimed), claimed.address) == (f"cli:{USER}@{HOST}", "SUDO_USER=ada")
    assert operator_of({"SUDO_USER": USER}).address is None, "it says nothing new"


@pytest.fixture(autouse=True)
def _no_login_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel says of the person who runs the tests."""
    monkeypatch.setattr("tonne.apps.cli.operator._login_user", lambda: None)


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1_000_710_000)
    assert str(operator_of({})) == f"cli:uid 1000710000@{HOST}"


def test_a_price_change_is_shown_with_operator_and_values(operator: Operator, tmp_path: Path) -> None:
    prices = tmp_path / "bundles.csv"
    head = "slug,name,description,primary_image,unit_price,enabled,position\n"
    for price in ("7.00", "7.50"):
        prices.write_text(f"{head}new-wind,New wind,,,{price},true,9\n", encoding="utf-8")
        operator.does("catalogue", "import", "--mode", "live", str(prices))
    heads, line = operator.does("audit", "--action", "bundle.changed").splitlines()
    assert heads.split() == ["time", "actor", "action", "subject", "change", "organisation", "mode", "address"]
    assert f"cli:{USER}@{HOST}" in line
    assert "unit_price: 7.00 -> 7.50" in line
    document = json.loads(operator.does("audit", "--action", "bundle.changed", "--json"))
    assert (document["actor"], document["organisation_id"], document["mode"]) == (f"cli:{USER}@{HOST}", None, "live")
    assert (document["before"], document["after"]) == ({"unit_price": "7.00"}, {"unit_price": "7.50"})


async def test_security_7_an_order_shows_the_key_that_placed_it(
    operator: Operator, api: ApiClient, world: World
) -> None:
    order = await api.order()
    assert operator.facts("order", "show", order["id"])["placed by"] == world.ours_test.key_id


async def test_filters(operator: Operator, world: World, populated_db: Database) -> None:
    ours, theirs = world.ours_test.scope.organisation_id, world.theirs_test.scope.organisation_id
    async with populated_db.transaction() as tx:
        for hours, (organisation_id, mode) in enumerate(((ours, Mode.TEST), (theirs, Mode.LIVE), (None, None))):
            at = START + timedelta(days=400, hours=hours)
            await audit.record(
                tx, organisation_id, f"thing.{hours}", by=TESTER.at(at), subject_id=f"thing_{hours}", mode=mode
            )

    def shown(*words: str) -> list[int]:
        lines = operator.does("audit", "--action", "thing", "--json", *words).splitlines()
        return [int(json.loads(line)["action"][-1]) for line in lines]

    assert shown() == [2, 1, 0]
    assert shown("--org", ours) == [0]
    assert shown("--mode", "live") == [1]
    assert shown("--subject", "thing_2") == [2]
    assert shown("--actor", "system:te") == [2, 1, 0]
    assert shown("--actor", "nobody") == []
    assert shown("--since", to_wire(START + timedelta(days=400, hours=1))) == [2, 1]
    assert shown("--until", to_wire(START + timedelta(days=400, hours=1))) == [0]
    assert shown("--since", "2020-01-01", "--limit", "1") == [2]
    assert operator.does("audit", "--subject", "nothing") == "No entries."
    done = tonne("audit", "--limit", "1", database_url=operator.url)
    assert "There may be more" in done.stderr
    done = tonne("audit", "--since", "yesterday", database_url=operator.url)
    assert (done.returncode, "2026-01-31" in done.stderr) == (2, True)


async def test_values_from_clients_cannot_control_the_terminal(operator: Operator, populated_db: Database) -> None:
    async with populated_db.transaction() as tx:
        after = {"title": "\x1b[31mred\n", "long": "x" * 500}
        await audit.record(tx, None, "thing.created", by=TESTER.at(START), subject_id="t", after=after)
    said = operator.does("audit", "--action", "thing")
    assert "\x1b" not in said
    assert len(said.splitlines()) == 2
    assert max(map(len, said.splitlines())) < 300
