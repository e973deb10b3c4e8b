"""What `tonne doctor` warns of: each check names what waits too long, and not before it is too long."""

import json
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.apps.cli.desk import COMPLETE, LATE, PAID, Arrange, Desk, unpriced
from tests.support.clock import ManualClock
from tests.support.command import Operator, refusal_of, tonne
from tests.support.orders import bring_to, place, receive
from tests.support.world import SELLER, World, add_account
from tonne.apps.cli.database import connect, open_readers
from tonne.apps.cli.operations import doctor
from tonne.apps.cli.operations.doctor import ALL_INVARIANTS, FAILED_CODE, WARNINGS_CODE, examine, examine_in_parallel
from tonne.apps.lookup.doctor.doctor_checks import ALL_WAITING
from tonne.apps.privacy.retention.waiting import WAITING as RETENTION_WAITING
from tonne.apps.wiring.app import Services
from tonne.money.invoices.waiting import WAITING as INVOICES_WAITING
from tonne.money.refunds.waiting import WAITING as REFUNDS_WAITING
from tonne.platform.db.invariant import Invariant, group_by_scan
from tonne.platform.db.schema.migration_files import Migration, all_migrations
from tonne.platform.db.schema.partitions import WAITING as PARTITIONS_WAITING
from tonne.platform.events.invariants import INVARIANTS as EVENTS
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, new_id, utc_now
from tonne.selling.accounts.waiting import WAITING as KEYS_WAITING
from tonne.supply.registries.waiting import WAITING as REGISTRIES_WAITING
from tonne.supply.transparency.waiting import WAITING as LOG_WAITING


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
def clock() -> Clock:
    return ManualClock()


@pytest.fixture
def desk(services: Services, clock: ManualClock, world: World) -> Desk:
    return Desk(services, clock, world)


@pytest.mark.parametrize(("arrange", "after", "name"), LATE, ids=[name for _, _, name in LATE])
async def test_money_d6_what_waits_too_long_is_named(desk: Desk, arrange: Arrange, after: timedelta, name: str) -> None:
    word = await arrange(desk)
    desk.clock.now += after - timedelta(minutes=1)
    assert name not in await desk.waiting()
    desk.clock.advance(minutes=2)
    [place] = (await desk.waiting())[name]
    assert word in place


async def test_money_d6_orders_of_test_accounts_are_not_reported(desk: Desk) -> None:
    await receive(desk.services, desk.world.ours_test.scope, desk.clock())
    await bring_to(desk.services, desk.world.ours_test.scope, PAID, desk.clock())
    await desk.execute("UPDATE orders SET next_attempt_at = $1", desk.clock())
    desk.clock.advance(days=90)
    assert await desk.waiting() == {}


async def test_nobody_was_mailed_about_a_declined_card(desk: Desk) -> None:
    await desk.charge("pending")
    await desk.execute("UPDATE charges SET status = 'failed', settled_at = $1, next_attempt_at = NULL", desk.clock())
    await desk.execute(
        "INSERT INTO card_links (account_id, organisation_id, mode, token_box, token_hash, token_made_at, created_at) "
        "SELECT account_id, organisation_id, mode, '', decode(repeat('00', 32), 'hex'), $1, $1 FROM charges",
        desk.clock(),
    )
    name = "someone is mailed about problems with live cards"
    [place] = (await desk.waiting())[name]
    assert desk.world.ours_live.scope.account_id in place
    await desk.execute("UPDATE accounts SET card_email = 'ada@ours.test'")
    assert name not in await desk.waiting()


async def test_missing_settings_are_named_once_they_matter(desk: Desk) -> None:
    nothing = dict.fromkeys(COMPLETE, "")
    assert await desk.waiting(**nothing) == {}
    await desk.invoice()
    found = await desk.waiting(**nothing)
    named = " ".join(found[INVOICES_WAITING[0].name])
    assert "a mail server is set for live orders" in found
    assert all(name in named for name in ("TONNE_SELLER_ADDRESS", "TONNE_BANK_IBAN", "TONNE_SELLER_EMAIL"))
    await desk.execute(
        "UPDATE accounts SET payment_method = 'card' WHERE id = $1", desk.world.ours_live.scope.account_id
    )
    found = await desk.waiting(**nothing)
    assert desk.world.ours_live.scope.account_id in found["a gateway is set for live orders by card"][0]
    assert await desk.waiting() == {}


