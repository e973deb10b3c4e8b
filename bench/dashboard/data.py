"""What pages show besides orders: people who are signed in, and at least one of each object that a page is about.

Objects of which a page shows only one are inserted as they are, so the data is not consistent afterwards.
"""

from pathlib import Path

import msgspec

from bench.dashboard.live_mode import MODE, make_live
from bench.doctor.deliveries import deliver_all
from bench.environment import SECRET_KEY, Environment
from bench.growth import probes
from bench.report import NotMeasured
from tests.support.orders import place
from tests.support.people import sign_in_owner
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, new_id, utc_now

INVOICES = 30


async def prepare_templates(environment: Environment) -> None:
    """Before orders are copied: what needs a service in test mode. Then all becomes live."""
    await deliver_all(environment)
    probes.send(environment, "POST", "/v1/offset-links", {"title": "Bench"}, status=201)
    await _issue_invoices(environment.url, environment.folder, environment.tenants[0].scope)
    await make_live(environment)


async def prepare(environment: Environment) -> dict[str, str]:
    """Add the objects. Returns the cookies of the owner of the first organisation and of an operator, by area."""
    await deliver_all(environment)
    scope = environment.tenants[0].scope
    async with environment.connection() as tx, tx.transaction():
        charge = await tx.fetchrow(A_CHARGE, scope.account_id)
        if charge is None:
            raise NotMeasured("There is no captured charge.")
        for statement in OF_CHARGES:
            await tx.execute(statement, *charge.values())
        for statement in OF_ALL:
            await tx.execute(statement, scope.organisation_id, MODE)
        await _insert_with_ids(tx, scope)
        return {
            "organisation": await sign_in_owner(tx, "owner@bench.test", scope.organisation_id),
            "operator": await sign_in_owner(tx, "operator@bench.test", None),
        }


CLIENT_ACCOUNT = "SELECT id FROM accounts WHERE organisation_id = $1 AND mode = $2 AND kind = 'client_account'"


async def _issue_invoices(url: str, folder: Path, scope: Scope) -> None:
    """Orders of the client account, which pays by invoice. The last order has no invoice and can be cancelled."""
    settings = msgspec.structs.replace(Settings(), secret_key=SECRET_KEY, data_dir=str(folder))
    database = await Database(url, settings).open()
    try:
        services = Services(database, settings)
        async with database.transaction() as tx:
            account_id = await tx.fetchval(CLIENT_ACCOUNT, scope.organisation_id, scope.mode)
            await tx.execute("UPDATE accounts SET payment_method = 'invoice' WHERE id = $1", account_id)
        client = Scope(scope.organisation_id, account_id, scope.mode)
        for _ in range(INVOICES):
            await place(services, client, utc_now())
        while await services.issue_invoices.run_once():
            pass
        await place(services, client, utc_now())
    finally:
        await database.close()


