"""Statements as banks write them: camt.053 and MT940 in several dialects, and hostile files."""

import time
from pathlib import Path

import msgspec
import pytest

from tests.support.world import SELLER
from tonne.money.bank.formats.read_statement import read_statement, with_own_accounts
from tonne.money.bank.formats.statement import Statement, StatementFormat, StatementLine
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings

SAMPLES = Path(__file__).parent / "samples"
ENTRY = (
    '<Ntry><Amt Ccy="EUR">1.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-11-13</Dt></BookgDt>'
    "{}</Ntry>"
)


def sample(name: str) -> Statement:
    return read_statement(SheetFile(name, (SAMPLES / name).read_bytes()))


def camt(*entries: str, version: str = "02") -> bytes:
    return (
        f'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.{version}"><BkToCstmrStmt><Stmt><Acct><Id>'
        f"<IBAN>DE89370400440532013000</IBAN></Id></Acct>{''.join(entries)}</Stmt></BkToCstmrStmt></Document>"
    ).encode()


def read(content: bytes) -> list[StatementLine]:
    return list(read_statement(SheetFile("file", content)).lines)


def refusal(content: bytes) -> str:
    with pytest.raises(SheetInvalid) as refused:
        read(content)
    assert len(refused.value.errors) == 1
    message = str(refused.value)
    assert message.startswith("file")
    assert message.endswith(".")
    return message


class TestCamt:
    def test_a_german_statement(self) -> None:
        statement = sample("german_02.xml")
        # Without the pending entry.
        paid, fee = statement.lines
        assert statement.format is StatementFormat.CAMT
        assert (str(paid.booked_on), paid.amount_minor, paid.currency) == ("2026-11-13", 123_400, "EUR")
        assert paid.own_account == "DE89370400440532013000"
        assert (paid.payer, paid.payer_iban) == ("Müller & Söhne GmbH", "DE75512108001245126199")
        assert paid.payer_bic == "SOLADEST600"
        assert paid.reference == "Rechnung TN-LIVE-000123 vielen Dank"
        assert (paid.bank_reference, paid.end_to_end_id) == ("2026111300001", "")
        assert (fee.amount_minor, fee.reference, fee.bank_reference) == (-255, "ENTGELTE", "")

    def test_a_swiss_statement_with_a_batch_booking(self) -> None:
        lines = sample("swiss_08.xml").lines
        assert [(line.amount_minor, line.currency) for line in lines] == [
            *((1000, "CHF"), (1000, "CHF"), (4000, "CHF"), (2500, "CHF"), (3000, "CHF")),
            (50, "EUR"),
        ]
        first, second, third, back, whole, interest = lines
        assert first.reference == second.reference == "RF09TNLIVE000123"
        assert first.bank_reference == "20261113900301020001-1"
        assert second.bank_reference == "20261113900301020001-2"
        assert (first.payer, first.payer_iban) == ("Rutschmann Pia", "CH5604835012345678009")
        assert (third.payer, third.reference) == ("Bernasconi SA", "TN-LIVE-000124")
        assert back.is_reversal
        assert (back.payer, back.payer_iban) == ("Closed account", "CH5604835012345678009")
        # The parts have no amounts, so they cannot be told apart.
        assert whole.reference == "TN-LIVE-000125 / TN-LIVE-000126"
        assert interest.own_account == "CH2100762011623852958"

    def test_a_french_statement_with_a_reversal(self) -> None:
        paid, reversed_ = sample("french_12.xml").lines
        assert paid.payer == "Société Générale d'Énergie"
        assert paid.end_to_end_id == "TN-LIVE-000200"
        assert (reversed_.amount_minor, reversed_.is_reversal) == (-1395, True)
        assert paid.bank_reference == reversed_.bank_reference == "AB12"

    @pytest.mark.parametrize("version", [f"{number:02d}" for number in range(2, 13)])
    def test_all_versions(self, version: str) -> None:
        status = "<Sts>BOOK</Sts>" if int(version) < 8 else "<Sts><Cd>BOOK</Cd></Sts>"
        [line] = read(camt(ENTRY.replace("<Sts>BOOK</Sts>", status), version=version))
        assert line.amount_minor == 100

    def test_transactions_of_a_batch_share_the_reference_of_the_entry(self) -> None:
        details = "<TxDtls><AmtDtls><TxAmt><Amt Ccy='EUR'>0.50</Amt></TxAmt></AmtDtls></TxDtls>"
        entry = ENTRY.format(f"<AcctSvcrRef>R</AcctSvcrRef><NtryDtls>{details * 2}</NtryDtls>")
        assert [line.bank_reference for line in read(camt(entry))] == ["R/1", "R/2"]

    def test_parts_that_do_not_add_up_stay_together(self) -> None:
        details = "<TxDtls><Amt Ccy='EUR'>0.40</Amt><RmtInf><Ustrd>{}</Ustrd></RmtInf></TxDtls>"
        [line] = read(camt(ENTRY.format(f"<NtryDtls>{details.format('a')}{details.format('b')}</NtryDtls>")))
        assert (line.amount_minor, line.reference) == (100, "a / b")

    def test_a_reference_that_a_bank_repeats_for_other_amounts_identifies_nothing(self) -> None:
        other = ENTRY.replace("1.00", "2.00")
        lines = read(camt(*(entry.format("<AcctSvcrRef>R</AcctSvcrRef>") for entry in (ENTRY, other))))
        assert [line.bank_reference for line in lines] == ["", ""]

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("1.00", "1,00"),
            ("1.00", "1.001"),
            ("1.00", "-1.00"),
            ("1.00", ""),
            ('Ccy="EUR"', 'Ccy="XYZ"'),
            ("CRDT", "CREDIT"),
            ("2026-11-13", "2026-11-31"),
            ("2026-11-13", "today"),
        ],
    )
    def test_an_entry_that_cannot_be_read_is_refused(self, old: str, new: str) -> None:
        assert "line 1" in refusal(camt(ENTRY.format("").replace(old, new)))

    def test_every_error_is_reported(self) -> None:
        broken = ENTRY.format("").replace("1.00", "x")
        with pytest.raises(SheetInvalid) as refused:
            read(camt(broken, ENTRY.format(""), broken))
        assert len(refused.value.errors) == 2


