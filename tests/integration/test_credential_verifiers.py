"""Credentials and status lists are verified by libraries that know nothing of Tonne.

The program is that of `docs/credentials.md`, with the libraries of Digital Bazaar.
"""

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.integration.node_packages import HOME, is_installed
from tests.integration.programs import find_program
from tests.integration.snippets import DOCS, snippets_of
from tests.supply.certificates.credentials.scene import Json, Verifier
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services

# Sorting keys, escaping and UTF-8 must be the same in every implementation.
NAME = 'Łódź & 株式会社グリーン "Ω"\\ 🌳 \u00e9e\u0301'


@pytest.fixture
def verifier(services: Services, world: World, api: ApiClient, browser: httpx.AsyncClient) -> Verifier:
    return Verifier(services, world, api, browser)


@pytest.fixture
async def folder(verifier: Verifier, tmp_path: Path) -> Path:
    """A folder with the program, its packages and the keys, as the page assumes."""
    assert is_installed(), "the Node packages are not installed: run make test-integration, which installs them."
    (program,) = (each for each in snippets_of(DOCS / "credentials.md") if each.language == "js")
    (tmp_path / "verify.mjs").write_text(program.text, encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(HOME / "node_modules")
    did = await verifier.browser.get("/.well-known/did.json")
    (tmp_path / "did.json").write_bytes(did.content)
    return tmp_path


def verify(folder: Path, credential: Json) -> str:
    (folder / "credential.json").write_text(json.dumps(credential), encoding="utf-8")
    node = [find_program("node"), "verify.mjs"]
    done = subprocess.run(node, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in {0, 1}, done.stderr
    verdict = done.stdout.partition(":")[0]
    assert verdict == ("refused" if done.returncode else "verified"), done.stdout + done.stderr
    return verdict


async def test_another_implementation_verifies_credentials_and_refuses_changed_ones(
    verifier: Verifier, folder: Path
) -> None:
    order_id = await verifier.buys(name=NAME)
    await verifier.publish()
    credential = await verifier.credential(order_id)
    subject = credential["credentialSubject"]
    assert subject["beneficiary"] == NAME
    status_list = (await verifier.browser.get(credential["credentialStatus"]["statusListCredential"])).json()
    await verifier.erase()
    erased = await verifier.credential(order_id)
    for name, genuine in {"whole": credential, "list": status_list, "erased": erased}.items():
        assert verify(folder, genuine) == "verified", name
    [evidence, *others] = credential["evidence"]
    for name, changed in {
        "tonnes": credential | {"credentialSubject": subject | {"total_quantity": "1000"}},
        "a name": credential | {"credentialSubject": subject | {"beneficiary": NAME.lower()}},
        "evidence": credential | {"evidence": [evidence | {"salt": "00" * 32}, *others]},
        "another proof": credential | {"proof": erased["proof"]},
        "list": status_list | {"credentialSubject": status_list["credentialSubject"] | {"ttl": 1}},
    }.items():
        assert verify(folder, changed) == "refused", name
