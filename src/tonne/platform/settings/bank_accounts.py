"""The seller's own bank accounts: one for all currencies, and others for single currencies."""

import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.iban import compact_iban, is_iban

_ENTRY = re.compile(
    r"(?P<currency>[A-Z]{3})\s*=\s*(?P<iban>[^/]+?)\s*(?:/\s*(?P<bic>[A-Z0-9]{8}(?:[A-Z0-9]{3})?))?", re.ASCII
)


class OwnAccount(NamedTuple):
    iban: str
    bic: str


class _BankSettings(Protocol):
    @property
    def bank_iban(self) -> str: ...
    @property
    def bank_bic(self) -> str: ...
    @property
    def bank_accounts(self) -> str: ...


def parse_bank_accounts(text: str) -> dict[str, OwnAccount]:
    """Entries such as `CHF=CH93 0076 2011 6238 5295 7/POFICHBEXXX`, separated by commas. Raises ValueError."""
    accounts = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        found = _ENTRY.fullmatch(entry)
        if found is None:
            raise ValueError(f"{entry!r} is not CURRENCY=IBAN or CURRENCY=IBAN/BIC")
        currency, iban = found["currency"], compact_iban(found["iban"])
        if currency not in DECIMALS:
            raise ValueError(f"{currency} is not a currency")
        if not is_iban(iban):
            raise ValueError(f"{found['iban']} is not a valid IBAN: its check digits are wrong")
        if currency in accounts:
            raise ValueError(f"{currency} has two accounts")
        accounts[currency] = OwnAccount(iban, found["bic"] or "")
    return accounts


def own_account(settings: _BankSettings, currency: str) -> OwnAccount | None:
    """The account to which invoices in `currency` are paid; None if none is set."""
    accounts = parse_bank_accounts(settings.bank_accounts)
    if currency in accounts:
        return accounts[currency]
    return OwnAccount(compact_iban(settings.bank_iban), settings.bank_bic) if settings.bank_iban else None


def own_ibans(settings: _BankSettings) -> set[str]:
    accounts: Mapping[str, OwnAccount] = parse_bank_accounts(settings.bank_accounts)
    default = {compact_iban(settings.bank_iban)} if settings.bank_iban else set()
    return {account.iban for account in accounts.values()} | default
