"""Whether all that reads or changes many rows ends, with time limits of a hundredth of the defaults.

The limits are those of a role, as behind a pooler: the service has no others, and commands reset them. A statement that
a busy machine delayed is repeated, as a worker or a person would.
"""

import asyncio
import contextlib
import http.client
import logging
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec
import structlog

from bench.dashboard.data import prepare, prepare_templates
from bench.dashboard.live_mode import MODE
from bench.dashboard.pages import OPERATOR, ORGANISATION, find_pages, page_routes
from bench.dashboard.run import service_routes
from bench.environment import SECRET_KEY, Environment
from bench.growth.run import filled
from bench.recount import log_copies, post_copies
from bench.report import NotMeasured, Report, Result
from tests.support.command import tonne
from tests.support.processes import HOST, ROOT
from tonne.apps.dashboard.viewer import operator_base, organisation_base
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.db.session_settings import session_settings
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now

NAMES = ("pages", "commands", "jobs")
ORDERS, QUICK_ORDERS = 200_000, 2_000
SHORTER = 100
# A role of its own: the queries of the run itself keep the usual limits.
ROLE = "limited"
MAKE_ROLE = f"CREATE ROLE {ROLE} SUPERUSER LOGIN"
TRIES = 8
JOB_WITHIN_S = 600.0
# Rows are removed by jobs that see a time when all of them are old.
LATER = timedelta(days=200)
FILES = {
    ORGANISATION: (
        *("/orders.csv", "/audit/export", "/links/days.csv", "/statement/csv?from=2020-01-01"),
        "/statement?from=2020-01-01",
    ),
    OPERATOR: (
        *("/orders.csv", "/audit/export", "/retirements/export", "/supply/export"),
        *(
            f"/month-end/{{month}}/files/{name}"
            for name in ("journal.csv", "journal.beancount", "balances.csv", "sales.csv", "oss.csv")
        ),
    ),
}
# What waits for jobs: changes that are not counted yet, and rows that are due to be removed.
BACKLOGS = (
    """
    INSERT INTO order_deltas (organisation_id, mode, month, currency, status, orders, grams, cost_minor, tax_minor,
                              refunded_minor, account_id, order_id, day, offset_cost_minor)
    SELECT organisation_id, mode, date_trunc('month', created_at)::date, currency, status, 0, 0, 0, 0, 0, account_id,
           id, created_at::date, 0 FROM orders
    """,
    "INSERT INTO estimate_deltas (account_id, day, estimates) SELECT account_id, created_at::date, 0 FROM orders",
    """
    INSERT INTO offset_link_deltas (organisation_id, mode, account_id, offset_link_id, day)
    SELECT link.organisation_id, link.mode, link.account_id, link.id, orders.created_at::date
    FROM orders CROSS JOIN (SELECT organisation_id, mode, account_id, id FROM offset_links LIMIT 1) AS link
    """,
    """
    INSERT INTO event_traces (organisation_id, mode, position, trace, stored_at)
    SELECT organisation_id, mode, position, 'bench', now() FROM events ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO api_requests (slot, organisation_id, mode, at, request_id, key_id, method, route, status, duration_us)
    SELECT extract(epoch FROM created_at)::bigint / 86400 % 10, organisation_id, mode, created_at, 'req_' || id,
           'key_bench', 'GET', '/v1/orders', 200, 1 FROM orders
    """,
    """
    INSERT INTO metadata_keys (account_id, key, organisation_id, mode, created_at)
    SELECT id, 'invoice', organisation_id, mode, now() FROM accounts
    """,
    """
    INSERT INTO mails (id, organisation_id, recipients, message, created_at, attempts, sent_at)
    SELECT 'mail_' || id, organisation_id, '{old@bench.test}', 'Subject: Bench', created_at, 1, created_at FROM orders
    """,
    # Mails of a month that has no partition yet.
    """
    INSERT INTO mails (id, organisation_id, recipients, message, created_at, attempts, sent_at)
    SELECT 'mail_stray_' || id, organisation_id, '{old@bench.test}', 'Subject: Bench', created_at + interval '120 days',
           1, created_at FROM orders
    """,
    """
    UPDATE audit_packs SET status = 'waiting', done = 0, total = NULL, bytes = NULL, next_attempt_at = now(),
           first_day = (SELECT min(issued_at)::date FROM certificates),
           last_day = (SELECT min(issued_at)::date FROM certificates)
    WHERE id = 'pck_bench'
    """,
    "UPDATE statement_uploads SET uploaded_by = 'system:bench'",
    # What the samples of pages have changed.
    "DELETE FROM log_statements WHERE subject IN (SELECT id FROM parcels WHERE status <> 'retired')",
)
# Before old rows are removed: a mail that was not sent, and a webhook that has not got its events, need them.
NEEDED_NO_MORE = """
WITH parked AS (DELETE FROM webhook_parked), mails AS (UPDATE mails SET sent_at = now() WHERE sent_at IS NULL)
UPDATE webhooks SET deleted_at = now(), enabled = false
"""


