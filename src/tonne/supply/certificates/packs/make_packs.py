"""Audit packs: a request for one, and a job that makes them and deletes those that have expired."""

import tempfile
import zipfile
from collections.abc import Iterator
from datetime import date, timedelta
from typing import IO, ClassVar

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Clock, Mode, Scope, Tenant, new_id
from tonne.selling.accounts.store import lock_organisation_mode
from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.packs import model, store
from tonne.supply.certificates.packs.model import MOST_CERTIFICATES, AuditPack
from tonne.supply.certificates.packs.store import count_waiting, delete_pack, insert_pack, list_numbers
from tonne.supply.certificates.packs.tables import PackTables

MOST_WAITING = 3
KEPT = timedelta(days=7)


async def request_pack(tx: Connection, tenant: Tenant, days: tuple[date, date], *, by: By) -> model.AuditPack:
    """`days` are the first and the last day of issue."""
    found = await list_numbers(tx, tenant, days, limit=model.MOST_CERTIFICATES + 1)
    if not found:
        raise model.PackEmpty(field="first_day")
    if len(found) > model.MOST_CERTIFICATES:
        raise model.PackTooLarge(field="last_day")
    await lock_organisation_mode(tx, Scope(tenant.organisation_id, "", tenant.mode))
    if await count_waiting(tx, tenant) >= MOST_WAITING:
        raise model.PackLimitReached
    pack = model.AuditPack(
        organisation_id=tenant.organisation_id,
        mode=tenant.mode,
        id=new_id("pck"),
        first_day=days[0],
        last_day=days[1],
        status=model.PackStatus.WAITING,
        done=0,
        total=None,
        bytes=None,
        failures=0,
        created_at=by.at,
        expires_at=by.at + KEPT,
    )
    await insert_pack(tx, pack, str(by.actor))
    values = {"first_day": str(days[0]), "last_day": str(days[1])}
    await audit.record(tx, tenant, "audit_pack.requested", by=by, subject_id=pack.id, after=values)
    return pack


async def remove_pack(tx: Connection, pack: model.AuditPack, *, by: By) -> None:
    await delete_pack(tx, pack)
    await audit.record(tx, pack.organisation_id, "audit_pack.deleted", by=by, subject_id=pack.id, mode=pack.mode)


# Rendering a batch takes about a second.
BATCH = 20
LEASE = timedelta(minutes=2)
PART_BYTES = 4 * 2**20
# A pack that fails so often needs a person: it is shown as failed.
MOST_FAILURES = 3
RETRY_AFTER = timedelta(minutes=1)
_EXPIRED_ROWS = 20

_log = structlog.get_logger()


class MakeAuditPacks:
    EVERY_S: ClassVar[int] = 2

    def __init__(self, database: Database, certificates: RenderCertificate, clock: Clock) -> None:
        self._database = database
        self._certificates = certificates
        self._clock = clock

    async def run_once(self) -> bool:
        """Make one pack. True when there may be more."""
        async with self._database.connection() as connection:
            expired = await store.delete_expired(connection, self._clock(), _EXPIRED_ROWS)
            pack = await store.claim_pack(connection, LEASE)
        if pack is None:
            return expired == _EXPIRED_ROWS
        try:
            await self._make(pack)
        except Exception:  # noqa: BLE001 - another pack may still succeed; the failure is counted and logged
            _log.exception("audit_pack_failed", pack_id=pack.id, organisation_id=pack.organisation_id)
            await self._database.run(store.note_failure, pack, MOST_FAILURES, RETRY_AFTER)
        return True

    async def _make(self, pack: AuditPack) -> None:
        tenant, days = Tenant(pack.organisation_id, pack.mode), (pack.first_day, pack.last_day)
        async with self._database.connection() as connection:
            numbers = await store.list_numbers(connection, tenant, days, limit=MOST_CERTIFICATES)
            tables = PackTables()
        with tempfile.TemporaryFile() as file:
            done = 0
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for start in range(0, len(numbers), BATCH):
                    async with self._database.connection() as connection:
                        if not await store.note_progress(connection, pack, start, len(numbers), LEASE):
                            return
                    done += await self._add_batch(archive, tables, pack, numbers[start : start + BATCH])
                _add_tables(archive, tables, pack, done)
            await self._store(pack, file, done)

    async def _add_batch(
        self, archive: zipfile.ZipFile, tables: PackTables, pack: AuditPack, numbers: list[str]
    ) -> int:
        records = await self._database.run(store.list_records, Tenant(pack.organisation_id, pack.mode), numbers)
        for record in records:
            archive.writestr(f"certificates/{record.number}.pdf", await self._certificates.render(record))
            tables.add(record)
        return len(records)

    async def _store(self, pack: AuditPack, file: IO[bytes], done: int) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        async with self._database.transaction() as tx:
            if not await store.finish_pack(tx, pack, size, done, self._clock() + KEPT):
                return
            for number, content in enumerate(_parts(file)):
                await store.insert_part(tx, pack, number, content)
        _log.info("audit_pack_made", pack_id=pack.id, certificates=done, bytes=size)


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    while content := file.read(PART_BYTES):
        yield content


def _add_tables(archive: zipfile.ZipFile, tables: PackTables, pack: AuditPack, done: int) -> None:
    archive.writestr("serial-numbers.csv", tables.serials())
    archive.writestr("california-ab-1305.csv", tables.ab_1305())
    archive.writestr("esrs-e1-7.csv", tables.esrs_e1_7())
    archive.writestr(
        "README.txt", _READ_ME.format(pack=pack, done=done, tonnes=tables.tonnes, test=_TEST_NOTE[pack.mode])
    )


_TEST_NOTE = {Mode.LIVE: "", Mode.TEST: "\nTEST MODE: nothing in this file was retired.\n"}
_READ_ME = """Audit pack
{test}
Certificates issued from {pack.first_day} to {pack.last_day} (days in UTC): {done}, {tonnes} t of CO2 equivalent.
Certificates that were replaced or withdrawn are not included.

certificates/            one PDF per certificate; the address printed on it verifies it
serial-numbers.csv       every line of every certificate: registry, project, vintage, serial numbers, tonnes,
                         date and page of the retirement
california-ab-1305.csv   per project, in the form of California AB 1305 (Health and Safety Code 44475.1)
esrs-e1-7.csv            credits cancelled, in the form of ESRS E1-7

All files are UTF-8. Amounts are exact, in tonnes. "not recorded" marks what this service does not know: complete it
before you publish. The tables describe the credits; whether and how you may claim them is for you and your auditor.
"""
