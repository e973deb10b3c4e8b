"""An operator who has the database and the keys rewrites history, and `tonne log audit` notices it over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.supply.transparency.scene import LogScene
from tests.support.processes import free_port
from tests.support.serving import serving
from tonne.platform.settings.settings import Settings
from tonne.supply.transparency.tile_store import append_entries, write_tiles
from tonne.supply.transparency.tree import grow_tiles
from tonne_verify.merkle import Range, leaf_hash
from tonne_verify.monitor import AuditOptions
from tonne_verify.notes import Checkpoint, NoteKey
from tonne_verify.run import run_audit

NEWEST = "SELECT size, note FROM log_checkpoints ORDER BY size DESC LIMIT 1"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    port = free_port()
    return msgspec.structs.replace(settings, port=port, public_url=f"http://127.0.0.1:{port}")


@dataclass
class Attacked:
    """The live log over HTTP. Auditors have the issuer file from elsewhere."""

    scene: LogScene
    url: str
    folder: Path

    async def audit(self, state: str = "state.json") -> tuple[int, str]:
        """The exit code and what the command says."""
        said: list[str] = []
        options = AuditOptions(self.folder / state, self.folder / "issuer.json")
        code = await asyncio.to_thread(run_audit, self.url, options, said.append)
        return int(code), "\n".join(said)

    async def entries(self) -> list[bytes]:
        return await self.scene.entries(await self.scene.log())

    async def replace_all(self, entries: Sequence[bytes], key: NoteKey | None = None) -> None:
        """Make these the entries of the log, with a tree and a signed checkpoint of them and of nothing else."""
        log = await self.scene.log()
        key = key or await self.scene.keys.note_key(log.origin)
        tree = Range()
        for entry in entries:
            tree.append(leaf_hash(entry))
        text = Checkpoint(log.origin, tree.size, tree.root()).text
        async with self.scene.database.transaction() as tx:
            for table in ("log_tiles", "log_entries", "log_checkpoints"):
                await tx.execute(f"DELETE FROM {table} WHERE log_id = $1", log.id)  # noqa: S608 - a name above
            await write_tiles(tx, log.id, grow_tiles(0, [leaf_hash(entry) for entry in entries], {}))
            await append_entries(tx, log.id, 0, entries)
            await tx.execute("UPDATE logs SET size = $2, published_size = $2 WHERE id = $1", log.id, tree.size)
            await tx.execute(
                "INSERT INTO log_checkpoints (log_id, size, root, note, published_at) VALUES ($1, $2, $3, $4, now())",
                log.id,
                tree.size,
                tree.root(),
                f"{text}\n{key.sign(text)}",
            )


@pytest.fixture
async def attacked(scene: LogScene, tmp_path: Path) -> AsyncIterator[Attacked]:
    """Two certificates are in the log, and an auditor has seen them."""
    await scene.certify()
    await scene.certify()
    await scene.publish_all()
    log = await scene.log()
    async with serving(scene.services) as site, httpx.AsyncClient() as http:
        published = await http.get(f"{site}/.well-known/tonne-issuer.json")
        (tmp_path / "issuer.json").write_bytes(published.content)
        attacked = Attacked(scene, f"{site}{log.path}", tmp_path)
        code, said = await attacked.audit()
        assert code == 0, said
        yield attacked


async def test_rewritten_reordered_and_dropped_entries_are_reported(attacked: Attacked) -> None:
    """Also if the log has grown since, and every checkpoint is signed with the right key."""
    true = await attacked.entries()
    later = [bytes([number]) * 32 for number in range(3)]
    for name, entries in (
        ("rewritten", [true[0], b"x" * 32, *true[2:], *later]),
        ("reordered", [true[1], true[0], *true[2:], *later]),
        ("dropped", [*true[1:], *later]),
    ):
        await attacked.replace_all(entries)
        code, said = await attacked.audit()
        assert code == 1, name
        assert f"The first {len(true)} entries are no longer those that you have seen" in said
        assert "rewritten, reordered or removed" in said.replace("\n", " ")
    # The same number of entries: two signed checkpoints contradict each other.
    await attacked.replace_all([*true[:-1], b"x" * 32])
    code, said = await attacked.audit()
    assert (code, "FORK: it has signed two different trees" in said) == (1, True)
    # What proves it is kept.
    alarms = json.loads((attacked.folder / "state.json").read_text())["alarms"]
    assert len({alarm["checkpoint"] for alarm in alarms}) == 4
    # Nothing that comes later makes it undone.
    await attacked.replace_all([*true, *later])
    code, said = await attacked.audit()
    assert (code, "has signed two trees that do not agree" in said.replace("\n", " ")) == (1, True)


async def test_a_forged_checkpoint_is_not_signed_by_the_log(attacked: Attacked) -> None:
    true = await attacked.entries()
    log = await attacked.scene.log()
    await attacked.replace_all([*true, b"x" * 32], NoteKey(log.origin, Ed25519PrivateKey.generate()))
    code, said = await attacked.audit()
    assert code == 1
    assert "None of the known keys has signed it" in said


async def test_an_older_checkpoint_that_is_replayed_is_reported(attacked: Attacked) -> None:
    older = (await attacked.scene.fetch(NEWEST))[0]
    await attacked.scene.certify()
    await attacked.scene.publish_all()
    code, said = await attacked.audit()
    assert (code, "new since" in said) == (0, True)
    await attacked.scene.execute("DELETE FROM log_checkpoints WHERE size > $1", older["size"])
    code, said = await attacked.audit()
    assert code == 1
    assert f"It shows an older checkpoint with {older['size']} entries" in said


async def test_a_fork_is_found_when_two_visitors_compare_what_they_saw(attacked: Attacked) -> None:
    """Each of the two histories holds for itself. What one visitor has seen does not hold for the other history."""
    true = await attacked.entries()
    await attacked.replace_all([*true, b"for the first visitor".ljust(32)])
    assert (await attacked.audit())[0] == 0
    await attacked.replace_all([*true, b"for the second visitor".ljust(32), b"x" * 32])
    assert (await attacked.audit("of-the-second.json"))[0] == 0
    code, said = await attacked.audit()
    assert code == 1
    assert f"The first {len(true) + 1} entries are no longer those that you have seen" in said
