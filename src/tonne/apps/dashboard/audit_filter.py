"""The filter of the audit log's pages: the fields of a search form, kept in the address."""

from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlencode

from msgspec import Struct

from tonne.apps.dashboard.form import Form
from tonne.platform.events.audit.store import AuditFilter
from tonne.platform.http.route import Request
from tonne.platform.values.context import Mode

FIELDS = ("actor", "action", "subject", "organisation", "from", "to")
MAX_TEXT = 200


class AuditSearch(Struct, frozen=True):
    """As typed. `form` has the faults."""

    fields: dict[str, str]
    form: Form

    @classmethod
    def of(cls, request: Request) -> "AuditSearch":
        values = zip(FIELDS, request.query(*FIELDS), strict=True)
        fields = {name: (value or "").strip()[:MAX_TEXT] for name, value in values}
        form = Form({name: [value] for name, value in fields.items()})
        for name in ("from", "to"):
            _day(form, name)
        return cls(fields, form)

    @property
    def is_empty(self) -> bool:
        return not any(self.fields.values())

    @property
    def organisation_id(self) -> str | None:
        return self.fields["organisation"] or None

    def filter(self, mode: Mode | None) -> AuditFilter:
        """Days are those of UTC; the last one is included."""
        until = _day(self.form, "to")
        return AuditFilter(
            subject_id=self.fields["subject"] or None,
            action=self.fields["action"] or None,
            actor=self.fields["actor"] or None,
            mode=mode,
            since=_day(self.form, "from"),
            until=None if until is None else until + timedelta(days=1),
        )

    def query(self, **more: str) -> str:
        """For links to other pages of the same search."""
        return urlencode({name: value for name, value in {**self.fields, **more}.items() if value})


def _day(form: Form, name: str) -> datetime | None:
    text = form.value(name)
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        form.fail(name, "Enter a day, such as 2026-11-16.")
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