async def run(
    names: AbstractSet[str], report: Report, *, quick: bool, orders: int | None = None, folder: Path | None = None
) -> None:
    count = orders or (QUICK_ORDERS if quick else ORDERS)
    made = filled(folder or ROOT / "var", count, complete=count, of_one_tenant=True, before_copies=prepare_templates)
    async with made as (environment, _):
        cookies = await prepare(environment)
        await log_copies(environment)
        await post_copies(environment)
        async with environment.connection() as connection:
            await connection.execute(MAKE_ROLE)
            for name, value in session_settings(_short(Settings())).items():
                await connection.execute(f"ALTER ROLE {ROLE} SET {name} = '{value}'")
        await environment.vacuum()
        ended, failures = 0, list[str]()
        for name, check in (("pages", _get_pages), ("commands", _run_commands), ("jobs", _run_jobs)):
            if name in names:
                async for what, problem in check(environment, cookies):
                    ended += not problem
                    failures += [f"{what}: {problem}"] if problem else []
                    print(f"{what:<60} {problem or 'ended'}", file=sys.stderr, flush=True)
    if failures:
        raise NotMeasured("These did not end:\n" + "\n".join(failures))
    report.add(Result("limits_ended", ended, "of them", ended))


def _short(settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings,
        statement_timeout_s=settings.statement_timeout_s / SHORTER,
        lock_timeout_s=settings.lock_timeout_s / SHORTER,
    )


def _service_settings(environment: Environment) -> Mapping[str, object]:
    """The role has the limits, so the service sends none of its own."""
    short = _short(Settings())
    return {
        **environment.settings,
        "database_url": _url(environment),
        "database_pooling": "transaction",
        "database_direct_url": _url(environment),
        "statement_timeout_s": short.statement_timeout_s,
        "lock_timeout_s": short.lock_timeout_s,
    }


def _url(environment: Environment) -> str:
    return environment.url.replace("//postgres@", f"//{ROLE}@")


Outcomes = AsyncIterator[tuple[str, str]]


async def _get_pages(environment: Environment, cookies: Mapping[str, str]) -> Outcomes:
    environment.server.stop()
    environment.settings = _service_settings(environment)
    environment.start_server()
    organisation_id = environment.tenants[0].scope.organisation_id
    bases = {ORGANISATION: organisation_base(MODE, organisation_id), OPERATOR: operator_base(MODE)}
    async with environment.connection() as connection:
        pages = await find_pages(connection, page_routes(service_routes()), organisation_id)
    found = [(page.area, page.path) for page in pages]
    month = f"{date.today():%Y-%m}"  # noqa: DTZ011 - any month will do
    found += [(area, bases[area] + path.format(month=month)) for area, paths in FILES.items() for path in paths]
    for area, path in found:
        yield path, await _until_done(partial(_get, environment, path, cookies[area]))


async def _get(environment: Environment, path: str, cookie: str) -> str:
    """The problem, if there is one. A file that is cut off raises an error."""
    return await asyncio.to_thread(_request, environment, path, cookie)


def _request(environment: Environment, path: str, cookie: str) -> str:
    connection = http.client.HTTPConnection(HOST, environment.port, timeout=600)
    try:
        connection.request("GET", path, headers={"Cookie": cookie})
        response = connection.getresponse()
        text = response.read()
        return "" if response.status == 200 else f"{response.status} {text[:200].decode(errors='replace')}"
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()


async def _until_done(attempt: Callable[[], Awaitable[str]]) -> str:
    """The problem of the last try, if none of them succeeded."""
    problem = ""
    for number in range(TRIES):
        problem = await attempt()
        if not problem:
            break
        await asyncio.sleep(0.2 * number)
    return problem


