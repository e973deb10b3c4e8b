"""Every command that changes something writes an audit entry, or is listed here with the reason why not."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import click
import msgspec
import pytest

from tests.apps.cli.story import (
    CHART,
    ECB_RATES,
    FACTORS,
    HISTORY,
    PAYOUTS,
    PRICES,
    STATEMENT,
    TAX_RATES,
    TAXED_SELLER,
    Story,
    Words,
)
from tests.support.api_client import ApiClient
from tests.support.world import ADDRESS, World
from tonne.apps.cli.database import ACTOR
from tonne.apps.cli.main import main
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings

READS = "changes nothing"
# The beginnings of API keys and of the secrets of webhooks and links.
SECRETS = ("tonne_test_", "tonne_live_", "whsec_", "lsec_")
READING = (
    "demo, check, user list, secrets status, signing-keys list, doctor, archive list, archive verify, audit, "
    "org list, org show, account list, account show, key list, link list, "
    "link show, page show, history list, catalogue list, picture list, card show, invoice list, invoice pdf, "
    "einvoice list, invoice show, invoice credit-pdf, invoice ageing, invoice statement, invoice write-offs, "
    "retirement list, order list, order show, charge "
    "list, charge show, order certificates, lot list, lot show, lot export, unit list, mail list, mail show, "
    "transfer list, transfer show, transfer doubtful, transfer returns, refund list, refund show, dispute list, "
    "dispute show, payout list, export journal, export balances, person list, hold-quota list, log openings, "
    "books check, books list, books export, books chart show, registry list, registry requests, registry show, "
    "registry differences, log audit, verify, tax rates show, tax vat-check list, rates show"
)
NOT_AUDITED = {
    "serve": "runs processes; the demo data it may create is written by audited use cases",
    "api": "runs a process",
    "worker": "runs a process",
    "migrate": "the table schema_migrations is the record",
    "backup": "audited, but needs the embedded database: see test_backup.py",
    "restore": "audited, but needs the embedded database: see test_backup.py",
    "upgrade": "moves all rows to a newer PostgreSQL and changes none; the old files are the record",
    "reindex": "rebuilds indexes, and changes no row",
    "signing renew": "audited, but needs an authority: see tests/supply/certificates/credentials/test_long_term.py",
    "estimate create": "the estimate is the record and never changes",
    "person repeat": "runs the audited erasure again: see tests/apps/privacy/test_commands.py",
    "urls rewrite": "audited, but needs a completed order: see tests/supply/retirements/test_urls_rewrite.py",
    "user code": "prints the code of a user of the demo, and changes nothing: see test_users.py",
    "listen": "forwards events to the developer's own machine",
    **dict.fromkeys(READING.split(", "), READS),
    **dict.fromkeys(
        (
            "refund approve",
            "transfer approve",
            "invoice approve-write-off",
            "books approve-reopening",
            "registry approve",
        ),
        "prints a link; with a personal token audited: see test_login.py",
    ),
    **dict.fromkeys(("login", "logout"), "changes nothing in the database: the token is kept in a file"),
    **dict.fromkeys(("record-run", "restore-test"), "records a run for the metrics"),
}

# Live invoices with tax wait for it.
ADDRESS_OPTIONS = [word for name, value in ADDRESS.items() for word in (f"--{name}", str(value))]
AUDITED: dict[str, Callable[[Story], Awaitable[Words]]] = {
    "org create": lambda story: story.words("New organisation"),
    "org set-fee": lambda story: story.organisation("0.2"),
    "org set-address": lambda story: story.organisation("1 Harbour Street"),
    "org tax": lambda story: story.organisation("--treatment", "standard", "--rate", "19", *ADDRESS_OPTIONS),
    "tax rates import": lambda story: story.words(story.file("tax.csv", TAX_RATES)),
    "tax vat-check record": lambda story: story.words("FR83404833048", "--outcome", "valid"),
    "rates import-ecb": lambda story: story.words(story.file("eurofxref.csv", ECB_RATES)),
    "rates set": lambda story: story.words("KWD", "0.35", "--day", "2026-11-02", "--source", "The bank"),
    "org add-admin": lambda story: story.organisation("ada@ours.test"),
    "org allow-redirect": lambda story: story.organisation("shop.example.com"),
    "org forbid-redirect": lambda story: story.organisation("shop.example.com"),
    "org allow-test-mail": lambda story: story.organisation("tester@ours.test"),
    "org forbid-test-mail": lambda story: story.organisation("tester@ours.test"),
    "org set-bundles": lambda story: story.organisation("--mode", "live", story.world.bundles_live["wind-power"]),
    "account create": lambda story: story.organisation("New", "--mode", "test", "--currency", "EUR"),
    "account update": lambda story: story.account("--name", "Renamed"),
    "account set-bundles": lambda story: story.account(story.world.bundles_test["wind-power"]),
    "hold-quota set": lambda story: story.account("500"),
    "key create": lambda story: story.account(),
    "key rotate": lambda story: story.words(story.world.theirs_test.key_id),
    "key revoke": lambda story: story.words(story.world.theirs_test.key_id),
    "link create": lambda story: story.words("--account", story.world.ours_test.scope.account_id, "--title", "One"),
    "link rotate-secret": lambda story: story.link(),
    "link update": lambda story: story.link("--title", "Two"),
    "link disable": lambda story: story.link(),
    "link enable": lambda story: story.link(),
    "page set": lambda story: story.account("--title", "Ours"),
    "history import": lambda story: story.words(
        "--account", story.world.ours_test.scope.account_id, story.file("history.csv", HISTORY)
    ),
    "history undo": lambda story: story.history_import(),
    "card set": lambda story: story.account("--method", "4242424242424242"),
    "card remove": lambda story: story.account(),
    "card link": lambda story: story.account(),
    "catalogue disable": lambda story: story.bundle(),
    "catalogue enable": lambda story: story.bundle(),
    "factors import": lambda story: story.words(story.file("factors.csv", FACTORS)),
    "catalogue import": lambda story: story.words(story.file("bundles.csv", PRICES), "--mode", "live"),
    "picture import": lambda story: story.picture(),
    "picture remove": lambda story: story.words("--mode", "live", "--bundle", "wind-power"),
    "catalogue import-lots": lambda story: story.import_lots(),
    "lot withdraw": lambda story: story.withdrawn_lot(),
    "order cancel": lambda story: story.cancelled_order(),
    "order refund": lambda story: story.paid_order("--amount", "1.00", "--reason", "A gesture"),
    "refund decline": lambda story: story.refund("state = 'approval', next_attempt_at = NULL", "--reason", "Not due"),
    "refund retry": lambda story: story.refund("attempt = 2"),
    "refund settle": lambda story: story.refund("attempt = 2", "--note", "Paid in cash"),
    "charge accept": lambda story: story.mismatched_charge(),
    "charge refund": lambda story: story.mismatched_charge(),
    "order rename": lambda story: story.renamed_order(),
    "invoice resend": lambda story: story.numbered(),
    "order resend": lambda story: story.invoiced_order(),
    "invoice settle": lambda story: story.numbered(),
    "invoice write-off": lambda story: story.on_credit("--reason", "Insolvent"),
    "invoice reinstate": lambda story: story.written_off("booked", "--reason", "They pay"),
    "invoice credit": lambda story: story.numbered("0.01", "--reason", "Late delivery"),
    "invoice import-statement": lambda story: story.words(story.file("march.csv", STATEMENT), "--mode", "live"),
    "books close": lambda story: story.words("2020-01", "--mode", "test"),
    "books reopen": lambda story: story.words("2020-01", "--mode", "test", "--reason", "A mistake"),
    "books chart import": lambda story: story.words(
        story.file("chart.csv", CHART), "--consultant", "1001", "--client", "7"
    ),
    "payout import": lambda story: story.words(story.file("payouts.csv", PAYOUTS)),
    "payout match": lambda story: story.payout(),
    "transfer resolve": lambda story: story.unmatched_transfer(),
    "transfer reopen": lambda story: story.unmatched_transfer(),
    "transfer assign": lambda story: story.assigned_transfer(),
    "transfer unassign": lambda story: story.assignment(),
    "transfer return": lambda story: story.returned_transfer(),
    "transfer export-returns": lambda story: story.words("-o", str(story.folder / "returns.xml")),
    "transfer redirect-return": lambda story: story.bank_return("planned", "--iban", "NL20INGB0001234567"),
    "transfer cancel-return": lambda story: story.bank_return("planned", "--note", "Not after all"),
    "transfer returned": lambda story: story.bank_return("exported", "--note", "Seen at the bank"),
    "transfer return-failed": lambda story: story.bank_return("exported", "--note", "Account closed"),
    "transfer same": lambda story: story.doubtful_line(),
    "transfer different": lambda story: story.doubtful_line(),
    "mail retry": lambda story: story.failed_mail(1),
    "mail discard": lambda story: story.failed_mail(2),
    "archive run": lambda story: story.old_partition(),
    "unit close": lambda story: story.open_unit(),
    "retirement import": lambda story: story.confirm_retirements(),
    "retirement export": lambda story: story.export_retirements(),
    "retirement put-back": lambda story: story.put_back_retirements(),
    "registry check": lambda story: story.registry_account(),
    "registry retry": lambda story: story.registry_request(),
    "registry upload": lambda story: story.registry_statement(),
    "registry settle": lambda story: story.registry_drift("--explained", "--reason", "A gift"),
    "lot invalidate": lambda story: story.used_lot(),
    "lot resolve": lambda story: story.invalid_lot(),
    "einvoice delivered": lambda story: story.einvoice(),
    "einvoice refused": lambda story: story.einvoice("--reason", "Unknown receiver"),
    "invoice clear-settled": lambda story: story.settled_by_hand("--difference", "bank_fees"),
    "key limit": lambda story: story.words(story.world.ours_test.key_id, "100"),
    "account close": lambda story: story.account("--reason", "Ended"),
    "account reopen": lambda story: story.account(),
    "org close": lambda story: story.organisation("--reason", "Ended"),
    "org reopen": lambda story: story.organisation(),
    "org remove-admin": lambda story: story.organisation("ada@ours.test"),
    "person export": lambda story: story.words("ada@ours.test"),
    "person erase": lambda story: story.mentioned_person("--yes"),
    "user create": lambda story: story.words("ann@ours.test", "Ann", "--operator"),
    "user grant": lambda story: story.words("ann@ours.test", story.world.ours_test.scope.organisation_id, "finance"),
    "user remove": lambda story: story.words("ann@ours.test", story.world.ours_test.scope.organisation_id),
    "user approver": lambda story: story.words("ann@ours.test"),
    "user disable": lambda story: story.words("ann@ours.test"),
    "user enable": lambda story: story.words("ann@ours.test"),
    "user reset": lambda story: story.words("ann@ours.test"),
    "user unlink": lambda story: story.linked_user("ann@ours.test"),
    "user delete": lambda story: story.words("ann@ours.test", "--yes"),
    "log reopen": lambda story: story.published_log("--reason", "Restored"),
    "signing-keys rotate": lambda story: story.words("credential"),
    "signing-keys retire": lambda story: story.signing_key(),
    "signing-keys revoke": lambda story: story.signing_key("--from", "1h"),
    "hold": lambda story: story.words("--reason", "Restored"),
    "resume": lambda story: story.words("--yes"),
    "secrets rotate": lambda story: story.rotate_key(),
    "secrets reset": lambda story: story.lose_key(),
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **TAXED_SELLER)


def _commands(command: click.Command | None, *path: str) -> Iterator[str]:
    assert command is not None
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name), *path, name)
    else:
        yield " ".join(path)


def test_security_7_every_command_that_changes_something_is_audited_or_exempt() -> None:
    every = set(_commands(main))
    remedy = "write an audit entry and add the command to AUDITED, or add it to NOT_AUDITED with the reason"
    assert every - AUDITED.keys() - NOT_AUDITED.keys() == set(), remedy
    assert AUDITED.keys() | NOT_AUDITED.keys() == every, "commands that no longer exist"
    assert AUDITED.keys().isdisjoint(NOT_AUDITED)


async def test_security_7_every_audited_command_writes_an_entry(
    api: ApiClient, services: Services, world: World, tmp_path: Path
) -> None:
    story = Story(api, services, world, tmp_path, {"secret_key": services.settings.secret_key, **TAXED_SELLER})
    for command, arguments in AUDITED.items():
        words = await arguments(story)
        before = await story.entries()
        story.run(*command.split(), *words)
        added = {id_: actor for id_, actor in (await story.entries()).items() if id_ not in before}
        assert added, f"tonne {command} wrote no audit entry"
        assert set(added.values()) == {str(ACTOR.actor)}, command
    log = await story.fetch("SELECT string_agg(audit_log::text, ' ') FROM audit_log")
    assert not any(prefix in log for prefix in SECRETS)
