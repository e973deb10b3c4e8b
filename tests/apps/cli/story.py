"""What the tests of many commands need: an operator's files, and objects in the state that a command expects."""

import base64
import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from tests.support.api_client import ApiClient
from tests.support.command import tonne
from tests.support.world import SELLER, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.model import WebhookRequest
from tonne.channels.webhooks.register import register_webhook
from tonne.platform.db.schema.partitions import ATTEMPTS, list_partitions
from tonne.platform.values.context import utc_now

# The organisation gets a tax profile, and its invoices wait without these.
TAXED_SELLER = {**SELLER, "seller_country": "DE", "seller_vat_id": "DE136695976"}
KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(2)]
PRICES = "slug,name,description,primary_image,unit_price,enabled,position\nnew-wind,New wind,,,7.00,true,9\n"
LOTS = (
    "registry,registry_project_id,vintage,serial,status,retirement_url,retired_on\n"
    "Verra,VCS1340,2021,TEST-LIVE-99-1-10-VCS-VCU-1-VER-ET-14-1340-01012021-31122021-0,held,,\n"
)
FACTORS = (
    "id,category,activity,unit,kg_co2e_per_unit,well_to_tank_kg_co2e_per_unit,region,year,source,licence\n"
    "own/paper,Material,Paper,kg,0.9,,WLD,2026,Own measurements,CC0-1.0\n"
)
HISTORY = "date,external_id,quantity,provider\n2024-05-01,A-1,2.5,Former\n"
TAX_RATES = "country,rate,valid_from,source\nFI,25.5,2024-09-01,Vero\n"
ECB_RATES = "Date, USD, \n19 November 2026, 1.0548, \n"
CHART = "account,tax_code,number,name,bu_key\nAssets:Bank,,1200,Bank,\n"
PAYOUTS = "payout_id,paid_on,currency,amount,fee\npo_1,2026-11-02,EUR,5.00,0.30\n"
STATEMENT = "booked_on;amount;currency;payer;reference\n2026-11-02;1.00;EUR;Somebody;thanks\n"

Words = tuple[str, ...]