class TestMt940:
    def test_a_german_statement(self) -> None:
        statement = sample("german.sta")
        paid, fee, reversed_, interest = statement.lines
        assert statement.format is StatementFormat.MT940
        assert (str(paid.booked_on), paid.amount_minor, paid.currency) == ("2026-11-13", 123_400, "EUR")
        assert (paid.own_account, paid.bank_reference) == ("37040044/0532013000", "2026111300001")
        assert (paid.payer, paid.payer_iban) == ("MUELLER + SOEHNE GMBH", "DE75512108001245126199")
        assert paid.reference == "Rechnung TN-LIVE-000123 vielen Dank"
        assert (fee.amount_minor, fee.bank_reference) == (-255, "")
        assert (reversed_.amount_minor, reversed_.is_reversal) == (-2000, True)
        assert str(interest.booked_on) == "2027-01-01", "booked after the turn of the year"

    def test_a_dutch_statement_in_an_envelope(self) -> None:
        first, second = sample("dutch.sta").lines
        assert first.own_account == "NL91ABNA0417164300"
        assert (first.payer, first.payer_iban) == ("Example B.V.", "NL20INGB0001234567")
        assert first.payer_bic == "INGBNL2A"
        assert first.reference == second.reference == "Invoice tn live 000123"
        assert first.end_to_end_id == second.end_to_end_id == "PAYER-CHOSE-THIS"
        assert (first.bank_reference, second.bank_reference) == ("26111300000001", "26111300000002")

    def test_a_polish_file_with_two_statements(self) -> None:
        [line] = sample("polish.sta").lines
        assert (line.amount_minor, line.currency) == (50_000, "PLN")
        assert line.own_account == "PL61109010140000071219812874"
        assert line.reference == "Wplata od Jan Kowalski TN-LIVE-000 321"

    def test_windows_1252_is_read(self) -> None:
        text = (SAMPLES / "german.sta").read_text().replace("MUELLER", "MÜLLER")
        assert read(text.encode("cp1252"))[0].payer == read(text.encode())[0].payer == "MÜLLER + SOEHNE GMBH"

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (":62F:C261113EUR2216,45\n", ""),
            (":61:2611131113CR1234,00", ":61:2611131113CR1234,001"),
            (":61:2611131113CR1234,00", ":61:2611131113XX1234,00"),
            (":61:2611131113CR1234,00", ":61:2613131113CR1234,00"),
            (":60F:C261112EUR1000,00", ":60F:C261112XYZ1000,00"),
        ],
        ids=["no closing balance", "too precise", "no mark", "no date", "no currency"],
    )
    def test_a_damaged_statement_is_refused(self, old: str, new: str) -> None:
        content = (SAMPLES / "german.sta").read_text()
        assert old in content
        refusal(content.replace(old, new).encode())


