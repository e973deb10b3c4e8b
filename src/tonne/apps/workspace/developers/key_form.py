"""Reads the form of a new API key."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from tonne.apps.dashboard.form import Form
from tonne.apps.workspace.developers.key_text import group_choices
from tonne.platform.values.context import Mode
from tonne.selling.accounts.errors import KeyRestrictionInvalid
from tonne.selling.accounts.keys.restrictions import UNRESTRICTED, KeyRestrictions, check_restrictions

# By the number of days; the empty value is never.
EXPIRIES = {"": "Never", "7": "In 7 days", "30": "In 30 days", "90": "In 90 days", "365": "In one year"}
# What most shops need. A live key expires, and may do only this, unless the person chooses otherwise.
USUAL = {
    "orders": "write",
    "estimates": "write",
    "catalogue": "read",
    "checkouts": "write",
    "certificates": "read",
    "invoices": "read",
    "account": "read",
}


class KeyForm(Struct):
    """The values of the form, as typed."""

    mode: Mode
    name: str = ""
    access: str = "all"
    chosen: Mapping[str, str] = field(default_factory=lambda: USUAL)
    accounts: str = "all"
    account_ids: Sequence[str] = ()
    default_account_id: str = ""
    networks: str = ""
    expires: str = ""

    @classmethod
    def empty(cls, mode: Mode) -> "KeyForm":
        if mode is Mode.TEST:
            return cls(mode)
        return cls(mode, access="some", expires="365")

    @classmethod
    def of(cls, mode: Mode, form: Form) -> "KeyForm":
        return cls(
            mode,
            name=form.text("name", "Enter what the key is for."),
            access=form.value("access"),
            chosen={each.group.value: form.value(f"group_{each.group}") for each in group_choices(mode)},
            accounts=form.value("accounts"),
            account_ids=[each.strip() for text in form.fields.get("account_ids", []) for each in text.split() if each],
            default_account_id=form.value("default_account_id"),
            networks=form.value("networks"),
            expires=form.value("expires"),
        )

    def restrictions(self, form: Form, now: datetime) -> KeyRestrictions:
        """Adds faults to the form."""
        permissions = None
        if self.access != "all":
            permissions = [
                f"{each.group}:{access}"
                for each in group_choices(self.mode)
                if (access := self.chosen.get(each.group, "")) in each.accesses and access
            ]
        if self.expires not in EXPIRIES:
            form.fail("expires", "Choose when the key expires.")
        if self.accounts == "some" and not self.account_ids:
            form.fail("account_ids", "Choose at least one account, or allow all accounts.")
        if form.faults:
            return UNRESTRICTED
        try:
            return check_restrictions(
                permissions,
                self.account_ids if self.accounts == "some" else None,
                self.networks.replace(",", " ").split(),
                now + timedelta(days=int(self.expires)) if self.expires else None,
                now,
            )
        except KeyRestrictionInvalid as error:
            form.fail_with(error)
            return UNRESTRICTED
