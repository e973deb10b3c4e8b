"""tonne person"""

import json
from pathlib import Path

import pytest

from tests.apps.privacy.everywhere import ISSUED, columns_with
from tests.apps.privacy.scene import EMAIL, NAME, Persons
from tests.support.command import Operator
from tonne.apps.lookup.doctor.doctor_checks import ALL_WAITING
from tonne.apps.privacy.waiting import WAITING
from tonne.platform.values.context import utc_now


@pytest.fixture
def operator(persons: Persons) -> Operator:
    return Operator(persons.database._url, secret_key=persons.settings.secret_key)


async def test_export_erase_list_and_repeat(persons: Persons, operator: Operator, tmp_path: Path) -> None:
    order_id = await persons.buys()
    dump = await persons.fetch("SELECT id, wire_document, email, beneficiary FROM orders")
    table = operator.does("person", "export", EMAIL)
    assert order_id in table
    assert table.splitlines()[-1] == "1 order, 1 checkout, 1 certificate, 5 event, 2 mail"
    records = [json.loads(line) for line in operator.does("person", "export", NAME, "--json").splitlines()]
    assert {each["type"] for each in records} == {"order", "checkout", "certificate", "event", "mail"}
    assert records[0]["data"]["email"] == EMAIL
    assert operator.does("person", "export", "nobody@example.com") == "Nothing is held about this person."

    said = operator.does("person", "erase", EMAIL, "--yes").splitlines()
    assert order_id in said[1]
    assert said[-1].endswith("1 orders, 5 events, 1 certificates, 1 checkouts, 2 mails.")
    assert operator.does("person", "erase", EMAIL, "--yes") == "Nothing is held about this person."
    assert await columns_with(persons.database, EMAIL, NAME) == ISSUED

    list_file = tmp_path / "erasures.jsonl"
    list_file.write_text(operator.does("person", "list", "--json"))
    assert EMAIL.lower() not in list_file.read_text().lower()
    assert "nothing that they erased is there again" in operator.does("person", "repeat", str(list_file))
    # A restore: the order is as it was, and the erasure is not known.
    await persons.execute("DELETE FROM erasures")
    for row in dump:
        await persons.execute(
            "UPDATE orders SET wire_document = $2, email = $3, beneficiary = $4 WHERE id = $1", *row.values()
        )
    assert "0 erasures compared" in operator.does("person", "repeat")
    said = operator.does("person", "repeat", str(list_file), "--yes").splitlines()
    assert said[0] == "1 erasures compared: the data of 1 of them is there again."
    assert await columns_with(persons.database, EMAIL, NAME) == ISSUED
    await persons.check_invariants()


async def test_it_is_refused_with_a_list(persons: Persons, operator: Operator) -> None:
    await persons.shopper.pay(await persons.shopper.begin(await persons.link(), email=EMAIL))
    done = operator.runs("person", "erase", EMAIL, "--yes")
    assert done.returncode == 1
    assert "Order ord_" in done.stderr
    assert " is paid." in done.stderr


async def test_wrong_arguments_are_explained(operator: Operator, tmp_path: Path) -> None:
    assert "e-mail address" in operator.is_refused("person", "erase", "a@b@c")
    assert "no organisation" in operator.is_refused("person", "export", EMAIL, "--org", "org_x")
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"id": 1}\n')
    assert "not a list of erasures" in operator.is_refused("person", "repeat", str(wrong))
    assert operator.does("person", "list") == "No erasures."


async def test_a_key_gets_the_right(persons: Persons, operator: Operator) -> None:
    live, test = persons.world.ours_live.scope.account_id, persons.world.ours_test.scope.account_id
    assert operator.does("key", "create", live, "--allow", "persons").startswith("tonne_live_")
    assert "Only a live key" in operator.is_refused("key", "create", test, "--allow", "persons")
    keys = operator.does("key", "list", persons.world.ours_live.scope.organisation_id, "--json").splitlines()
    assert [each["rights"] for each in map(json.loads, keys) if each["rights"]] == [["persons"]]


async def test_the_doctor_warns_of_an_erasure_that_was_interrupted(persons: Persons) -> None:
    [check] = WAITING
    assert check in ALL_WAITING
    made = await persons.erase()
    await persons.execute("UPDATE erasures SET started_at = now() - interval '2 hours'")
    parameters = check.parameters(persons.settings, utc_now())
    assert await persons.fetch(check.sql, *parameters) == []
    await persons.execute("UPDATE erasures SET finished_at = NULL")
    [found] = await persons.fetch(check.sql, *parameters)
    assert made.id in found["where"]