async def _run_commands(environment: Environment, _: Mapping[str, str]) -> Outcomes:
    address = "https://new.bench.test"
    settings: dict[str, str | Path | int] = {
        "database_url": _url(environment),
        "data_dir": environment.folder,
        "secret_key": SECRET_KEY,
        "public_url": address,
    }
    scope = environment.tenants[0].scope
    history = environment.folder / "history.csv"
    rows = (f"2020-01-01,old-{number},1,Former Ltd" for number in range(20_000))
    history.write_text("\n".join(["date,external_id,quantity,provider", *rows]))
    month = f"{date.today():%Y-%m}"  # noqa: DTZ011 - any month will do
    commands: Sequence[tuple[str, ...]] = (
        # Copies of one order are not consistent in all respects, so the doctor finds something: it ends by that code.
        ("doctor", "--json"),
        ("check",),
        ("export", "journal", "--month", month, "--mode", MODE),
        ("export", "balances", "--mode", MODE),
        ("audit", "--limit", "100000", "--json"),
        ("person", "export", "nobody@bench.test"),
        ("person", "erase", "nobody@bench.test", "--yes"),
        ("history", "import", "--account", scope.account_id, str(history)),
        ("urls", "rewrite", f"http://localhost:{environment.port}", address),
        ("secrets", "rotate"),
        ("reindex",),
        ("archive", "list"),
    )
    for words in commands:
        started = time.monotonic()
        done = await asyncio.to_thread(tonne, *words, **settings)
        said = f"{done.stderr[-300:]}{'' if len(done.stdout) > 2000 else done.stdout[-300:]}"
        is_limit = "cancel" in done.stderr or "could not be made" in done.stderr or '"failed"' in done.stdout
        print(f"{time.monotonic() - started:7.1f} s  {done.returncode} {' '.join(words)[:60]}", file=sys.stderr)
        ended = done.returncode in {0, 3} or (words[0] in {"doctor", "check"} and done.returncode == 1)
        yield " ".join(("tonne", *words[:2])), "" if ended and not is_limit else f"{done.returncode} {said}"


async def _run_jobs(environment: Environment, _: Mapping[str, str]) -> Outcomes:
    """Each until it finds nothing to do: first today, then when everything is old."""
    async with environment.connection() as connection:
        for statement in BACKLOGS:
            await connection.execute(statement)
    await environment.vacuum()
    settings = msgspec.structs.replace(
        _short(Settings()),
        database_url=_url(environment),
        data_dir=str(environment.folder),
        secret_key=SECRET_KEY,
        database_pooling="transaction",
        port=environment.port,
        **dict.fromkeys(("events_days", "webhook_attempts_days", "mails_days"), 90),
    )
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    database = await Database(settings.database_url, settings).open()
    try:
        for later in (timedelta(0), LATER):
            if later:
                async with environment.connection() as connection:
                    await connection.execute(NEEDED_NO_MORE)
            services = Services(database, settings, partial(_clock, later), process="worker")
            async with contextlib.aclosing(_run_each(services, later)) as outcomes:
                async for outcome in outcomes:
                    yield outcome
        async with environment.connection() as connection:
            for what, query in LEFT.items():
                left = await connection.fetchval(query)
                yield what, f"{left:,} are left" if left else ""
    finally:
        await database.close()


# What the jobs must have done: each query counts what is left.
LEFT = {
    "changes of orders are counted": "SELECT count(*) FROM order_deltas",
    "estimates are counted": "SELECT count(*) FROM estimate_deltas",
    "openings of links are counted": "SELECT count(*) FROM offset_link_deltas",
    "metadata keys are counted": "SELECT count(*) FROM metadata_keys WHERE NOT is_complete",
    "statements are in the log": "SELECT count(*) FROM log_statements WHERE position IS NULL",
    "old requests are removed": "SELECT count(*) FROM api_requests WHERE at < now() - interval '9 days'",
    "audit packs are made": "SELECT count(*) FROM audit_packs WHERE status = 'waiting'",
    "mails are in their partitions": "SELECT count(*) FROM mails_default",
    "old events are removed": "SELECT count(*) FROM events WHERE sequence < now() - interval '1 day'",
    "old mails are removed": "SELECT count(*) FROM mails WHERE created_at < now() - interval '1 day'",
}


def _clock(later: timedelta) -> datetime:
    return utc_now() + later


async def _run_each(services: Services, later: timedelta) -> AsyncGenerator[tuple[str, str]]:
    for job in services.jobs():
        if later and not job.name.startswith(("make_partitions", "remove_", "prune_")):
            continue
        failures, problem, started = 0, "", time.monotonic()
        while time.monotonic() - started < JOB_WITHIN_S:
            try:
                more = await job.run_once()
            except Exception as error:  # noqa: BLE001 - tried again, as by the worker
                failures, problem = failures + 1, repr(error)
                await asyncio.sleep(min(0.2 * failures, 5.0))
                continue
            failures, problem = 0, ""
            if not more:
                break
        else:
            problem = f"it was not done after {JOB_WITHIN_S:.0f} s: {problem or 'there is more to do'}"
        yield f"{job.name}{' later' if later else ''}", problem