async def test_an_open_live_link_needs_the_legal_links(desk: Desk) -> None:
    name = "public pages name terms, privacy notice and imprint"
    await desk.execute(
        "INSERT INTO offset_links (id, organisation_id, account_id, mode, title, message, amount_editable, enabled, "
        "created_at, beneficiary) VALUES ('lnk_1', $1, $2, 'live', 'Offset', '', true, true, $3, 'account')",
        desk.world.ours_live.scope.organisation_id,
        desk.world.ours_live.scope.account_id,
        desk.clock(),
    )
    found = await desk.waiting(imprint_url="https://tonne.test/imprint")
    assert found[name] == ["TONNE_TERMS_URL is not set", "TONNE_PRIVACY_URL is not set"]
    await desk.execute("UPDATE offset_links SET enabled = false")
    assert name not in await desk.waiting()


async def test_money_11_a_currency_of_a_live_account_without_a_rate_is_named(desk: Desk) -> None:
    async with desk.database.transaction() as tx:
        for mode, currency in ((Mode.LIVE, "NOK"), (Mode.LIVE, "EUR"), (Mode.TEST, "PLN")):
            await add_account(tx, desk.world.ours_live.scope.organisation_id, mode, currency=currency)
    found = await desk.waiting()
    assert found == {"live accounts have a recent exchange rate": ["EUR to NOK: there is no rate"]}


async def test_money_22_an_organisation_without_an_admin_is_named(desk: Desk) -> None:
    name = "organisations with open live invoices have an admin"
    await desk.invoice()
    desk.clock.advance(minutes=1)
    organisation_id = desk.world.ours_live.scope.organisation_id
    [place] = (await desk.waiting())[name]
    assert place == f"organisation {organisation_id}: 1 open, the oldest is TN-LIVE-000001"
    await desk.execute(
        "INSERT INTO organisation_admins (organisation_id, email, created_at) VALUES ($1, 'ada@ours.test', $2)",
        organisation_id,
        desk.clock(),
    )
    assert name not in await desk.waiting()


async def test_a_mail_that_was_given_up_is_retried_or_discarded(desk: Desk, operator: Operator) -> None:
    for number in (1, 2):
        await desk.execute(
            "INSERT INTO mails (id, organisation_id, recipients, message, created_at, attempts, last_error) "
            "VALUES ($1, 'org_1', '{a@b.test}', '', $2, 8, 'no such user')",
            f"mail_{number}",
            desk.clock(),
        )
    name = "no mail was given up"
    assert ["no such user" in place for place in (await desk.waiting())[name]] == [True, True]
    assert operator.does("mail", "list", "--state", "failed").count("mail_") == 2
    assert operator.does("mail", "retry", "mail_1") == "mail_1 will be sent again."
    assert operator.does("mail", "discard", "mail_2") == "mail_2 is discarded."
    assert name not in await desk.waiting()
    assert "mail_1" in operator.does("mail", "list", "--state", "waiting")
    assert "mail_2" in operator.does("mail", "list", "--state", "discarded")
    assert "mail_" not in operator.does("mail", "list", "--state", "failed")
    for words in (("retry", "mail_1"), ("discard", "mail_2"), ("retry", "mail_3")):
        assert "is not a failed mail" in refusal_of("mail", *words, database_url=operator.url)
    actions = await desk.fetch("SELECT action FROM audit_log WHERE subject_id LIKE 'mail_%' ORDER BY action")
    assert [row["action"] for row in actions] == ["mail.discarded", "mail.retried"]


