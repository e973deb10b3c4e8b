"""The contents of a certificate, stored when the order completes. PDF, public page and JSON are made from it."""

from typing import Literal

import msgspec


class SharedUnit(msgspec.Struct, frozen=True):
    """A registry unit shared by several orders. Both values are in tonnes."""

    unit_quantity: str
    share: str


class CertificateLine(msgspec.Struct, frozen=True):
    """Quantities in tonnes and dates as `YYYY-MM-DD`, as printed."""

    registry: str
    project_id: str
    project_name: str
    country: str
    project_type: str
    methodology: str | None
    vintage: str
    serial_range: str
    quantity: str
    retired_on: str
    retirement_url: str | None
    shared: SharedUnit | None


class CertificateRecord(msgspec.Struct, frozen=True):
    number: str
    mode: Literal["live", "test"]
    order_id: str
    issued_at: str
    beneficiary: str
    issuer: str
    total_quantity: str
    verification_url: str
    lines: list[CertificateLine]