class TestHostileFiles:
    def test_a_billion_laughs(self) -> None:
        entities = '<!ENTITY a "ha">' + "".join(
            f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefghi", "bcdefghij", strict=True)
        )
        bomb = f"<!DOCTYPE Document [{entities}]>".encode() + camt(ENTRY.format("<AddtlNtryInf>&j;</AddtlNtryInf>"))
        started = time.process_time()
        assert "document type" in refusal(bomb)
        assert "document type" in refusal(bomb.decode().encode("utf-16"))
        assert time.process_time() - started < 5

    @pytest.mark.parametrize("address", ["file:///etc/passwd", "http://127.0.0.1:9/x"])
    def test_an_external_entity(self, address: str) -> None:
        head = f'<?xml version="1.0"?><!doctype Document [<!ENTITY x SYSTEM "{address}">]>'.encode()
        assert "document type" in refusal(head + camt(ENTRY.format("<AddtlNtryInf>&x;</AddtlNtryInf>")))

    def test_an_undeclared_entity(self) -> None:
        assert "damaged" in refusal(camt(ENTRY.format("<AddtlNtryInf>&x;</AddtlNtryInf>")))

    def test_a_file_of_100_mb(self) -> None:
        assert "larger than 64 MB" in refusal(b"<Document>" + bytes(100_000_000))

    def test_a_deep_tree(self) -> None:
        assert "damaged" in refusal(b"<Document>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</Document>")

    @pytest.mark.parametrize("name", ["german_02.xml", "swiss_08.xml"])
    def test_a_truncated_file(self, name: str) -> None:
        content = (SAMPLES / name).read_bytes()
        for part in (3, 2):
            assert "damaged" in refusal(content[: len(content) * (part - 1) // part])

    def test_wrong_encodings(self) -> None:
        umlaut = camt(ENTRY.format("<AddtlNtryInf>M\xfcller</AddtlNtryInf>"))
        latin = umlaut.decode().encode("latin-1")
        assert "not UTF-8" in refusal(latin)
        assert read(b'<?xml version="1.0" encoding="ISO-8859-1"?>' + latin)[0].reference == "Müller"
        assert read(umlaut.decode().encode("utf-16"))[0].reference == "Müller"
        assert "not supported" in refusal(b'<?xml version="1.0" encoding="UTF-7"?>' + umlaut)
        assert "neither UTF-8 nor Windows-1252" in refusal(b":20:x\n:25:1\n:60F:C261112EUR1,00\n:86:\x81\xff\n")

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"PK\x03\x04" + bytes(100), "workbook or an archive"),
            (b"\xd0\xcf\x11\xe0" + bytes(100), "old workbook"),
            (b"%PDF-1.7", "PDF"),
            (b"\x1f\x8b\x08", "unpack"),
            (b"OFXHEADER:100", "OFX"),
            (b"<html></html>", "no camt.053 statement"),
            (b"<Document><BkToCstmrAcctRpt/></Document>", "camt.052"),
            (b"<Document><BkToCstmrDbtCdtNtfctn/></Document>", "camt.054"),
            (b":20:1\n:25:1\n:34F:EUR0,\n:61:x\n", "MT942"),
            (b"{1:F01}{2:O940}{4:\n:20:1\n-}", "closing balance"),
        ],
    )
    def test_other_files_get_a_helpful_sentence(self, content: bytes, said: str) -> None:
        assert said in refusal(content)

    def test_control_characters_never_reach_a_terminal(self) -> None:
        [line] = read(camt(ENTRY.format("<AddtlNtryInf>a\u202eb&#x85;c</AddtlNtryInf>")))
        assert line.reference == "a b c"


class TestOwnAccounts:
    settings = msgspec.structs.replace(Settings(), **SELLER, bank_accounts="CHF=CH93 0076 2011 6238 5295 7/POFICHBE")

    def own(self, name: str, currency: str = "EUR", iban: str | None = None) -> str:
        line = StatementLine(
            line=1,
            booked_on=read(camt(ENTRY.format("")))[0].booked_on,
            amount_minor=1,
            currency=currency,
            payer="",
            reference="",
            own_account=name,
        )
        [found] = with_own_accounts(SheetFile("file", b""), [line], self.settings, iban)
        return found.own_account

    @pytest.mark.parametrize("name", ["", "DE89370400440532013000", "37040044/532013000", "370400440532013000"])
    def test_the_account_is_found(self, name: str) -> None:
        assert self.own(name) == "DE89370400440532013000"

    def test_each_currency_has_its_account(self) -> None:
        assert self.own("", "CHF") == "CH9300762011623852957"
        assert self.own("", "USD") == "DE89370400440532013000"

    def test_the_operator_names_an_account_that_is_unclear(self) -> None:
        with pytest.raises(SheetInvalid, match="pass --iban"):
            self.own("12345678")
        assert self.own("12345678", iban="DE89 3704 0044 0532 0130 00") == "DE89370400440532013000"

    def test_another_account_is_refused(self) -> None:
        with pytest.raises(SheetInvalid, match="not one of your own"):
            self.own("DE75512108001245126199")
        with pytest.raises(SheetInvalid, match="check the file and --iban"):
            self.own("DE89370400440532013000", iban="CH9300762011623852957")