async def test_a_key_that_is_not_configured_is_named(desk: Desk) -> None:
    await desk.execute("INSERT INTO secret_keys (id) VALUES ('0123456789abcdef')")
    assert "0123456789abcdef" in (await desk.waiting())["all secret keys of this database are configured"][0]


def test_operations_19_only_the_wanted_checks_are_made(operator: Operator) -> None:
    found = msgspec.json.decode(
        operator.runs("doctor", "--json", "--only", "SECRETS can", "--only", "same time").stdout
    )
    names = [check["name"] for check in found["checks"]]
    assert names == ["all secrets can be opened", "this machine and the database have the same time"]
    assert "no check is named so: unicorns" in operator.runs("doctor", "--only", "unicorns").stderr


async def test_operations_19_every_check_has_a_snapshot_of_its_own(services: Services, operator: Operator) -> None:
    """A snapshot that is held during all checks would keep the primary from removing old rows."""
    open_transactions = "SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid = ANY ($1::int[])"
    async with open_readers(operator.url) as readers, services.database.connection() as observer:
        pids = [await readers.run(place, lambda tx: tx.fetchval("SELECT pg_backend_pid()")) for place in (0, 1)]
        assert (await examine_in_parallel(readers)).breaches == {}
        assert await observer.fetchval(open_transactions, pids) == 0
        await observer.execute("UPDATE event_streams SET last_position = last_position + 1")
        assert list((await examine_in_parallel(readers)).breaches) == [EVENTS[0].name]
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await readers.run(0, lambda tx: tx.execute("DELETE FROM event_streams"))


