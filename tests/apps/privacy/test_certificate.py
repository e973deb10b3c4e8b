"""The certificate of a person who was erased: still valid, without the name."""

import hashlib

from tests.apps.privacy.scene import NAME, Persons
from tests.support.pdf_pages import page_texts


async def test_the_certificate_stays_valid_without_the_name(persons: Persons) -> None:
    order_id = await persons.buys()
    old = (await persons.api.get(f"/v1/orders/{order_id}/certificate")).content
    before = (await persons.api.get(f"/v1/orders/{order_id}/certificate.json")).json()
    assert NAME in page_texts(old)[0]
    made = await persons.erase()
    after = (await persons.api.get(f"/v1/orders/{order_id}/certificate.json")).json()
    erased_on = made.started_at.date().isoformat()
    assert after == before | {"beneficiary": "erased", "name_erased_on": erased_on, "lines": after["lines"]}
    for old_line, line in zip(before["lines"], after["lines"], strict=True):
        assert line | {"in_advance": None} == old_line | {"in_advance": None}, "serials and quantities stay"

    text = page_texts((await persons.api.get(f"/v1/orders/{order_id}/certificate")).content)[0]
    assert NAME not in text
    assert "name erased on" in text
    assert before["number"] in text
    page = (await persons.shopper.open(f"/verify/{before['number']}")).text
    assert "Test certificate" in page
    assert "The name was erased on" in page
    assert NAME not in page
    genuine = await persons.shopper.open(f"/verify/{before['number']}", sha256=hashlib.sha256(old).hexdigest())
    assert "Your file is the unchanged original." in genuine.text, "a file that the person has kept"
