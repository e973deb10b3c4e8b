"""Retirements in the API."""

from typing import Annotated

import msgspec

Tonnes = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(\.[0-9]+)?$", examples=["1.105697"])]
Day = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date"}, examples=["2026-11-15"])]


class RetirementShareOut(msgspec.Struct):
    """The share of one of your orders in a retirement, in tonnes."""

    order_id: str
    account_id: str
    beneficiary: str
    quantity: Tonnes


class RetirementOut(msgspec.Struct):
    """Credits retired at their registry. `shares` lists your organisation's; a unit may be shared with others."""

    id: str
    registry: str
    registry_project_id: str
    project_id: str
    project_name: str
    country: str
    vintage: int
    serials: str
    quantity: Tonnes
    beneficiary: str
    retired_on: Day
    retirement_url: str | None
    recorded_at: Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
    shares: list[RetirementShareOut]