async def test_operations_19_every_check_groups_whole_tables_in_memory(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, the command takes half as long again on a database with many orders."""
    names = "'work_mem', 'enable_nestloop', 'enable_sort', 'max_parallel_workers_per_gather'"
    query = f'SELECT setting AS "where" FROM pg_settings WHERE name IN ({names}) ORDER BY name'  # noqa: S608
    monkeypatch.setattr(doctor, "ALL_INVARIANTS", (Invariant("settings", "", query),))

    async with open_readers(operator.url) as readers:
        assert (await examine_in_parallel(readers)).breaches == {"settings": ["off", "off", "0", "131072"]}


async def test_operations_19_since_limits_checks_and_says_which(
    services: Services, desk: Desk, operator: Operator
) -> None:
    old = await place(services, desk.world.ours_test.scope, utc_now() - timedelta(days=9))
    await desk.execute("UPDATE orders SET idempotency_key = 'changed by hand'")
    document, sums = "an order's JSON matches its columns", "held grams are free"

    assert [old.id in found for found in _broken(operator.runs("doctor", "--json").stdout)[document]] == [True]
    assert document in _broken(operator.runs("doctor", "--json", "--since", "10d").stdout)
    limited = operator.runs("doctor", "--json", "--since", "2d").stdout
    assert _broken(limited) == {}
    extents = {check["name"]: check["limited"] for check in msgspec.json.decode(limited)["checks"]}
    assert (extents[document], extents[sums]) == (True, False)
    at = f"{utc_now() - timedelta(days=2):%Y-%m-%d}"
    text = operator.runs("doctor", "--since", at).stdout
    assert f"ok      {document} (since {at} 00:00 UTC)\n" in text
    assert f"ok      {sums} (all data)\n" in text
    assert "how long ago: 90m" in operator.runs("doctor", "--since", "yesterday").stderr
    assert "expected a time in the past" in operator.runs("doctor", "--since", "2999-01-01").stderr


@pytest.mark.parametrize("statement", [
    "UPDATE events SET event_type = 'order.completed' WHERE event_type = 'order.placed'",
    "UPDATE events SET sequence = sequence + interval '1 ms' WHERE event_type = 'order.received'",
    "DELETE FROM events WHERE event_type = 'order.placed'",
    "UPDATE orders SET status = 'paid'",
    "UPDATE order_lines SET quantity_grams = quantity_grams + 1",
])  # fmt: skip
async def test_operations_19_since_finds_what_is_newer(services: Services, world: World, statement: str) -> None:
    now = utc_now()
    for at in (now - timedelta(days=1), now):
        await place(services, world.ours_test.scope, at)
    async with services.database.transaction() as tx:
        await tx.execute(statement)
    async with services.database.transaction() as tx:
        assert await examine(tx, since=now - timedelta(minutes=1)) != {}
    async with services.database.transaction() as tx:
        assert await examine(tx, since=now + timedelta(days=1)) == {}


async def test_operations_19_an_order_that_is_older_than_the_time_is_not_broken(
    services: Services, world: World
) -> None:
    """Its first events are left out, its last is checked."""
    now = utc_now()
    order = await place(services, world.ours_test.scope, now - timedelta(days=1))
    async with services.database.transaction() as tx:
        for event_type, at in (("order.received", now - timedelta(days=1)), ("order.placed", now)):
            await tx.execute("UPDATE events SET sequence = $1 WHERE event_type = $2", at, event_type)
        await tx.execute("UPDATE orders SET status_changed_at = $1 WHERE id = $2", now, order.id)
    async with services.database.transaction() as tx:
        assert await examine(tx, since=now - timedelta(minutes=1)) == {}


def test_operations_19_timings_name_every_statement(operator: Operator) -> None:
    lines = operator.runs("doctor", "--timings").stdout.splitlines()
    seconds = [float(line.split(" s  ")[0]) for line in lines if " s  " in line]
    assert len(seconds) == len(group_by_scan(ALL_INVARIANTS)) < len(ALL_INVARIANTS)
    assert seconds == sorted(seconds, reverse=True)


def _broken(report: str) -> dict[str, list[str]]:
    checks = msgspec.json.decode(report)["checks"]
    return {check["name"]: check["found"] for check in checks if check["status"] == "broken"}


def test_every_check_is_tested_and_says_what_to_do() -> None:
    tested = {name for _, _, name in LATE} | {
        "organisations with open live invoices have an admin",
        "a gateway is set for live orders by card",
        "live invoices name the seller and the bank account",
        "all secret keys of this database are configured",
        "a mail server is set for live orders",
        "no mail was given up",
        "public pages name terms, privacy notice and imprint",
    }
    assert {check.name for check in ALL_WAITING} - tested <= ELSEWHERE
    for check in ALL_WAITING:
        assert check.meaning.endswith(".")
        assert check.remedy.endswith(".")
        assert any(word in check.remedy for word in ("`tonne ", "TONNE_", "gateway")), check.name


# Checks whose tests are with their package.
ELSEWHERE = {
    *(check.name for check in (*REFUNDS_WAITING, *LOG_WAITING, *KEYS_WAITING, *REGISTRIES_WAITING)),
    "someone is mailed about problems with live cards",
    "live orders are within the credit limits of their accounts",
    "the files of documents are stored within a day",
    "live invoices are not held back by missing settings",
    "live invoices are not held back by the address of the buyer",
    "live invoices are not held back by VAT ids or exchange rates",
    "all open offset links can be paid",
    "the rates of tax by country are up to date",
    "the card of a consumer is from the country that was given",
    "live certificates of invalid lots are decided about",
    "live certificates of invalid lots are replaced by the day that the order shows",
    "live orders of invalid lots get other credits within an hour",
    "live units are closed at the end of their waiting time",
    "live orders that a card pays reach the minimum charge within two months",
    "the service is not held",
    "this machine and the database have the same time",
    "erasures of persons are finished within an hour",
    *(check.name for check in (*PARTITIONS_WAITING, *RETENTION_WAITING)),
}


async def test_the_exit_code_distinguishes_warnings_from_broken_invariants(operator: Operator, desk: Desk) -> None:
    done = tonne("doctor", database_url=operator.url, smtp_url="smtp://mail.test")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "All checks passed.")
    desk.clock.advance(days=-400)
    order_id = await unpriced(desk)

    done = tonne("doctor", database_url=operator.url, smtp_url="smtp://mail.test")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (WARNINGS_CODE, "1 warning. See above.")
    assert "WARN    live orders get a price within an hour" in done.stdout
    assert order_id in done.stdout
    assert "tonne catalogue import" in done.stdout
    report = _report(operator, WARNINGS_CODE)
    assert report["status"] == "warning"
    [check] = [check for check in report["checks"] if check["status"] != "ok"]
    assert check["name"] == "live orders get a price within an hour"
    assert order_id in check["found"][0]

    await desk.execute("UPDATE event_streams SET last_position = last_position + 1")
    done = tonne("doctor", database_url=operator.url, smtp_url="smtp://mail.test")
    assert done.returncode == 1
    assert "1 warning." in done.stderr
    assert _report(operator, 1)["status"] == "broken"


def _report(operator: Operator, code: int) -> dict[str, Any]:
    done = tonne("doctor", "--json", database_url=operator.url, smtp_url="smtp://mail.test")
    assert done.returncode == code
    return dict(json.loads(done.stdout))


async def test_operations_3_commands_are_not_limited_by_the_settings_of_the_role(services: Services) -> None:
    """Behind PgBouncer the role has the limits of the service, which are too short for a command."""
    limits = ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout")
    async with services.database.connection() as own:
        name = await own.fetchval("SELECT quote_ident(current_database())")
        for limit in limits:
            await own.execute(f"ALTER DATABASE {name} SET {limit} = '1ms'")
        try:
            connection = await connect(services.database._url)
            found = {limit: await connection.fetchval(f"SHOW {limit}") for limit in limits}
            await connection.close()
        finally:
            await own.execute(f"ALTER DATABASE {name} RESET ALL")
    assert set(found.values()) == {"0"}


async def test_operations_3_a_check_that_fails_is_a_sentence_with_an_exit_code_of_its_own(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback with the code for broken data."""

    async def cancelled(*_: object) -> object:
        raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")

    for function in ("_make", "find_unreadable", "find_broken_trees", "find_waiting"):
        with monkeypatch.context() as patch:
            patch.setattr(doctor, function, cancelled)
            done = operator.runs("doctor")
            assert done.returncode == FAILED_CODE, function
            assert "- canceling statement due to statement timeout" in done.stdout
            assert "checks could not be made. See above." in done.stderr
            assert "Traceback" not in done.stdout + done.stderr
    assert json.loads(operator.runs("doctor", "--json").stdout)["status"] in {"ok", "warning"}


async def test_operations_3_doctor_never_ends_in_a_traceback(
    operator: Operator, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is away, accepts no writes, has another schema, or the login may read nothing or only some."""
    async with services.database.connection() as own:
        name = await own.fetchval("SELECT quote_ident(current_database())")
        role = f"reader_{new_id('x')[2:]}"
        await own.execute(f"CREATE ROLE {role} LOGIN")
        url = operator.url.replace("//postgres@", f"//{role}@")
        try:
            assert url != operator.url
            sentence = refusal_of("doctor", database_url=url)
            assert sentence.startswith("The role in TONNE_DATABASE_URL may not do this (permission denied for ")
            await own.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
            await own.execute(f"REVOKE SELECT ON orders FROM {role}")  # noqa: S608 - a name of ours
            done = tonne("doctor", database_url=url)
            assert done.returncode == FAILED_CODE, done
            assert "- permission denied for table orders" in done.stdout
            assert "The result was not stored" in done.stderr
            await own.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            done = operator.runs("doctor")
            assert done.returncode in {0, WARNINGS_CODE}, done
            assert "The result was not stored" in done.stderr
        finally:
            await own.execute(f"SET default_transaction_read_only = off; ALTER DATABASE {name} RESET ALL")
            await own.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert "Cannot connect to the database" in refusal_of("doctor", database_url="postgresql://nobody@127.0.0.1:1/none")
    later = Migration(7, "0007_later", "SELECT 1")
    monkeypatch.setattr("tonne.platform.db.schema.migrate.all_migrations", lambda: [*all_migrations(), later])
    assert "run `tonne migrate` first" in refusal_of("doctor", database_url=operator.url)
