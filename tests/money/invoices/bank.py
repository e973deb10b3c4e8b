"""Bank statements in all formats for tests: payers, lines, files."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from xml.sax.saxutils import escape

from tonne.platform.values.amounts import DECIMALS, format_money

OWN = "DE89370400440532013000"
ADA_IBAN, EVE_IBAN = "DE75512108001245126199", "NL20INGB0001234567"


@dataclass(frozen=True)
class Line:
    """What a bank has booked. `reference` is the bank's own, which CSV files and some MT940 files lack."""

    on: date
    minor: int
    text: str
    payer: str = "Ada GmbH"
    iban: str = ADA_IBAN
    reference: str = ""
    end_to_end: str = ""
    currency: str = "EUR"

    @property
    def amount(self) -> str:
        return format_money(abs(self.minor), self.currency)


def csv_file(lines: Sequence[Line]) -> bytes:
    rows = ["booked_on,amount,currency,payer,reference\n"]
    for line in lines:
        sign = "-" if line.minor < 0 else ""
        rows.append(f'{line.on},{sign}{line.amount},{line.currency},"{line.payer}","{line.text}"\n')
    return "".join(rows).encode()


def local_csv_file(lines: Sequence[Line]) -> bytes:
    """As a German bank exports it."""
    rows = ["booked_on;amount;currency;payer;reference;payer_iban\n"]
    for line in lines:
        sign = "-" if line.minor < 0 else ""
        whole, _, decimals = line.amount.partition(".")
        amount = f"{int(whole):,}".replace(",", ".") + f",{decimals}"
        rows.append(f"{line.on:%d.%m.%Y};{sign}{amount};{line.currency};{line.payer};{line.text};{line.iban}\n")
    return "".join(rows).encode()


def camt_file(lines: Sequence[Line]) -> bytes:
    entries = "".join(map(_entry, lines))
    return (
        '<?xml version="1.0" encoding="UTF-8"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">'
        f"<BkToCstmrStmt><Stmt><Acct><Id><IBAN>{OWN}</IBAN></Id><Ccy>EUR</Ccy></Acct>{entries}</Stmt></BkToCstmrStmt>"
        "</Document>"
    ).encode()


def _entry(line: Line) -> str:
    side = "Dbtr" if line.minor > 0 else "Cdtr"
    reference = f"<AcctSvcrRef>{line.reference}</AcctSvcrRef>" if line.reference else ""
    end_to_end = f"<Refs><EndToEndId>{line.end_to_end}</EndToEndId></Refs>" if line.end_to_end else ""
    return (
        f'<Ntry><Amt Ccy="{line.currency}">{line.amount}</Amt>'
        f"<CdtDbtInd>{'CRDT' if line.minor > 0 else 'DBIT'}</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts>"
        f"<BookgDt><Dt>{line.on}</Dt></BookgDt>{reference}<NtryDtls><TxDtls>{end_to_end}<RltdPties>"
        f"<{side}><Pty><Nm>{escape(line.payer)}</Nm></Pty></{side}>"
        f"<{side}Acct><Id><IBAN>{line.iban}</IBAN></Id></{side}Acct></RltdPties>"
        f"<RmtInf><Ustrd>{escape(line.text)}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>"
    )


def mt940_file(lines: Sequence[Line]) -> bytes:
    """With upper-case names and texts that are broken after 27 characters, and without the bank's references."""
    booked = "".join(map(_mt940_line, lines))
    head = ":20:STARTUMS\n:25:37040044/0532013000\n:28C:1/1\n:60F:C260301EUR0,00\n"
    return f"{head}{booked}:62F:C260331EUR0,00\n-\n".encode()


def _mt940_line(line: Line) -> str:
    mark = "C" if line.minor > 0 else "D"
    text = f"SVWZ+{line.text}"
    parts = [text[start : start + 27] for start in range(0, len(text), 27)]
    purpose = "".join(f"?{20 + number}{part}" for number, part in enumerate(parts))
    amount = line.amount.replace(".", ",") if DECIMALS[line.currency] else f"{line.amount},"
    return (
        f":61:{line.on:%y%m%d%m%d}{mark}R{amount}N166NONREF\n"
        f":86:166?00SEPA{purpose}?31{line.iban}?32{line.payer.upper()[:27]}\n"
    )


FILES = {"csv": csv_file, "local csv": local_csv_file, "camt": camt_file, "mt940": mt940_file}
