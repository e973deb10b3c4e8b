"""A shop whose certificates and retirements enter the transparency log."""

from datetime import date
from typing import Any

import msgspec

from tests.supply.retirements.shop import Shop
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.json_compression import decompress_json
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind, Order
from tonne.supply.certificates.proofs.read_proofs import Evidence, find_evidence
from tonne.supply.certificates.proofs.statement_source import read_stated_rows
from tonne.supply.stock.parcels.confirm_retirements import Confirmation
from tonne.supply.stock.parcels.parcel_store import correct_retirements_any_account
from tonne.supply.transparency.append_leaves import AppendLeaves
from tonne.supply.transparency.head_file import HeadFile
from tonne.supply.transparency.log_keys import LogKeys
from tonne.supply.transparency.log_store import find_log
from tonne.supply.transparency.model import Log
from tonne.supply.transparency.publish_checkpoints import PublishCheckpoints
from tonne.supply.transparency.tile_store import read_tiles
from tonne_verify.merkle import Range, check_inclusion, leaf_hash
from tonne_verify.notes import Checkpoint, open_note
from tonne_verify.openings import Opening
from tonne_verify.proofs import TlogProof
from tonne_verify.tiles import root_plan, split_entries

# Retired parcels of one tonne each, from a lot of their own.
RETIRE_MANY = """
WITH lot AS (
    INSERT INTO lots (mode, id, project_id, vintage, serial, serial_block, first_number, last_number, unit_grams,
                      quantity_grams, country, status, created_at)
    SELECT mode, 'lot_many', project_id, 2023, format('TEST-MANY 1000000–%s', 1000000 + $1::bigint),
           serial_block, 1000000,
           1000000 + $1::bigint, 1000000, ($1::bigint + 1) * 1000000, country, 'held', created_at
    FROM lots WHERE mode = 'live' LIMIT 1 RETURNING mode, id, project_id
), parcel AS (
    INSERT INTO parcels (mode, id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, beneficiary,
                         in_service_name, status, opened_at, retired_on, retired_at)
    SELECT mode, format('par_%s', to_char(number, 'FM00000')), id, project_id, number * 1000000, 1000000, 1000000, 'Us',
           true, 'retired', now(), '2026-02-01', '2026-02-01'
    FROM lot, generate_series(0, $1::bigint - 1) AS number RETURNING mode, id, retired_at
)
INSERT INTO log_statements (mode, kind, subject, at)
SELECT mode, 'retirement', id, retired_at FROM parcel ORDER BY id
"""


class LogScene(Shop):
    def __init__(self, services: Services, world: World, clock: ManualClock, mode: Mode) -> None:
        super().__init__(services, world, clock, mode)
        self.append = AppendLeaves(services.database, clock, services.settings, read_stated_rows)
        self.keys = LogKeys(services.signing_keys)
        self.publish = PublishCheckpoints(services.database, clock, services.settings, self.keys)
        self.head = HeadFile(services.settings, mode)

    async def certify(
        self,
        *,
        name: str = "Ada Keller",
        grams: int = 2_000_000,
        kind: BeneficiaryKind = BeneficiaryKind.PERSON,
    ) -> Order:
        """An order in the name of a person that is complete, of credits that were retired in advance."""
        if not self._bundle_ids:
            await self.sell("wind", {"A": 1})
            await self.supply("A", 2024, 100, retired=True)
        scope = self.world.ours_live.scope
        order = await self.buy(scope, grams, "wind", beneficiary=Beneficiary(name, kind))
        await self.work()
        return order

    async def append_all(self) -> None:
        await self.run_jobs(self.append)

    async def publish_all(self) -> None:
        """Append what waits, and publish a checkpoint of it."""
        await self.append_all()
        self.clock.advance(seconds=5)
        await self.run_jobs(self.publish)

    async def refusal(self) -> str | None:
        found: str | None = await self.fetchval(
            "SELECT refusal FROM logs WHERE mode = $1 AND closed_at IS NULL", self.mode
        )
        return found

    async def evidence(self, number: str) -> Evidence | None:
        async with self.database.connection() as connection:
            return await find_evidence(connection, self.mode, number)

    async def prove(self, order: Order) -> Evidence:
        """What proves the order's current certificate, checked."""
        found = await self.evidence((await self.certificate_states(order))[0][0])
        assert found is not None
        for entry in found.all:
            await self.check_entry(entry)
        return found

    async def check_entry(self, entry: dict[str, Any]) -> Checkpoint:
        """The opening belongs to the entry, which is in the tree of a checkpoint that the log has signed."""
        opening, proof = Opening.from_json(entry), TlogProof.parse(entry["proof"])
        opening.check()
        note = open_note(proof.checkpoint, await self.keys.verifier_keys(proof.checkpoint.partition("\n")[0]))
        checkpoint = Checkpoint.parse(note.text)
        leaf = leaf_hash(opening.commitment())
        check_inclusion(leaf, proof.index, checkpoint.size, proof.hashes, checkpoint.root)
        return checkpoint

    async def correct(self, retired_on: date) -> None:
        """The registry retired all parcels on another day."""
        async with self.database.transaction() as tx:
            rows = await tx.fetch("SELECT id, retirement_url FROM parcels WHERE mode = $1 FOR UPDATE", self.mode)
            corrected = [Confirmation(row["id"], retired_on, row["retirement_url"]) for row in rows]
            await correct_retirements_any_account(tx, self.mode, corrected, self.clock())

    async def retire_many(self, count: int) -> None:
        await self.execute(RETIRE_MANY, count)

    async def log(self, generation: int = 1) -> Log:
        async with self.database.connection() as connection:
            found = await find_log(connection, self.mode, generation)
        assert found is not None
        return found

    async def entries(self, log: Log) -> list[bytes]:
        rows = await self.fetch("SELECT entries FROM log_entries WHERE log_id = $1 ORDER BY number", log.id)
        return [entry for row in rows for entry in split_entries(row["entries"])]

    async def check_tree(self, generation: int = 1) -> list[bytes]:
        """The tiles have the root of a tree that is built from the entries, and each statement is at its entry."""
        log = await self.log(generation)
        entries = await self.entries(log)
        assert len(entries) == log.size
        tree = Range()
        for entry in entries:
            tree.append(leaf_hash(entry))
        plan = root_plan(log.size)
        async with self.database.connection() as connection:
            assert plan.compute(await read_tiles(connection, log.id, plan.tiles)) == tree.root()
        rows = await self.fetch("SELECT position, statement, salt FROM log_statements WHERE log_id = $1", log.id)
        first = 0 if generation == 1 else 1
        assert sorted(row["position"] for row in rows) == list(range(first, log.size))
        for row in rows:
            opening = Opening(msgspec.json.decode(decompress_json(row["statement"])), row["salt"])
            assert opening.commitment() == entries[row["position"]]
        return entries

    async def openings(self) -> list[Opening]:
        """All logged statements, in the order of the log."""
        rows = await self.fetch(
            "SELECT statement, salt, names, names_salt FROM log_statements WHERE log_id IS NOT NULL AND mode = $1 "
            "ORDER BY log_id, position",
            self.mode,
        )
        return [
            Opening(
                msgspec.json.decode(decompress_json(row["statement"])),
                row["salt"],
                None if row["names"] is None else msgspec.json.decode(row["names"]),
                row["names_salt"],
            )
            for row in rows
        ]
