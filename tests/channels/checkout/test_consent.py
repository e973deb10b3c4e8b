"""The right of withdrawal at checkout: notice, consent on record, the operator's own wording."""

from pathlib import Path

import pytest

from tests.channels.checkout.scene import Rows
from tests.channels.checkout.shopper import GOOD_CARD, STOLEN_CARD, Shopper, form_of
from tests.support.clock import START
from tonne.apps.privacy.export_person import export_person
from tonne.apps.privacy.model import FoundBy, Person, Search
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.paying.consent import BuyerKind, WithdrawalTexts
from tonne.channels.checkout.paying.payment_form import PaymentForm, consent_in
from tonne.channels.checkout.timeline import checkout_timeline
from tonne.platform.settings.settings import Settings
from tonne.platform.settings.withdrawal_texts import read_withdrawal_texts
from tonne.platform.web.translate import translator

CHECKOUTS = "SELECT buyer_kind, consent_version, consent_language, consented_at, order_id FROM checkouts"
TEXTS = "SELECT version, language, text FROM consent_texts"


async def test_a_consumer_must_agree_and_the_consent_is_on_record(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    page = await shopper.open(address)
    form = form_of(page)
    assert 'name="withdrawal_consent" value="1" aria-describedby' in page.text, "not ticked by default"
    assert "Order and pay €" in page.text
    silent = {name: value for name, value in form.values(card_number="1").items() if name != "withdrawal_consent"}
    refused = await shopper.http.post(form.action, data=silent)
    assert refused.status_code == 422
    assert 'id="consent-fault"' in refused.text
    assert 'id="card-fault"' in refused.text, "all faults at once"
    assert refused.text.count("autofocus") == 1
    outdated = await shopper.http.post(form.action, data=form.values(card_number=GOOD_CARD, consent_version="0" * 16))
    assert (outdated.status_code, await rows("SELECT id FROM orders")) == (422, [])

    await shopper.http.post(form.action, data=form.values(card_number=STOLEN_CARD))
    [first] = await rows(CHECKOUTS)
    [text] = await rows(TEXTS)
    assert (first["buyer_kind"], first["consent_version"], first["consent_language"]) == (
        "consumer",
        text["version"],
        "en",
    )
    assert "14 days" in text["text"]
    declined = await shopper.open(address)
    assert 'name="withdrawal_consent" value="1" checked' in declined.text, "kept after a decline"
    assert form_of(declined).values()["card_number"] == [""], "never written into a page"
    await shopper.pay(address)
    assert await rows(CHECKOUTS) == [first], "the first consent counts"

    async with services.database.connection() as connection:
        entries = await checkout_timeline(connection, link.scope, first["order_id"])
        person = Search(Person(FoundBy.EMAIL, "ann@example.com"))
        exported = await export_person(connection, person)
    [consent] = [entry for entry in entries if entry.kind == "consent"]
    assert f"as a consumer and agreed to text {text['version']} (en)" in consent.text
    [checkout] = [record for record in exported if record.kind == "checkout"]
    assert checkout.data["consent_version"] == text["version"]


async def test_a_business_is_not_asked(shopper: Shopper, link: OffsetLink, rows: Rows) -> None:
    form = form_of(await shopper.open(await shopper.begin(link)))
    fields = {name: value for name, value in form.values(card_number=GOOD_CARD).items() if name != "withdrawal_consent"}
    assert (await shopper.http.post(form.action, data=fields | {"is_business": ["1"]})).status_code == 303
    [checkout] = await rows(CHECKOUTS)
    assert (checkout["buyer_kind"], checkout["consent_version"]) == ("business", None)
    assert await rows(TEXTS) != [], "the text that was shown"


def test_the_operators_wording_replaces_the_built_in_one(tmp_path: Path) -> None:
    file = tmp_path / "texts.toml"
    file.write_text('[de]\nnotice = "Hinweis"\nconsent = "Ja"\n', encoding="utf-8")
    texts = WithdrawalTexts(Settings(withdrawal_texts=str(file), seller_name="Tonne GmbH"))
    german, english = texts.text_in(translator("de")), texts.text_in(translator("en"))
    assert german is not None
    assert english is not None
    assert (german.notice, german.consent) == ("Hinweis", "Ja")
    assert "I ask Tonne GmbH to retire" in english.consent
    assert german.version != english.version
    consent = consent_in(PaymentForm(agreed_version=german.version), german, START)
    assert consent is not None
    assert consent.buyer is BuyerKind.CONSUMER
    assert WithdrawalTexts(Settings(withdrawal_consent=False)).text_in(translator("de")) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[xx]\nnotice = 'a'\nconsent = 'b'", "xx is not one of en"),
        ("[de]\nnotice = 'a'", "notice and consent"),
        ("[de]\nnotice = ' '\nconsent = 'b'", "1 to 5000 characters"),
        ("nonsense", "notice and consent"),
    ],
)
def test_a_wrong_file_is_reported(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "texts.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        read_withdrawal_texts(str(file))
    with pytest.raises(ValueError, match="cannot be read"):
        read_withdrawal_texts(str(tmp_path / "missing.toml"))
