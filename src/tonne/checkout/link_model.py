"""An offset link: a public address at which anybody may pay for an order of one account."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tonne.base.scope import Scope


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a person may choose; None where there is no bound. Values are total costs, fee and all."""

    min_quantity_grams: int | None = None
    max_quantity_grams: int | None = None
    min_value_minor: int | None = None
    max_value_minor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLink:
    scope: Scope
    id: str
    title: str
    message: str
    # The bundles on offer, as a client sends a selection; None for the account's own selection.
    bundle_selection: list[dict[str, Any]] | None
    # What the form starts with: at most one of the two, and exactly one when it cannot be edited.
    preset_quantity_grams: int | None
    preset_value_minor: int | None
    amount_editable: bool
    bounds: Bounds
    redirect_url: str | None
    redirect_label: str | None
    enabled: bool
    expires_at: datetime | None
    created_at: datetime

    def is_open(self, now: datetime) -> bool:
        return self.enabled and (self.expires_at is None or now < self.expires_at)

    def address(self, base_url: str) -> str:
        return f"{base_url}/offset/{self.id}"
