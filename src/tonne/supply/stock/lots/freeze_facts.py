"""Keeps what is known of the credits of each lot now. Orders copy its digest when they are allocated."""

import hashlib
from collections.abc import Collection

import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.details import ProjectDetails
from tonne.supply.stock.credit_facts import compose_facts
from tonne.supply.stock.lots.lots import LotUnits, decode_facts
from tonne_verify.canonical import canonical_json

_decode_details = msgspec.json.Decoder(ProjectDetails).decode

SET_LOT_FACTS = """
UPDATE lots SET facts = new.facts FROM unnest($2::text[], $3::text[]) AS new (id, facts)
WHERE lots.mode = $1 AND lots.id = new.id
"""
# SKIP LOCKED: a locked lot is being allocated or invalidated, and waiting for it could end in a deadlock.
LOCK_LOTS_OF_FACTS = """
SELECT lot.id, lot.project_id, lot.facts, lot.methodology, lot.facts_digest FROM lots lot
WHERE lot.mode = $1 AND (lot.id = ANY ($2::text[]) OR lot.project_id = ANY ($3::text[]))
ORDER BY lot.id FOR NO KEY UPDATE SKIP LOCKED
"""
COUNT_LOTS_OF_FACTS = """
SELECT count(*) FROM lots WHERE mode = $1 AND (id = ANY ($2::text[]) OR project_id = ANY ($3::text[]))
"""
READ_PROJECTS_OF_FACTS = """
SELECT id, mechanism, methodology, details FROM projects WHERE mode = $1 AND id = ANY ($2::text[])
"""
KEEP_FACTS = """
INSERT INTO credit_facts (digest, document)
SELECT digest, document FROM unnest($1::bytea[], $2::text[]) AS new (digest, document) ORDER BY digest
ON CONFLICT DO NOTHING
"""
SET_DIGESTS = """
UPDATE lots SET facts_digest = new.digest FROM unnest($2::text[], $3::bytea[]) AS new (id, digest)
WHERE lots.mode = $1 AND lots.id = new.id
"""


async def set_lot_facts(tx: Connection, mode: Mode, lots: dict[str, LotUnits]) -> None:
    """Of lots that orders may hold: their other values do not change. `refresh_facts` follows."""
    facts = [msgspec.json.encode(row.facts).decode() for row, _ in lots.values()]
    await tx.execute(SET_LOT_FACTS, mode, list(lots), facts)


async def refresh_facts(
    tx: Connection, mode: Mode, *, lot_ids: Collection[str], project_ids: Collection[str] = ()
) -> bool:
    """Compose the facts of these lots, and of all lots of these projects. False if a worker is using one of them."""
    if not lot_ids and not project_ids:
        return True
    asked = (mode, list(lot_ids), list(project_ids))
    lots = await tx.fetch(LOCK_LOTS_OF_FACTS, *asked)
    if len(lots) < await tx.fetchval(COUNT_LOTS_OF_FACTS, *asked):
        return False
    ids = sorted({lot["project_id"] for lot in lots})
    projects = {row["id"]: row for row in await tx.fetch(READ_PROJECTS_OF_FACTS, mode, ids)}
    composed: dict[tuple[str, str, str | None], bytes] = {}
    documents: dict[bytes, str] = {}
    changed: list[tuple[str, bytes]] = []
    for lot in lots:
        key = (lot["project_id"], lot["facts"], lot["methodology"])
        if key not in composed:
            project = projects[lot["project_id"]]
            details = _decode_details(project["details"])
            methodology = lot["methodology"] or project["methodology"]
            if methodology != project["methodology"]:
                # The project has another one since: its version is not that of the lot's.
                details = msgspec.structs.replace(details, methodology_version=None)
            facts = compose_facts(project["mechanism"], methodology, details, decode_facts(lot["facts"]))
            document = canonical_json(msgspec.to_builtins(facts))
            composed[key] = hashlib.sha256(document).digest()
            documents[composed[key]] = document.decode()
        if composed[key] != lot["facts_digest"]:
            changed.append((lot["id"], composed[key]))
    await tx.execute(KEEP_FACTS, list(documents), list(documents.values()))
    await tx.execute(SET_DIGESTS, mode, [id_ for id_, _ in changed], [digest for _, digest in changed])
    return True
