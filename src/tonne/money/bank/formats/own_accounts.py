"""Which of the seller's own accounts a statement is of."""

from collections.abc import Sequence

from tonne.money.bank.formats.statement import StatementLine, refuse
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.bank_accounts import own_account, own_ibans
from tonne.platform.settings.settings import Settings
from tonne.platform.values.iban import compact_iban, is_iban
from tonne.platform.values.replace import replace

_BANK_CODE_DIGITS, _ACCOUNT_DIGITS = 8, 10


def with_own_accounts(
    file: SheetFile, lines: Sequence[StatementLine], settings: Settings, iban: str | None
) -> list[StatementLine]:
    """The lines with the IBAN of the account that they were booked on. Raises SheetInvalid.

    `iban` is the operator's word for a file that names the account in another way, or not at all.
    """
    named = {line.own_account for line in lines}
    found = {name: _resolve(file, name, settings, iban) for name in named if name}
    return [replace(line, own_account=found.get(line.own_account) or _default(line, settings, iban)) for line in lines]


def _default(line: StatementLine, settings: Settings, iban: str | None) -> str:
    if iban is not None:
        return compact_iban(iban)
    account = own_account(settings, line.currency)
    return account.iban if account else ""


def _resolve(file: SheetFile, name: str, settings: Settings, iban: str | None) -> str:
    own = own_ibans(settings)
    given = None if iban is None else compact_iban(iban)
    if is_iban(name):
        found = compact_iban(name)
    else:
        found = next((each for each in own if _has_number(each, name)), given or "")
    if given is not None and found != given:
        refuse(file, f"the statement is of account {quoted(name)}, not of {given}: check the file and --iban.")
    if own and not found:
        refuse(file, f"the statement is of account {quoted(name)}, and it is unclear which IBAN that is: pass --iban.")
    if own and found not in own:
        refuse(
            file,
            f"the statement is of account {quoted(name)}, which is not one of your own: check the file, or add the "
            "account to TONNE_BANK_ACCOUNTS.",
        )
    return found or name


def _has_number(iban: str, name: str) -> bool:
    """Whether a national account number is that of the IBAN, such as the German 37040044/0532013000."""
    bank, _, account = name.partition("/")
    if bank.isdecimal() and account.isdecimal() and len(bank) == _BANK_CODE_DIGITS:
        return iban[4:] == bank + account.zfill(_ACCOUNT_DIGITS)
    number = "".join(filter(str.isalnum, name)).upper()
    return len(number) >= _BANK_CODE_DIGITS and iban[4:].endswith(number)
