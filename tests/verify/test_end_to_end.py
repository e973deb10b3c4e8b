"""From an order to a verified file, with the real service: what a client downloads is what an auditor checks."""

import json
import re
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.supply.certificates.credentials.scene import Verifier
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne_verify.cli import main
from tonne_verify.errors import NotProven
from tonne_verify.issuer import Issuer
from tonne_verify.pdf import check_pdf
from tonne_verify.policy import Policy
from tonne_verify.report import Report
from tonne_verify.verify_file import verify_file

ALONE = Policy().accepting_no_witness()
OBJECT = re.compile(rb"(?m)^\d+ \d+ obj\b")
SIGNATURE = re.compile(rb"/Contents <([0-9A-Fa-f]{1000,})>")


@pytest.fixture
def verifier(services: Services, world: World, api: ApiClient, browser: httpx.AsyncClient) -> Verifier:
    return Verifier(services, world, api, browser)


def verdicts(report: Report) -> dict[str, str]:
    assert report.unreadable is None
    return {each.name: each.verdict for each in report.checks}


async def test_an_order_becomes_a_pdf_that_anyone_can_verify(verifier: Verifier, tmp_path: Path) -> None:
    order_id, number = await verifier.complete_order()
    published = await verifier.browser.get("/.well-known/tonne-issuer.json")
    issuer = Issuer.parse(published.content)

    async def download() -> bytes:
        answer = await verifier.api.get(f"/v1/orders/{order_id}/certificate")
        assert answer.status_code == 200
        return bytes(answer.content)

    early_pdf = await download()
    early = verify_file("early.pdf", early_pdf, issuer)
    assert verdicts(early)["signature"] == "holds", early.lines()
    assert "holds" not in {verdicts(early).get("log"), verdicts(early).get("facts")}
    await verifier.publish()
    # The log is listed since it has entries.
    published = await verifier.browser.get("/.well-known/tonne-issuer.json")
    issuer = Issuer.parse(published.content)
    pdf = await download()
    # This service has no witnesses, and the order is one of the test mode.
    assert verify_file("certificate.pdf", pdf, issuer).exit_code == 3
    report = verify_file("certificate.pdf", pdf, issuer, ALONE)
    assert report.exit_code == 4, report.lines()
    assert verdicts(report) == {
        "signature": "holds",
        "pages": "not checked",
        "credential": "holds",
        "log": "holds",
        "facts": "holds",
        "retirements": "holds",
        "mode": "test",
        "witnesses": "not checked",
        "time": "not checked",
        "status": "not checked",
    }
    assert number in report.facts[0]
    (tmp_path / "certificate.pdf").write_bytes(pdf)
    (tmp_path / "issuer.json").write_bytes(published.content)
    (tmp_path / "credential.json").write_text(json.dumps(await verifier.credential(order_id)))
    files = [str(tmp_path / name) for name in ("certificate.pdf", "credential.json")]
    run = [*files, "--issuer", str(tmp_path / "issuer.json")]
    assert (main(run), main([*run, "--accept-no-witness"])) == (3, 4)

    starts = [each.start() for each in OBJECT.finditer(pdf)]
    assert len(starts) > 20
    middles = [(start + end) // 2 for start, end in pairwise([*starts, len(pdf)])]
    for place in [*middles, pdf.rfind(b"/Contents") + 2000]:
        changed = pdf[:place] + bytes([pdf[place] ^ 1]) + pdf[place + 1 :]
        with pytest.raises(NotProven):
            check_pdf(changed, issuer)
    # The signature of another file, by the same key.
    (own,), (other,) = SIGNATURE.findall(pdf), SIGNATURE.findall(early_pdf)
    assert own != other
    assert len(own) == len(other)
    with pytest.raises(NotProven):
        check_pdf(pdf.replace(own, other), issuer)
    assert verify_file("swapped.pdf", pdf.replace(own, other), issuer).exit_code == 1

    await verifier.rename(order_id, "Berta Ltd")
    await verifier.publish()
    old = verify_file("old.json", json.dumps(await verifier.credential(order_id, number)).encode(), issuer)
    assert verdicts(old)["status"] == "does not hold"
    new = verify_file("new.pdf", await download(), issuer, ALONE)
    assert new.exit_code == 4
