"""The log is verified by golang.org/x/mod/sumdb, the implementation of Go's checksum database."""

import asyncio
import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.programs import find_program
from tests.supply.transparency.scene import LogScene
from tests.support.clock import MARCH, ManualClock
from tests.support.processes import free_port
from tests.support.serving import serving
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.supply.certificates.proofs.read_proofs import prove_consistency
from tonne_verify.notes import Checkpoint, split_note
from tonne_verify.openings import Opening

PROGRAM = Path(__file__).parent / "golang" / "check_log.go"
# Where Debian's packages of Go libraries are.
LIBRARIES = Path("/usr/share/gocode")
NOTES = "SELECT note FROM log_checkpoints ORDER BY size"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    port = free_port()
    return msgspec.structs.replace(settings, port=port, public_url=f"http://127.0.0.1:{port}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


def build(folder: Path) -> Path:
    assert (LIBRARIES / "src/golang.org/x/mod/sumdb/tlog").is_dir(), "install golang-golang-x-mod-dev"
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(LIBRARIES),
        "GOCACHE": str(folder / "cache"),
        "CGO_ENABLED": "0",
    }
    command = [find_program("go"), "build", "-o", str(folder / "check_log"), str(PROGRAM)]
    subprocess.run(command, env=environment, check=True)
    return folder / "check_log"


async def check(program: Path, log: dict[str, Any]) -> tuple[int, str]:
    running = await asyncio.create_subprocess_exec(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said, _ = await running.communicate(msgspec.json.encode(log))
    assert running.returncode is not None
    return running.returncode, said.decode()


def entries(evidence: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {"Entry": base64.b64encode(Opening.from_json(each).commitment()).decode(), "Proof": each["proof"]}
        for each in evidence
    ]


async def test_gos_own_implementation_verifies_checkpoints_proofs_and_tiles(
    services: Services, world: World, clock: ManualClock, tmp_path: Path
) -> None:
    scene = LogScene(services, world, clock, Mode.LIVE)
    program = await asyncio.to_thread(build, tmp_path)
    early = await scene.certify()
    # More than one tile, and not a whole number of them.
    await scene.retire_many(600)
    await scene.publish_all()
    late = await scene.certify()
    await scene.publish_all()
    older, newer = [row["note"] for row in await scene.fetch(NOTES)]
    sizes = [Checkpoint.parse(split_note(note)[0]).size for note in (older, newer)]
    log = await scene.log()
    async with scene.database.connection() as connection:
        consistency = await prove_consistency(connection, log.id, *sizes)
    proofs = entries([*(await scene.prove(early)).all, *(await scene.prove(late)).all])
    async with serving(services) as url:
        given = {
            "URL": f"{url}{log.path}",
            "Key": (await scene.keys.note_key(log.origin)).vkey,
            "Older": older,
            "Newer": newer,
            "Consistency": [base64.b64encode(each).decode() for each in consistency],
            "Proofs": proofs,
        }
        code, said = await check(program, given)
        assert code == 0, said
        assert said.splitlines()[0] == f"the tree of {sizes[1]} contains the tree of {sizes[0]}"
        assert said.count(" is in the tree of ") == len(proofs) >= 4
        assert said.splitlines()[-1] == f"all {sizes[1]} entries are in the tree"
        # It does refuse: a proof of another tree, an entry of another proof, and a checkpoint of another size.
        wrong = [
            given | {"Consistency": given["Consistency"][::-1]},
            given | {"Proofs": [proofs[0] | {"Entry": proofs[1]["Entry"]}]},
            given | {"Newer": newer.replace(f"\n{sizes[1]}\n", f"\n{sizes[1] + 1}\n")},
        ]
        for each in wrong:
            code, said = await check(program, each)
            assert code == 1, said
