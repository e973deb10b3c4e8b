"""Certificates that people verify with the public keys of the service."""

import base64
import gzip
from datetime import datetime, timedelta
from typing import Any

import httpx

from tests.apps.privacy.scene import Persons
from tests.channels.public_pages.certificates import complete_order
from tests.support.api_client import ApiClient
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind
from tonne.selling.orders.queue import lock_order
from tonne.supply.certificates.proofs.statement_source import read_stated_rows
from tonne.supply.certificates.reissue_certificate import withdraw_certificate
from tonne.supply.retirements.rename_order import rename_order
from tonne.supply.transparency.append_leaves import AppendLeaves
from tonne.supply.transparency.log_keys import LogKeys
from tonne.supply.transparency.publish_checkpoints import PublishCheckpoints
from tonne_verify.credentials import check_credential
from tonne_verify.issuer import Issuer
from tonne_verify.merkle import check_inclusion, leaf_hash
from tonne_verify.notes import Checkpoint, split_note
from tonne_verify.openings import Opening
from tonne_verify.proofs import TlogProof

Json = dict[str, Any]


class Verifier(Persons):
    """Knows only what is public, besides the ways in which certificates come about."""

    def __init__(self, services: Services, world: World, api: ApiClient, browser: httpx.AsyncClient) -> None:
        super().__init__(services, world, api, browser)
        self.browser = browser
        self._later = timedelta()

    async def publish(self) -> None:
        """Write all statements to the log, and sign a checkpoint."""
        services = self.services
        # Later than the last time: checkpoints are not published every second.
        self._later += timedelta(minutes=1)
        append = AppendLeaves(services.database, self._now, services.settings, read_stated_rows)
        publish = PublishCheckpoints(services.database, self._now, services.settings, LogKeys(services.signing_keys))
        await self.run_jobs(append, publish)

    def _now(self) -> datetime:
        return utc_now() + self._later

    async def complete_order(self) -> tuple[str, str]:
        """An order of our account. Returns its id and the number of its certificate."""
        number = await complete_order(self.api, self.services)
        return str(await self.fetchval("SELECT order_id FROM certificates WHERE number = $1", number)), number

    async def credential(self, order_id: str, number: str | None = None) -> Json:
        query = "" if number is None else f"?number={number}"
        answer = await self.api.get(f"/v1/orders/{order_id}/credential.json{query}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        found: Json = answer.json()
        return found

    async def issuer(self) -> Issuer:
        return Issuer.parse((await self.browser.get("/.well-known/tonne-issuer.json")).content)

    async def check(self, credential: Json) -> list[str]:
        """Checks signature and evidence. Returns the kinds of statements that were proven."""
        issuer = await self.issuer()
        check_credential(credential, issuer.credential_public_keys())
        return [check_evidence(each, issuer) for each in credential.get("evidence", [])]

    async def listed_status(self, credential: Json) -> str:
        """Reads the status lists that the credential names, as a verifier does."""
        message, revocation = credential["credentialStatus"]
        bits = await self._listed_bits(message)
        (said,) = (each["message"] for each in message["statusMessage"] if each["status"] == hex(int(bits, 2)))
        assert await self._listed_bits(revocation) == ("0" if said == "valid" else "1")
        return str(said)

    async def _listed_bits(self, entry: Json) -> str:
        answer = await self.browser.get(entry["statusListCredential"])
        assert answer.status_code == 200
        status_list = answer.json()
        check_credential(status_list, (await self.issuer()).credential_public_keys())
        assert status_list["id"] == entry["statusListCredential"]
        assert status_list["credentialSubject"]["statusPurpose"] == entry["statusPurpose"]
        encoded = status_list["credentialSubject"]["encodedList"]
        packed = base64.urlsafe_b64decode(encoded.removeprefix("u") + "==")
        bits = "".join(f"{byte:08b}" for byte in gzip.decompress(packed))
        size = entry.get("statusSize", 1)
        assert len(bits) == 131_072 * size
        start = int(entry["statusListIndex"]) * size
        return bits[start : start + size]

    async def rename(self, order_id: str, name: str, kind: BeneficiaryKind = BeneficiaryKind.ORGANISATION) -> None:
        """A new certificate replaces the one of the order."""
        async with self.database.transaction() as tx:
            await rename_order(
                tx,
                self.world.ours_test.scope,
                order_id,
                Beneficiary(name, kind),
                reason="The name was misspelt.",
                settings=self.settings,
                by=TESTER.now(),
            )

    async def withdraw(self, order_id: str) -> None:
        async with self.database.transaction() as tx:
            order = await lock_order(tx, self.world.ours_test.scope, order_id)
            assert order is not None
            await withdraw_certificate(tx, order, reason="The lot was invalid.", by=TESTER.now())


def check_evidence(evidence: Json, issuer: Issuer) -> str:
    opening = Opening.from_json(evidence)
    opening.check()
    proof = TlogProof.parse(evidence["proof"])
    log = issuer.log(Checkpoint.parse(split_note(proof.checkpoint)[0]).origin)
    checkpoint = Checkpoint.parse(log.open_checkpoint(proof.checkpoint).text)
    check_inclusion(leaf_hash(opening.commitment()), proof.index, checkpoint.size, proof.hashes, checkpoint.root)
    return str(opening.statement["kind"])
