"""An offset link: a public page where anyone can pay for an order of one account."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from tonne.platform.values.context import Scope
from tonne.platform.values.language import LanguageCode

MAX_URL = 2000
# How long queries that are signed with the old secret stay valid after a rotation.
MAX_OVERLAP_S = 604_800


class LinkBeneficiary(StrEnum):
    """In whose name the certificates of a link's orders are issued."""

    ACCOUNT = "account"
    # The page asks customers for their name. Without one, the account's applies.
    CUSTOMER = "customer"


class OffsetLink(Struct, frozen=True, kw_only=True):
    scope: Scope
    id: str
    title: str
    message: str
    # The bundles on offer, in the format of the API. None: the account's default bundles.
    bundle_selection: list[dict[str, Any]] | None
    # At most one preset is set, and exactly one if the amount is not editable.
    preset_quantity_grams: int | None
    preset_value_minor: int | None
    amount_editable: bool
    # Limits; None means no limit. Values are totals, fee included.
    min_quantity_grams: int | None
    max_quantity_grams: int | None
    min_value_minor: int | None
    max_value_minor: int | None
    redirect_url: str | None
    redirect_label: str | None
    enabled: bool
    expires_at: datetime | None
    created_at: datetime
    beneficiary: LinkBeneficiary = LinkBeneficiary.ACCOUNT
    # The language for visitors whose browser names none of ours. None: the account's.
    language: LanguageCode | None = None

    @property
    def asks_for_name(self) -> bool:
        """Whether customers are asked for the name on the certificate."""
        return self.beneficiary is LinkBeneficiary.CUSTOMER

    def is_open(self, now: datetime) -> bool:
        return self.enabled and (self.expires_at is None or now < self.expires_at)

    def address(self, base_url: str) -> str:
        return f"{base_url}/offset/{self.id}"
