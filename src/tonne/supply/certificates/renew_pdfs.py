"""Appends time stamps to the stored PDFs, before the certificates of earlier ones expire."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from tonne.platform.db.connections import Connections
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.signing.document_key import KeyUnusable
from tonne.platform.keys.signing.keys import SignDocuments
from tonne.platform.values.context import By
from tonne.supply.certificates.pdf_store import StoredPdf, list_to_renew_any_account, replace_pdf_any_account

AT_ONCE = 20


async def renew_pdfs(
    database: Connections, signing: SignDocuments, before: datetime, *, by: By
) -> AsyncIterator[tuple[int, dict[str, str]]]:
    """Renew what was made or renewed before `before`. Yields how many of each batch are committed, and why others are
    not, by number. After an interruption, the same call goes on with the rest.
    """
    after = (datetime.min.replace(tzinfo=UTC), "")
    while True:
        async with database.connection() as connection:
            found = await list_to_renew_any_account(connection, before, after, AT_ONCE)
        if not found:
            return
        renewed: list[tuple[StoredPdf, bytes]] = []
        failed: dict[str, str] = {}
        for each in found:
            try:
                renewed.append((each, await signing.renew(each.pdf)))
            except KeyUnusable as error:
                failed[each.number] = str(error)
        async with database.transaction() as tx:
            # In one order: two runs do not wait for each other.
            for each, pdf in sorted(renewed, key=lambda pair: pair[0].number):
                await replace_pdf_any_account(tx, each, pdf, by.at)
            if renewed:
                await audit.record(tx, None, "certificate.pdfs_renewed", by=by, count=len(renewed))
        yield len(renewed), failed
        after = (found[-1].rendered_at, found[-1].number)
