"""After the service has moved to another address: stored orders show their certificates and pictures there.

Events, certificates, credentials and the public log keep their bytes, which are signed or were delivered.
"""

import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import note_rewritten
from tonne.platform.process.progress import progress
from tonne.platform.values.context import By
from tonne.selling.orders import store
from tonne.selling.orders.model import OrderKey

BATCH = 500
# The members of an order whose URLs may lead to this service. What clients sent, such as metadata, is not changed.
_MEMBERS = ("certificate", "public_certificate_url", "projects", "bundles")
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


async def rewrite_urls_any_account(connection: Connection, old: str, new: str, *, is_dry_run: bool, by: By) -> int:
    """How many orders contained URLs below `old`, which are below `new` now. A repeat continues an interrupted run."""
    last, count = OrderKey("", ""), 0
    with progress("Rewriting orders", await store.count_orders(connection)) as advance:
        while True:
            async with connection.transaction():
                rows = await store.lock_documents_any_account(connection, last, _prefix(old), BATCH)
                changed = {
                    key: document
                    for key, stored in rows
                    if stored is not None and (document := rewrite_document(stored, old, new)) != stored
                }
                count += len(changed)
                if changed and not is_dry_run:
                    streams = await store.store_documents(connection, list(changed), list(changed.values()))
                    await note_rewritten(connection, streams)
            if not rows:
                break
            advance(len(rows))
            last = rows[-1][0]
        if count and not is_dry_run:
            action = "orders.urls_rewritten"
            await audit.record(connection, None, action, by=by, subject_id=new, old=old, orders=count)
    return count


def rewrite_document(document: bytes, old: str, new: str) -> bytes:
    shown = _fields_of(document)
    for name in _MEMBERS:
        shown[name] = msgspec.Raw(bytes(shown[name]).replace(_prefix(old), _prefix(new)))
    return msgspec.json.encode(shown)


def _prefix(base_url: str) -> bytes:
    """How a JSON string begins that is a URL of this service."""
    return f'"{base_url}/'.encode()