@dataclass
class Story:
    """What the commands need."""

    api: ApiClient
    services: Services
    world: World
    folder: Path
    # The settings of the commands.
    settings: dict[str, str]

    def run(self, *words: str) -> str:
        done = tonne(*words, database_url=self.services.database._url, **self.settings)
        assert done.returncode == 0, done
        return done.stdout.strip()

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return str(self.folder / name)

    async def fetch(self, sql: str, *values: str) -> str:
        async with self.services.database.connection() as connection:
            return str(await connection.fetchval(sql, *values))

    async def execute(self, sql: str, *values: str) -> None:
        async with self.services.database.transaction() as tx:
            await tx.execute(sql, *values)

    async def entries(self) -> dict[str, str]:
        async with self.services.database.connection() as connection:
            rows = await connection.fetch("SELECT id, actor FROM audit_log")
        return {row["id"]: row["actor"] for row in rows}

    async def signing_key(self, *words: str) -> Words:
        """The newest key for credentials."""
        newest = "SELECT id FROM signing_keys WHERE purpose = 'credential' ORDER BY created_at DESC LIMIT 1"
        return (await self.fetch(newest), *words)

    async def words(self, *words: str) -> Words:
        return words

    async def mentioned_person(self, *words: str) -> Words:
        """A person who is named in the metadata of a finished order."""
        order_id = await self.live_order(metadata={"customer": "eve@example.com"})
        self.run("order", "cancel", order_id, "--reason", "Ordered twice")
        return ("eve@example.com", *words)

    async def linked_user(self, email: str) -> Words:
        """A user with an account at a sign-in provider."""
        await self.execute(
            "INSERT INTO user_identities (issuer, subject, user_id, created_at, last_used_at) "
            "SELECT 'https://id.example.com', 'person-1', id, now(), now() FROM users WHERE email = $1",
            email,
        )
        return (email,)

    async def old_partition(self) -> Words:
        """A partition of webhook attempts that is due to be removed."""
        old, boundary = "webhook_attempts_2020_01", "'2020-02-01 00:00:00+00'"
        attach = "ALTER TABLE webhook_attempts ATTACH PARTITION"
        async with self.services.database.connection() as connection:
            first, *_ = await list_partitions(connection, ATTEMPTS)
        for statement in (
            f"ALTER TABLE webhook_attempts DETACH PARTITION {first.name}",
            f"CREATE TABLE {old} (LIKE webhook_attempts_default INCLUDING ALL)",
            f"{attach} {old} FOR VALUES FROM (MINVALUE) TO ({boundary})",
            f"{attach} {first.name} FOR VALUES FROM ({boundary}) TO ('{first.end}')",
        ):
            await self.execute(statement)
        return ()

    async def cancelled_order(self) -> Words:
        return (await self.live_order(), "--reason", "Ordered twice")

    async def paid_order(self, *words: str) -> Words:
        """A test order that is paid by card."""
        order = await self.api.order()
        await self.execute("UPDATE orders SET payment_method = 'card' WHERE id = $1", order["id"])
        answer = await self.api.post(f"/v1/test-helpers/orders/{order['id']}/pay", {})
        assert answer.status_code == 200, answer.text
        return (str(order["id"]), *words)

    async def refund(self, changes: str, *words: str) -> Words:
        (order_id,) = await self.paid_order()
        self.run("order", "refund", order_id, "--reason", "A gesture")
        await self.execute(f"UPDATE refunds SET {changes} WHERE order_id = $1", order_id)  # noqa: S608 - ours
        return (await self.fetch("SELECT id FROM refunds WHERE order_id = $1", order_id), *words)

    async def mismatched_charge(self) -> Words:
        (order_id,) = await self.paid_order()
        await self.execute("UPDATE charges SET status = 'mismatched' WHERE order_id = $1", order_id)
        await self.execute("UPDATE orders SET status = 'placed' WHERE id = $1", order_id)
        charge_id = await self.fetch("SELECT id FROM charges WHERE order_id = $1", order_id)
        return (charge_id, "--reason", "One cent less arrived")

    async def renamed_order(self) -> Words:
        return (await self.live_order(), "Fjord Bakery AS", "--reason", "Misspelt.")

    async def numbered(self, *words: str) -> Words:
        return (await self.invoice(), *words)

    async def settled_by_hand(self, *words: str) -> Words:
        reference = await self.invoice()
        self.run("invoice", "settle", reference)
        return (reference, *words)

    async def on_credit(self, *words: str) -> Words:
        """The invoice of an order that was fulfilled before it was paid."""
        reference = await self.invoice()
        await self.execute(
            "UPDATE orders SET status = 'retiring' WHERE id = (SELECT order_id FROM invoice_orders JOIN invoices "
            "ON invoices.id = invoice_id WHERE invoices.reference = $1)",
            reference,
        )
        return (reference, *words)

    async def written_off(self, state: str, *words: str) -> Words:
        (reference,) = await self.on_credit()
        await self.execute(
            "INSERT INTO write_offs (id, invoice_id, amount_minor, reason, releases_credit, state, requested_at, "
            "requested_by, booked_at) SELECT 'wof_' || number, id, 100, 'x', false, $2::text, now(), "
            "'cli:somebody@office', CASE $2::text WHEN 'booked' THEN now() END FROM invoices WHERE reference = $1",
            reference,
            state,
        )
        return (reference, *words)

    async def invoiced_order(self) -> Words:
        return (await self.live_order(), "--only", "invoice")

    async def live_order(self, **body: Any) -> str:
        """An order with an open invoice that was mailed."""
        selection = [{"bundle_id": self.world.bundles_live["forest-mix"]}]
        order = await self.api.as_key(self.world.ours_live.key).order(bundle_selection=selection, **body)
        for job in (self.services.issue_invoices, self.services.render_documents, self.services.follow_up_invoices):
            await job.run_once()
        return str(order["id"])

    async def invoice(self, **body: Any) -> str:
        order_id = await self.live_order(**body)
        return await self.fetch(
            "SELECT invoices.reference FROM invoices "
            "JOIN invoice_orders ON invoice_id = invoices.id WHERE order_id = $1",
            order_id,
        )

    async def einvoice(self, *words: str) -> Words:
        """One that was written into the folder."""
        number = await self.fetch(
            "INSERT INTO einvoice_deliveries (document_id, organisation_id, mode, number, format, receiver, state, "
            "created_at) SELECT id, organisation_id, mode, reference, 'peppol', '9930:DE1', 'unknown', created_at "
            "FROM tax_documents WHERE reference = $1 RETURNING number",
            await self.invoice(),
        )
        return (number, *words)

    async def bundle(self) -> Words:
        return (self.world.bundles_live["wind-power"],)

    async def picture(self) -> Words:
        path = self.folder / "wind.png"
        Image.new("RGB", (640, 360), "#336699").save(path)
        return (str(path), "--mode", "live", "--bundle", "wind-power")

    async def organisation(self, *words: str) -> Words:
        return (self.world.ours_live.scope.organisation_id, *words)

    async def account(self, *words: str) -> Words:
        return (self.world.ours_test.scope.account_id, *words)

    async def link(self, *words: str) -> Words:
        return (await self.fetch("SELECT id FROM offset_links ORDER BY created_at LIMIT 1"), *words)

    async def history_import(self) -> Words:
        return (await self.fetch("SELECT import_id FROM history_orders LIMIT 1"),)

    async def import_lots(self) -> Words:
        return (self.file("new lots.csv", LOTS), "--mode", "live")

    async def withdrawn_lot(self) -> Words:
        sql = "SELECT lots.id FROM lots WHERE serial LIKE 'TEST-LIVE-99-%'"
        return (await self.fetch(sql), "--reason", "Sold twice")

    async def open_unit(self) -> Words:
        self.run("invoice", "settle", await self.invoice(mass={"amount": "0.4", "unit": "t"}))
        await self.services.allocate_orders.run_once()
        return (await self.fetch("SELECT id FROM parcels WHERE mode = 'live' AND status = 'open' LIMIT 1"),)

    async def registry_statement(self) -> Words:
        """Credits that no lot has."""
        file = self.folder / "active.csv"
        file.write_text("Serial\nBLOCK 1-5\n", encoding="utf-8")
        return (str(file), "--registry", "Another", "--yes")

    async def registry_drift(self, *words: str) -> Words:
        """A registry has credits that no lot has."""
        await self.registry_account()
        drift = (
            "INSERT INTO registry_drifts (mode, id, registry_account, cause, holding_id, units, unit_grams, seen_at, "
            "confirmed_at) VALUES ('test', 'drf_1', 'sim-key', 'surplus', 'h', -1, 1000, now(), now()) RETURNING id"
        )
        return (await self.fetch(drift), *words)

    async def registry_account(self) -> Words:
        account = (
            "INSERT INTO registry_accounts (id, mode, adapter) VALUES ('sim-key', 'test', 'simulated') "
            "ON CONFLICT (id) DO UPDATE SET mode = 'test' RETURNING id"
        )
        return (await self.fetch(account),)

    async def registry_request(self) -> Words:
        """A request without an answer."""
        [account] = await self.registry_account()
        request = (
            "INSERT INTO registry_instructions (mode, id, registry_account, lot_id, holding_id, units, unit_count, "
            "beneficiary, reference, state, in_doubt, recorded_at, sent_at, next_attempt_at) VALUES "
            "('test', 'rin_1', $1, 'lot_1', 'lot_1', '1 to 2', 2, 'Ada', 'T-1', 'asked', 1, now(), now(), now()) "
            "RETURNING id"
        )
        return (await self.fetch(request, account),)

    async def used_lot(self) -> Words:
        await self.services.allocate_orders.run_once()
        lot_id = await self.fetch(
            "SELECT parcel.lot_id FROM parcels parcel JOIN shares share ON share.parcel_id = parcel.id "
            "JOIN certificates issued ON issued.order_id = share.order_id WHERE parcel.mode = 'live' LIMIT 1"
        )
        return (lot_id, "--reason", "The registry cancelled it", "--yes")

    async def invalid_lot(self) -> Words:
        lot_id = await self.fetch("SELECT lot_id FROM lot_cases WHERE state = 'undecided' LIMIT 1")
        return (lot_id, "--all", "--withdraw")

    async def transfer(self, reference: str = "a gift") -> str:
        """A new transfer that names no invoice."""
        statement = (
            "booked_on,amount,currency,payer,reference,payer_iban\n"
            f"2026-03-06,5.00,EUR,Ada,{reference},DE75512108001245126199\n"
        )
        self.run("invoice", "import-statement", self.file("gift.csv", statement), "--mode", "live")
        return await self.fetch("SELECT id FROM bank_transfers WHERE reference = $1", reference)

    async def payout(self) -> Words:
        """It was imported by the command before."""
        return ("po_1", await self.transfer("payout po_1"))

    async def unmatched_transfer(self) -> Words:
        return (await self.transfer(), "--note", "Returned")

    async def assigned_transfer(self) -> Words:
        return (await self.transfer("for an invoice"), await self.invoice())

    async def assignment(self) -> Words:
        return (await self.fetch("SELECT id FROM transfer_assignments LIMIT 1"), "--note", "Wrong invoice")

    async def returned_transfer(self) -> Words:
        return (await self.transfer("to return"), "--reason", "Paid twice")

    async def bank_return(self, status: str, *words: str) -> Words:
        """A new return that another person planned."""
        number = await self.fetch("SELECT count(*) FROM transfer_returns")
        transfer_id = await self.transfer(f"return {number}")
        batch = "INSERT INTO return_batches VALUES ($1, 'live', 'EUR', '', 'csv', '', now(), '')"
        sql = (
            "INSERT INTO transfer_returns (id, transfer_id, amount_minor, to_iban, to_bic, to_name, reason, status, "
            "to_other_account, batch_id, created_at, created_by) "
            "VALUES ($1, $2, 500, 'DE75512108001245126199', '', 'Ada', 'x', $3, false, $1, now(), 'cli:eve@host')"
        )
        async with self.services.database.transaction() as tx:
            await tx.execute(batch, f"ret_{number}")
            await tx.execute(sql, f"ret_{number}", transfer_id, status)
        return (f"ret_{number}", *words)

    async def doubtful_line(self) -> Words:
        number = await self.fetch("SELECT count(*) FROM doubtful_lines")
        line = '{"line":1,"booked_on":"2026-03-06","amount_minor":1,"currency":"EUR","payer":"","reference":""}'
        sql = (
            "INSERT INTO doubtful_lines (id, transfer_id, fingerprint, mode, format, line, imported_at, imported_by) "
            "SELECT $1, min(id), $3, 'live', 'csv', $2, now(), '' FROM bank_transfers"
        )
        async with self.services.database.transaction() as tx:
            await tx.execute(sql, f"dbt_{number}", line, number.encode())
        return (f"dbt_{number}",)

    async def published_log(self, *more: str) -> Words:
        """A transparency log with a checkpoint."""
        await self.execute(
            "WITH log AS (INSERT INTO logs (mode, generation, origin, size, published_size, opened_at, next_publish_at)"
            " VALUES ('live', 1, 'ours.test/log', 1, 1, now(), now()) RETURNING id)"
            " INSERT INTO log_checkpoints (log_id, size, root, note, published_at)"
            " SELECT id, 1, sha256(''), 'ours.test/log', now() FROM log"
        )
        return ("live", *more)

    async def failed_mail(self, number: int) -> Words:
        sql = "INSERT INTO mails (id, organisation_id, recipients, message, created_at) VALUES ($1, $2, $3, '', now())"
        async with self.services.database.transaction() as tx:
            await tx.execute(sql, f"mail_{number}", self.world.ours_live.scope.organisation_id, ["ada@ours.test"])
        return (f"mail_{number}",)

    async def export_retirements(self) -> Words:
        """The invoice of an order is settled, and its credits are allocated."""
        self.run("invoice", "settle", await self.invoice())
        await self.services.allocate_orders.run_once()
        return ("--mode", "live", "-o", str(self.folder / "new.csv"))

    async def put_back_retirements(self) -> Words:
        await self.export_retirements()
        self.run("retirement", "export", "--mode", "live", "-o", str(self.folder / "taken.csv"))
        async with self.services.database.connection() as connection:
            parcel_id = await connection.fetchval(
                "SELECT id FROM parcels WHERE exported_at IS NOT NULL AND status = 'to_retire' LIMIT 1"
            )
        return ("--mode", "live", str(parcel_id))

    async def confirm_retirements(self) -> Words:
        """The invoice of an order is settled, its credits are allocated, and the exported list is confirmed."""
        await self.export_retirements()
        exported = self.folder / "list.csv"
        self.run("retirement", "export", "--mode", "live", "-o", str(exported))
        with exported.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.DictReader(stream))
        assert lines
        with (self.folder / "done.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(lines[0] | {"retired_on": "", "retirement_url": ""}))
            writer.writeheader()
            for line in lines:
                day = utc_now().date().isoformat()
                writer.writerow(
                    {**line, "retired_on": day, "retirement_url": f"https://registry.verra.org/{line['parcel_id']}"}
                )
        return (str(self.folder / "done.csv"), "--mode", "live")

    async def rotate_key(self) -> Words:
        scope, box = self.world.ours_test.scope, self.services.box
        async with self.services.database.transaction() as tx:
            await register_webhook(tx, scope, WebhookRequest("https://1.1.1.1/"), box=box, by=TESTER.now())
        self.settings |= {"secret_key": KEYS[0], "secret_keys_old": self.services.settings.secret_key}
        return ()

    async def lose_key(self) -> Words:
        self.settings |= {"secret_key": KEYS[1], "secret_keys_old": ""}
        return ("--yes",)


# The arguments of each command. The commands run in this order.
