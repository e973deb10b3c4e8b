"""Every list and show command, with --json and --csv."""

import csv
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tests.apps.cli.story import CHART, ECB_RATES, HISTORY, PAYOUTS, Story, Words
from tests.apps.cli.test_output import READING_COMMANDS
from tests.support.api_client import ApiClient
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode

VAT_ID = "FR83404833048"


class Reading(Story):
    async def id_in(self, table: str) -> Words:
        return (await self.fetch(f"SELECT id FROM {table} ORDER BY id LIMIT 1"),)  # noqa: S608 - a constant

    async def erased_person(self) -> Words:
        self.run("person", "erase", *(await self.mentioned_person("--yes")))
        return ()

    async def populate(self) -> None:
        """Something of everything."""
        account_id = self.world.ours_test.scope.account_id
        self.run("link", "create", "--account", account_id, "--title", "One")
        self.run("hold-quota", "set", account_id, "500")
        self.run("history", "import", self.file("history.csv", HISTORY), "--account", account_id)
        self.run("card", "set", account_id, "--method", "4242424242424242")
        self.run("catalogue", "import-lots", *(await self.import_lots()))
        self.run("payout", "import", self.file("payouts.csv", PAYOUTS))
        self.run("org", "add-admin", *(await self.organisation("ada@ours.test")))
        self.run("books", "close", "2020-01", "--mode", "test")
        self.run("books", "chart", "import", self.file("chart.csv", CHART), "--consultant", "1001", "--client", "7")
        self.run("tax", "vat-check", "record", VAT_ID, "--outcome", "valid")
        self.run("rates", "import-ecb", self.file("eurofxref.csv", ECB_RATES))
        self.run("signing-keys", "rotate", "log")
        self.run("user", "create", "ann@ours.test", "Ann", "--operator")
        await self.unmatched_transfer()
        await self.open_unit()
        self.run("invoice", "settle", await self.invoice())
        await self.written_off("booked")
        await self.services.allocate_orders.run_once()
        self.run("account", "update", account_id, "--payment-method", "card")
        self.services.directory.forget_terms(self.world.ours_test.scope)
        await self.api.order()
        await self.services.charge_cards[Mode.TEST].run_once()
        await self.refund("attempt = 1")
        await self.einvoice()
        await self.services.allocate_orders.run_once()
        await self.services.retire_units.run_once()
        await self.execute(
            "INSERT INTO disputes (account_id, id, organisation_id, mode, order_id, charge_id, reference, amount_minor,"
            " withdrawn_minor, currency, reason, state, opened_at, recorded_at)"
            " SELECT account_id, 'dsp_1', organisation_id, mode, order_id, id, 'dp_1', amount_minor, 0, currency,"
            " 'fraudulent', 'opened', now(), now() FROM charges WHERE status = 'captured' LIMIT 1"
        )


# The arguments of each command. The database has at least one row for it.
ARGUMENTS: dict[str, Callable[[Reading], Awaitable[Words]]] = {
    "secrets status": lambda story: story.words(),
    "signing-keys list": lambda story: story.words(),
    "archive list": lambda story: story.words(),
    "audit": lambda story: story.words(),
    "person list": lambda story: story.erased_person(),
    "picture list": lambda story: story.words("--mode", "test"),
    "tax rates show": lambda story: story.words(),
    "tax vat-check list": lambda story: story.words(VAT_ID),
    "rates show": lambda story: story.words(),
    "books list": lambda story: story.words("--mode", "test"),
    "books chart show": lambda story: story.words(),
    "org list": lambda story: story.words(),
    "org show": lambda story: story.organisation(),
    "account list": lambda story: story.organisation(),
    "account show": lambda story: story.account(),
    "key list": lambda story: story.organisation(),
    "user list": lambda story: story.words(),
    "link list": lambda story: story.words("--account", story.world.ours_test.scope.account_id),
    "link show": lambda story: story.link(),
    "page show": lambda story: story.account(),
    "history list": lambda story: story.words(),
    "card show": lambda story: story.account(),
    "catalogue list": lambda story: story.words("--mode", "live"),
    "lot list": lambda story: story.words("--mode", "live"),
    "lot show": lambda story: story.id_in("lots"),
    "unit list": lambda story: story.words(),
    "hold-quota list": lambda story: story.words(),
    "order list": lambda story: story.words(),
    "order show": lambda story: story.id_in("orders"),
    "charge list": lambda story: story.words(),
    "charge show": lambda story: story.id_in("charges"),
    "invoice list": lambda story: story.words(),
    "invoice write-offs": lambda story: story.words(),
    "invoice show": lambda story: story.words("TN-LIVE-000001"),
    "einvoice list": lambda story: story.words(),
    "payout list": lambda story: story.words(),
    "transfer list": lambda story: story.words(),
    "transfer show": lambda story: story.id_in("bank_transfers"),
    "refund list": lambda story: story.words(),
    "refund show": lambda story: story.id_in("refunds"),
    "dispute list": lambda story: story.words(),
    "dispute show": lambda story: story.id_in("disputes"),
    "mail list": lambda story: story.words(),
    "mail show": lambda story: story.id_in("mails"),
    "retirement list": lambda story: story.words("--mode", "live"),
    "registry list": lambda story: story.words(),
    "registry show": lambda story: story.id_in("registry_instructions"),
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


def test_every_reading_command_is_here() -> None:
    every = {" ".join(words) for words, _ in READING_COMMANDS}
    assert every == ARGUMENTS.keys(), "add the arguments of new commands to ARGUMENTS"


async def test_people_f_every_reading_command_prints_json_csv_and_a_table(
    api: ApiClient, services: Services, world: World, tmp_path: Path
) -> None:
    story = Reading(api, services, world, tmp_path, {"secret_key": services.settings.secret_key, **SELLER})
    await story.populate()
    for command, arguments in ARGUMENTS.items():
        words = (*command.split(), *await arguments(story))
        objects = [json.loads(line) for line in story.run(*words, "--json").splitlines()]
        assert objects, f"tonne {command} --json printed nothing"
        [names, *rows] = csv.reader(io.StringIO(story.run(*words, "--csv")))
        assert len(rows) == len(objects), command
        assert set(names) <= set(objects[0]), command
        assert {name for each in objects for name in each if not isinstance(each[name], list)} <= set(names), command
        table = story.run(*words, "--no-color").splitlines()
        assert len(table) > 1, command
        assert "\x1b" not in "".join(table)
