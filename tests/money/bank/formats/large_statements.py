"""Statements of any number of lines, in all formats. `bench` uses them too."""

from collections.abc import Callable, Mapping

_IBAN = "DE89370400440532013000"


def large_csv(count: int) -> bytes:
    """All lines have the same day and amount: nothing but their texts tells them apart."""
    lines = (f"2026-01-05,10.00,EUR,Ada {number},order {number}\n" for number in range(count))
    return f"booked_on,amount,currency,payer,reference\n{''.join(lines)}".encode()


def large_mt940(count: int) -> bytes:
    lines = (
        f":61:2601050105C10,00NTRFNONREF//B{number}\n:86:166?00GUTSCHRIFT?20order {number}?32Ada {number}\n"
        for number in range(count)
    )
    return f":20:1\n:25:{_IBAN}\n:28C:1/1\n:60F:C260101EUR0,00\n{''.join(lines)}:62F:C260131EUR0,00\n-\n".encode()


def large_camt(count: int) -> bytes:
    entries = "".join(
        f"<Ntry>{_amount('10.00')}<AcctSvcrRef>B{number}</AcctSvcrRef><NtryDtls>{_details(number)}</NtryDtls></Ntry>\n"
        for number in range(count)
    )
    return _camt(entries)


def large_batch(count: int) -> bytes:
    """One entry with many transactions."""
    details = "".join(map(_details, range(count)))
    return _camt(f"<Ntry>{_amount(f'{count}0.00')}<NtryDtls>{details}</NtryDtls></Ntry>")


def _amount(amount: str) -> str:
    return (
        f'<Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-01-05</Dt></BookgDt>'
    )


def _details(number: int) -> str:
    return (
        f'<TxDtls><Amt Ccy="EUR">10.00</Amt><RltdPties><Dbtr><Nm>Ada {number}</Nm></Dbtr></RltdPties>'
        f"<RmtInf><Ustrd>order {number}</Ustrd></RmtInf></TxDtls>"
    )


def _camt(entries: str) -> bytes:
    return (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt><Stmt><Acct><Id>'
        f"<IBAN>{_IBAN}</IBAN></Id></Acct>{entries}</Stmt></BkToCstmrStmt></Document>"
    ).encode()


LARGE: Mapping[str, Callable[[int], bytes]] = {
    "CSV": large_csv,
    "MT940": large_mt940,
    "camt.053": large_camt,
    "camt.053, one entry": large_batch,
}
