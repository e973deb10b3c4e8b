"""Audit packs: a request for one, and a job that makes them and deletes those that have expired."""

import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import IO, Any, ClassVar

import msgspec
import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Clock, Scope, Tenant, new_id
from tonne.platform.values.countries import EU_COUNTRIES
from tonne.selling.accounts.store import lock_organisation_mode
from tonne.selling.catalogue.countries import country_code
from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.packs import model, store
from tonne.supply.certificates.packs.model import MOST_CERTIFICATES, AuditPack
from tonne.supply.certificates.packs.store import count_waiting, delete_pack, insert_pack, list_numbers
from tonne_verify.pack_tables import CURRENT, PACK_FILE, PACK_FORMAT, PREVIOUS, PackTables

Add = Callable[[dict[str, Any]], None]
MOST_WAITING = 3
KEPT = timedelta(days=7)


async def request_pack(tx: Connection, tenant: Tenant, days: tuple[date, date], *, by: By) -> model.AuditPack:
    """`days` are the first and the last day of issue."""
    periods = (days, model.previous_year(days))
    found = [await list_numbers(tx, tenant, each, limit=model.MOST_CERTIFICATES + 1) for each in periods]
    if not found[0]:
        raise model.PackEmpty(field="first_day")
    if max(map(len, found)) > model.MOST_CERTIFICATES:
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
        tenant, tables = Tenant(pack.organisation_id, pack.mode), PackTables(_is_eu)
        async with self._database.connection() as connection:
            periods = [
                (folder, add, await store.list_numbers(connection, tenant, days, limit=MOST_CERTIFICATES))
                for folder, add, days in (
                    (CURRENT, tables.add, (pack.first_day, pack.last_day)),
                    (PREVIOUS, tables.add_previous, pack.previous_days),
                )
            ]
        batches = [
            (folder, add, numbers[start : start + BATCH])
            for folder, add, numbers in periods
            for start in range(0, len(numbers), BATCH)
        ]
        total, done, current = sum(len(numbers) for _, _, numbers in periods), 0, 0
        with tempfile.TemporaryFile() as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for folder, add, numbers in batches:
                    async with self._database.connection() as connection:
                        if not await store.note_progress(connection, pack, done, total, LEASE):
                            return
                    added = await self._add_batch(archive, folder, add, tenant, numbers)
                    done, current = done + len(numbers), current + (added if folder == CURRENT else 0)
                async with self._database.connection() as connection:
                    planned = await store.list_planned(connection, tenant)
                about = _about(pack, self._clock().date())
                for name, content in {**tables.files(about, planned), PACK_FILE: json.dumps(about).encode()}.items():
                    archive.writestr(name, content)
            await self._store(pack, file, current)

    async def _add_batch(
        self, archive: zipfile.ZipFile, folder: str, add: Add, tenant: Tenant, numbers: list[str]
    ) -> int:
        records = await self._database.run(store.list_records, tenant, numbers)
        for record in records:
            archive.writestr(f"{folder}/{record.number}.pdf", await self._certificates.render(record))
            add(msgspec.to_builtins(record))
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


def _is_eu(country: str) -> bool:
    return country_code(country) in EU_COUNTRIES


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    while content := file.read(PART_BYTES):
        yield content


def _about(pack: AuditPack, made_on: date) -> dict[str, str]:
    previous = pack.previous_days
    return {
        "format": PACK_FORMAT,
        "mode": str(pack.mode),
        "first_day": str(pack.first_day),
        "last_day": str(pack.last_day),
        "previous_first_day": str(previous[0]),
        "previous_last_day": str(previous[1]),
        "made_on": str(made_on),
    }