A_CHARGE = """
SELECT account_id, id, order_id, organisation_id FROM charges
WHERE account_id = $1 AND status = 'captured' ORDER BY created_at DESC LIMIT 1
"""
# For the account ($1) and its charge ($2) of an order ($3) of the organisation ($4).
OF_CHARGES = (
    """
    INSERT INTO refunds (account_id, id, organisation_id, mode, order_id, method, charge_id, amount_minor, currency,
                         purpose, reason, state, requested_by, created_at)
    VALUES ($1, 'rfd_bench', $4, 'live', $3, 'card', $2, 1, 'EUR', 'goodwill', 'Bench', 'approval', 'bench', now())
    """,
    """
    INSERT INTO disputes (account_id, id, organisation_id, mode, order_id, charge_id, reference, amount_minor,
                          withdrawn_minor, currency, reason, state, opened_at, recorded_at)
    VALUES ($1, 'dsp_bench', $4, 'live', $3, $2, 'dp_bench', 1, 0, 'EUR', 'general', 'opened', now(), now())
    """,
)
# For the organisation ($1) and the mode ($2).
OF_ALL = (
    """
    INSERT INTO mails (id, organisation_id, recipients, message, created_at, attempts, last_error)
    SELECT 'mail_bench', $1, '{bench@bench.test}', 'Subject: Bench', now(), 8, 'bench' WHERE $2 <> ''
    """,
    """
    INSERT INTO bank_transfers (id, mode, booked_on, amount_minor, currency, payer, reference, imported_at, imported_by,
                                state)
    SELECT 'trf_bench', $2::text::mode, current_date, 100, 'EUR', 'Bench', 'Bench', now(), 'bench', 'unmatched'
    WHERE $1 <> ''
    """,
    """
    INSERT INTO transfer_returns (id, transfer_id, amount_minor, to_iban, to_bic, to_name, reason, status,
                                  to_other_account, created_at, created_by)
    SELECT 'ret_bench', 'trf_bench', 1, 'DE89370400440532013000', '', 'Bench', 'Bench', 'planned', false, now(), 'bench'
    WHERE $1 <> '' AND $2 <> ''
    """,
    """
    INSERT INTO statement_uploads (id, mode, file_name, content, uploaded_at, uploaded_by)
    SELECT 'upl_bench', $2::text::mode, 'bench.csv', 'booked_on;amount', now(), 'bench' WHERE $1 <> ''
    """,
    """
    INSERT INTO audit_packs (organisation_id, mode, id, first_day, last_day, status, done, total, bytes, requested_by,
                             created_at, expires_at)
    VALUES ($1, $2::text::mode, 'pck_bench', current_date, current_date, 'ready', 1, 1, 1, 'bench', now(),
            now() + interval '1 day')
    """,
    # A unit that is still open, and one that waits for its retirement.
    """
    UPDATE parcels SET status = 'open', close_at = now() + interval '1 day', retired_on = NULL, retired_at = NULL
    WHERE id = (SELECT id FROM parcels WHERE $1 <> '' AND mode = $2::text::mode AND allocated_grams < quantity_grams
                  AND status = 'retired' LIMIT 1)
    """,
    """
    UPDATE parcels SET status = 'to_retire', retired_on = NULL, retired_at = NULL
    WHERE id = (SELECT id FROM parcels WHERE $1 <> '' AND mode = $2::text::mode AND status = 'retired' LIMIT 1)
    """,
    # Work that waits, more than Today counts.
    """
    INSERT INTO bank_transfers (id, mode, booked_on, amount_minor, currency, payer, reference, imported_at, imported_by,
                                state)
    SELECT 'trf_' || lpad(number::text, 26, '0'), $2::text::mode, current_date, 100, 'EUR', 'Bench', 'Bench', now(),
           'bench', 'unmatched'
    FROM generate_series(1, 200) AS number WHERE $1 <> ''
    """,
    """
    UPDATE parcels SET status = 'to_retire', retired_on = NULL, retired_at = NULL
    WHERE id IN (SELECT id FROM parcels WHERE $1 <> '' AND mode = $2::text::mode AND status = 'retired' LIMIT 200)
    """,
    """
    UPDATE orders SET status = 'paid', next_attempt_at = now(), status_changed_at = now() - interval '2 days'
    WHERE (account_id, id) IN (SELECT account_id, id FROM orders WHERE organisation_id = $1 AND mode = $2::text::mode
                                 AND status = 'cancelled' ORDER BY created_at DESC LIMIT 200)
    """,
    """
    INSERT INTO api_requests (slot, organisation_id, mode, at, request_id, key_id, method, route, status, duration_us)
    VALUES (0, $1, $2::text::mode, now(), 'req_bench', 'key_bench', 'GET', '/v1/orders', 200, 1)
    """,
    "INSERT INTO registry_accounts (id, mode, adapter) SELECT 'bench', $2::text::mode, 'isometric' WHERE $1 <> ''",
    """
    INSERT INTO registry_instructions (mode, id, registry_account, lot_id, holding_id, units, unit_count, beneficiary,
                                       reference, state, recorded_at, closed_at)
    SELECT mode, 'rin_bench', 'bench', id, 'bench', '1', 1, 'Bench', 'bench', 'declined', now(), now()
    FROM lots WHERE $1 <> '' AND mode = $2::text::mode LIMIT 1
    """,
)


STAGE_IMPORT = """
INSERT INTO staged_imports (id, mode, kind, staged_at, staged_by) VALUES ($1, $2::text::mode, 'lots', now(), 'bench')
"""
STAGE_FILE = "INSERT INTO staged_files (import_id, name, content) VALUES ($1, 'lots.csv', 'registry,project')"
# One that was sent now: pages find an attempt by the time in its id.
ATTEMPT = """
INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, status, acknowledged, duration_ms)
SELECT organisation_id, id, $3, now(), ARRAY[cursor_position], 500, false, 20 FROM webhooks
WHERE organisation_id = $1 AND mode = $2::text::mode
"""
PARKED = """
INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, parked_at, next_attempt_at)
SELECT organisation_id, id, $3, cursor_position, 3, now(), now() + interval '1 day' FROM webhooks
WHERE organisation_id = $1 AND mode = $2::text::mode
"""


async def _insert_with_ids(tx: Connection, scope: Scope) -> None:
    """Objects whose pages check the form of their ids."""
    import_id = new_id("imp")
    await tx.execute(STAGE_IMPORT, import_id, MODE)
    await tx.execute(STAGE_FILE, import_id)
    await tx.execute(ATTEMPT, scope.organisation_id, MODE, new_id("att"))
    await tx.execute(PARKED, scope.organisation_id, MODE, scope.account_id)
