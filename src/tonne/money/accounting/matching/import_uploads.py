"""The job that reads statements which operators have uploaded, and imports those that they have confirmed.

A large file is read in a process of its own, with its own connection: 100,000 lines take half a minute of CPU time.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import ClassVar

import structlog

from tonne.money.accounting.matching import upload_store
from tonne.money.accounting.matching.import_statement import BookedLine, import_statement
from tonne.money.accounting.matching.upload_store import Preview, PreviewLine, StatementUpload, UploadStatus
from tonne.money.invoices.errors import StatementUploadNotFound
from tonne.platform.db.database import Connection, Database, connect
from tonne.platform.db.errors import DATABASE_ERRORS, is_database_unavailable
from tonne.platform.db.session_settings import LONG_STATEMENT_S, lift_limits
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.process.offload import offload
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, By, Clock, replace

# Reading and importing so much takes about 20 ms.
SMALL_BYTES = 8 * 1024
LEASE = timedelta(minutes=1)
RETRY_AFTER = timedelta(seconds=10)
MOST_FAILURES = 3
NOTE_EVERY_S = 1.0
# Lines and errors of a file that its page shows.
SHOWN = 200
_FAILED = (
    "the file could not be read because of an error of Tonne, which is in the log of the worker: upload shorter "
    "periods, or import it with `tonne invoice import-statement`."
)

_log = structlog.get_logger()


class ImportUploads:
    EVERY_S: ClassVar[int] = 1

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock

    async def run_once(self) -> bool:
        """Read or import one upload."""
        upload = await self._database.run(upload_store.claim_upload, LEASE)
        if upload is None:
            return False
        try:
            if upload.byte_count <= SMALL_BYTES:
                async with self._database.connection() as connection:
                    await process_upload(connection, upload, self._settings, self._clock())
            else:
                await self._process_elsewhere(upload)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            _log.exception("statement_upload_failed", upload_id=upload.id)
            failed = Preview(errors=[f"{upload.file_name}: {_FAILED}"], error_count=1)
            await self._database.run(upload_store.note_failure, upload.id, MOST_FAILURES, RETRY_AFTER, failed)
        return True

    async def _process_elsewhere(self, upload: StatementUpload) -> None:
        latest = ("", 0, 0)

        async def on_progress(step: str, done: int, total: int) -> None:
            nonlocal latest
            latest = (step, done, total)

        async def note() -> None:
            while True:
                with suppress(*DATABASE_ERRORS):
                    await self._database.run(upload_store.note_progress, upload.id, latest, LEASE)
                await asyncio.sleep(NOTE_EVERY_S)

        noting = asyncio.create_task(note())
        try:
            settings = replace(self._settings, statement_timeout_s=LONG_STATEMENT_S)
            await offload(on_progress, process_upload_alone, self._database.address, upload, settings, self._clock())
        finally:
            noting.cancel()


def process_upload_alone(address: tuple[str, bool], upload: StatementUpload, settings: Settings, now: datetime) -> None:
    """In a process without an event loop."""
    url, is_direct = address

    async def run() -> None:
        connection = await connect(url, settings, direct=is_direct)
        try:
            await process_upload(connection, upload, settings, now)
        finally:
            await connection.close()

    asyncio.run(run())


async def process_upload(connection: Connection, upload: StatementUpload, settings: Settings, now: datetime) -> None:
    """Import it if that was confirmed; else import it, roll that back, and store what it did for the page."""
    is_import = upload.status is UploadStatus.IMPORTING
    booked: Sequence[BookedLine] = []
    transaction = connection.transaction()
    await transaction.start()
    try:
        # The usual time limits are for requests.
        await lift_limits(connection)
        file, options = await upload_store.read_upload(connection, upload.id)
        # Before the import: a second import of the same upload waits here and then does not find it.
        if is_import:
            await upload_store.delete_upload(connection, upload.id)
        booked = await import_statement(
            connection, upload.mode, file, settings=settings, by=_by(upload, now), options=options
        )
    except BaseException as error:
        await transaction.rollback()
        if isinstance(error, StatementUploadNotFound):
            # Discarded, or imported by another worker.
            return
        if isinstance(error, SheetInvalid):
            errors = [str(each) for each in error.errors[:SHOWN]]
            refused = Preview(errors=errors, error_count=len(error.errors))
            await upload_store.finish_upload(connection, upload.id, UploadStatus.REFUSED, refused)
            return
        raise
    if is_import:
        await transaction.commit()
        return
    await transaction.rollback()
    await upload_store.finish_upload(connection, upload.id, UploadStatus.READ, _preview(booked))


def _by(upload: StatementUpload, now: datetime) -> By:
    kind, _, name = (upload.imported_by or upload.uploaded_by).partition(":")
    return Actor(ActorKind(kind), name, upload.imported_from).at(now)


def _preview(booked: Sequence[BookedLine]) -> Preview:
    outcomes: dict[str, tuple[int, dict[str, int]]] = {}
    for each in booked:
        count, sums = outcomes.get(each.outcome, (0, {}))
        sums[each.line.currency] = sums.get(each.line.currency, 0) + each.line.amount_minor
        outcomes[str(each.outcome)] = (count + 1, sums)
    lines = [
        PreviewLine(
            line.line,
            line.payer,
            line.reference,
            line.booked_on,
            line.amount_minor,
            line.currency,
            str(each.outcome),
            each.reference,
        )
        for each in booked[:SHOWN]
        for line in (each.line,)
    ]
    return Preview(lines, outcomes)
