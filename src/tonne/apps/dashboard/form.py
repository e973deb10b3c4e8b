"""Reads the fields of a form and collects all faults, to show each beside its field."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime

from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.values.errors import TonneError


class Form:
    def __init__(self, fields: Mapping[str, list[str]] | None = None) -> None:
        self._fields = fields or {}
        # By field, in the order of the form; the empty name is the whole form.
        self.faults: dict[str, str] = {}

    @property
    def fields(self) -> Mapping[str, list[str]]:
        return self._fields

    def names(self) -> list[str]:
        return list(self._fields)

    def raw(self, name: str) -> str:
        """As typed, for passwords."""
        return (self._fields.get(name) or [""])[0]

    def value(self, name: str) -> str:
        return self.raw(name).strip()

    def is_checked(self, name: str) -> bool:
        return bool(self.raw(name))

    def text(self, name: str, missing: str, *, longest: int = 200) -> str:
        """A required text. `missing` says what to enter."""
        text = self.value(name)
        if not text:
            self.fail(name, missing)
        elif len(text) > longest:
            self.fail(name, f"Use at most {longest} characters.")
        elif not text.isprintable():
            self.fail(name, "Use one line of plain text.")
        return text

    def email(self, name: str = "email") -> str:
        email = self.value(name).lower()
        if not is_mail_address(email):
            self.fail(name, "Enter an e-mail address, such as ann@example.com.")
        return email

    def day(self, name: str) -> datetime | None:
        """The beginning of a day in UTC; None if the field is empty."""
        text = self.value(name)
        try:
            day = date.fromisoformat(text) if text else None
        except ValueError:
            day = None
        # The last day of all has no day after it.
        if text and (day is None or day == date.max):
            self.fail(name, "Enter a date such as 2026-11-16.")
            return None
        return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)

    def fail(self, name: str, message: str) -> None:
        self.faults.setdefault(name, message)

    @contextmanager
    def catch(self) -> Iterator[None]:
        """The error of a use case ends the block and becomes a fault."""
        try:
            yield
        except TonneError as error:
            self.fail_with(error)

    def fail_with(self, error: TonneError) -> None:
        """The faults of a use case. Those without a field belong to the whole form."""
        for fault in error.faults:
            self.fail(fault.field or "", fault.message)
