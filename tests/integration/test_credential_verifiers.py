"""Credentials and status lists are verified by libraries that know nothing of Tonne.

The first program is that of `docs/credentials.md`, with the libraries of Digital Bazaar. Tokens are verified by that of
the OpenWallet Foundation.
"""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.integration.node_packages import HOME, is_installed
from tests.integration.programs import find_program
from tests.integration.snippets import DOCS, snippets_of
from tests.supply.certificates.credentials.scene import Json, Verifier
from tests.supply.certificates.credentials.test_sd_jwt import present, token_of
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.supply.certificates.credentials.credential import StatusPurpose
from tonne.supply.certificates.credentials.issuer_endpoints import encode_list
from tonne_verify.vocabulary import CONTEXT_FILE, read_vocabulary

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


async def fetch_lists(verifier: Verifier, folder: Path, credential: Json) -> Json:
    """Returns the one of the purpose `revocation`."""
    for entry in credential["credentialStatus"]:
        answer = await verifier.browser.get(entry["statusListCredential"])
        (folder / f"{entry['statusPurpose']}.json").write_bytes(answer.content)
    found: Json = answer.json()
    return found


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
    status_list = await fetch_lists(verifier, folder, credential)
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


async def test_another_implementation_refuses_what_was_replaced_or_withdrawn(verifier: Verifier, folder: Path) -> None:
    replaced_id, first = await verifier.complete_order()
    withdrawn_id, _ = await verifier.complete_order()
    early = await verifier.credential(replaced_id)
    await verifier.rename(replaced_id, "Berta Ltd")
    await verifier.withdraw(withdrawn_id)
    await verifier.publish()
    new = await verifier.credential(replaced_id)
    await fetch_lists(verifier, folder, new)
    assert verify(folder, new) == "verified"
    for void in (early, await verifier.credential(replaced_id, first), await verifier.credential(withdrawn_id)):
        assert verify(folder, void) == "refused"
    listed = json.loads((folder / "revocation.json").read_text(encoding="utf-8"))
    cleared = listed["credentialSubject"] | {"encodedList": encode_list(StatusPurpose.REVOCATION, [])}
    (folder / "revocation.json").write_text(json.dumps(listed | {"credentialSubject": cleared}), encoding="utf-8")
    assert verify(folder, early) == "refused", "the list is signed"


async def test_another_implementation_verifies_tokens_with_and_without_the_name(
    verifier: Verifier, folder: Path
) -> None:
    order_id = await verifier.buys(name=NAME)
    await verifier.publish()
    token = await token_of(verifier, order_id)
    shutil.copy(Path(__file__).parent / "clients" / "verify_sd_jwt.mjs", folder / "verify_sd_jwt.mjs")
    keys = await verifier.browser.get("/.well-known/jwt-vc-issuer")
    (folder / "issuer.json").write_bytes(keys.content)
    whole, bare = verify_token(folder, token), verify_token(folder, present(token))
    assert whole is not None
    assert bare is not None
    assert whole["beneficiary"] == NAME
    assert set(whole) - set(bare) == {"beneficiary", "number", "order_id", "verification_url"}
    assert bare["total_quantity"] == whole["total_quantity"]
    header, payload, signature = token.partition("~")[0].split(".")
    other = f"{header}.{payload[:-6]}AAAAAA.{signature}~"
    assert verify_token(folder, other) is None
    # A disclosure that nobody signed: the library ignores it.
    forged = base64.urlsafe_b64encode(b'["salt", "beneficiary", "Mallory"]').decode().rstrip("=")
    assert verify_token(folder, f"{present(token)}{forged}~") == bare


def verify_token(folder: Path, token: str) -> Json | None:
    (folder / "token.txt").write_text(token, encoding="utf-8")
    node = [find_program("node"), "verify_sd_jwt.mjs"]
    done = subprocess.run(node, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in {0, 1}, done.stderr
    assert (done.returncode == 0) is bool(done.stdout), done.stderr
    found: Json | None = json.loads(done.stdout) if done.stdout else None
    return found


async def test_every_word_has_a_meaning_in_json_ld(verifier: Verifier, folder: Path) -> None:
    """Of a certificate with all that it may have, and of the status lists: safe mode refuses words without one."""
    order_id, first = await verifier.complete_order()
    await verifier.publish()
    plain = await verifier.credential(order_id)
    await verifier.rename(order_id, NAME)
    await verifier.publish()
    new = await verifier.credential(order_id)
    lines = [
        {
            **each,
            "registry_name": "Acme",
            "retirement_url": "https://registry.example/1",
            "shared": {"unit_quantity": "2", "share": "1"},
            "in_advance": {"retired_by": "Acme", "assigned_to": "Ada", "assigned_on": "2026-01-01"},
        }
        for each in new["credentialSubject"]["lines"]
    ]
    whole = {**new["credentialSubject"], "lines": lines, "name_erased_on": "2026-01-01", "supplied_on": "2026-01-01"}
    await fetch_lists(verifier, folder, plain)
    for name, document in {
        "plain": plain,
        "replaced": await verifier.credential(order_id, first),
        "whole": {**new, "credentialSubject": whole},
        "list": json.loads((folder / "message.json").read_text(encoding="utf-8")),
    }.items():
        expanded = expand(folder, document)
        assert expanded.startswith('{"expanded"'), (name, expanded)
        assert (name == "list") is ("#inclusion_proof" not in expanded), (name, expanded)
    undefined = expand(folder, {**plain, "credentialSubject": {**plain["credentialSubject"], "tons": "2"}})
    assert "Dropping property" in undefined


def expand(folder: Path, document: Json) -> str:
    """What the document means, or why it means nothing."""
    shutil.copy(Path(__file__).parent / "clients" / "expand.mjs", folder / "expand.mjs")
    (folder / "context.json").write_bytes(read_vocabulary(CONTEXT_FILE))
    (folder / "document.json").write_text(json.dumps(document), encoding="utf-8")
    node = [find_program("node"), "expand.mjs", "document.json", "context.json"]
    done = subprocess.run(node, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return done.stderr if done.returncode else done.stdout
