"""The settings of an offset link, as the form sends them. They are validated like those of the API."""

import re
from datetime import UTC, date, datetime, time
from typing import Any

from tonne.apps.dashboard.form import Form
from tonne.apps.workspace.mix import MIX, read_mix, stored_shares
from tonne.channels.checkout.links.change_link import settings_of
from tonne.channels.checkout.links.model import LinkBeneficiary, OffsetLink
from tonne.channels.checkout.links.schemas import OffsetLinkIn
from tonne.platform.http.json_body import read_values
from tonne.platform.values.amounts import parse_typed
from tonne.platform.values.errors import TonneError
from tonne.platform.web.fields import fields_of
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.selection import storable

FIELDS = fields_of(OffsetLinkIn)
_NAMES = re.compile(r"\b(?:the )?(" + "|".join(FIELDS) + r")\b", re.IGNORECASE)
_FIELDS = {"preset_quantity": "preset", "preset_value": "preset", "amount_editable": "preset", "expires_at": "expires"}
_AMOUNTS = ("min_quantity", "max_quantity", "min_value", "max_value")
# Shown and read as they are.
_PLAIN = ("redirect_url", *(field.name for field in FIELDS.values() if field.section))
_TEXTS = ("title", "message", *_AMOUNTS, *_PLAIN)
NO_PRESET, BY_QUANTITY, BY_VALUE = "none", "quantity", "value"


def form_values(link: OffsetLink | None, currency: str) -> dict[str, list[str]]:
    """The fields of a link, or of a new one."""
    if link is None:
        return {"preset_kind": [NO_PRESET], "amount_editable": ["1"], "beneficiary": [LinkBeneficiary.ACCOUNT]}
    settings = settings_of(link, currency)
    kind = BY_QUANTITY if settings.preset_quantity else BY_VALUE if settings.preset_value else NO_PRESET
    return {
        **{name: [getattr(settings, name) or ""] for name in _TEXTS},
        "preset_kind": [kind],
        "preset": [settings.preset_quantity or settings.preset_value or ""],
        "amount_editable": ["1"] if link.amount_editable else [],
        "beneficiary": [link.beneficiary],
        "language": [link.language or ""],
        "expires": ["" if link.expires_at is None else link.expires_at.astimezone(UTC).date().isoformat()],
    }


def read_link_form(form: Form, catalogue: Catalogue, old: OffsetLink | None) -> OffsetLinkIn | None:
    """None if the form has faults. A link stays open or closed as it was."""
    kind, preset = form.value("preset_kind"), _number(form, "preset")
    if kind in {BY_QUANTITY, BY_VALUE} and not preset:
        form.fail("preset", "Enter the preset amount, or choose that there is none.")
    settings: dict[str, Any] = {
        **{name: form.value(name) or None for name in _PLAIN},
        **{name: _number(form, name) for name in _AMOUNTS},
        "title": form.text("title", "Enter a title, such as “Offset your flight”."),
        "message": form.value("message").replace("\r\n", "\n"),
        "bundle_selection": _selection(form, catalogue, old),
        "preset_quantity": preset if kind == BY_QUANTITY else None,
        "preset_value": preset if kind == BY_VALUE else None,
        "amount_editable": form.is_checked("amount_editable"),
        "enabled": True if old is None else old.enabled,
        "expires_at": _expiry(form, old),
        "beneficiary": form.value("beneficiary"),
        "language": form.value("language") or None,
    }
    if form.faults:
        return None
    try:
        return read_values(settings, OffsetLinkIn)
    except TonneError as error:
        fail_link(form, error)
        return None


def fail_link(form: Form, error: TonneError) -> None:
    """The faults of the API, with the words of the form."""
    for fault in error.faults:
        name = (fault.field or "").partition("[")[0]
        field = MIX if name == "bundle_selection" else _FIELDS.get(name, name)
        message = _NAMES.sub(lambda match: FIELDS[match[1].lower()].in_sentence, fault.message)
        form.fail(field, message[:1].upper() + message[1:])


def _number(form: Form, name: str) -> str | None:
    text = form.value(name)
    if not text:
        return None
    number = parse_typed(text)
    if number is None:
        form.fail(name, "Enter a number, such as 2.5. Leave out thousands separators.")
        return None
    return f"{number:f}"


def _selection(form: Form, catalogue: Catalogue, old: OffsetLink | None) -> list[dict[str, Any]] | None:
    """None: the account's default mix. A stored selection that was not changed is kept as it is."""
    choices = read_mix(form, catalogue, is_optional=True)
    if old is not None and old.bundle_selection is not None:
        shown = stored_shares(old.bundle_selection, catalogue)
        if {choice.bundle_id: choice.percentage for choice in choices} == shown:
            return old.bundle_selection
    return storable(choices) or None


def _expiry(form: Form, old: OffsetLink | None) -> datetime | None:
    """The end of the day in UTC. A link whose day was not changed keeps its time."""
    text = form.value("expires")
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        form.fail("expires", "Enter a day, such as 2030-12-31.")
        return None
    kept = None if old is None else old.expires_at
    if kept is not None and kept.astimezone(UTC).date() == day:
        return kept
    return datetime.combine(day, time(23, 59, 59), UTC)
