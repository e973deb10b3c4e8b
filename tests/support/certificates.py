"""The record of a certificate with one retirement, for tests that render it."""

from tonne.platform.values.context import Mode
from tonne.supply.certificates.record import CertificateLine, CertificateRecord, SharedUnit

VERRA = "Verra"
LINE = CertificateLine(
    registry=VERRA,
    project_id="VCS1340",
    project_name="Bale Mountains Eco-region REDD+ project",
    country="Ethiopia",
    project_type="Forest conservation",
    methodology="VM0015",
    vintage="2019",
    serial_range="VCS1340-2019 17–18",
    quantity="1.105697",
    retired_on="2026-11-09",
    retirement_url="https://registry.example.org/retirements/vcs1340-2019",
    shared=SharedUnit(unit_quantity="1", share="0.105697"),
)
RECORD = CertificateRecord(
    number="C-00000123",
    mode=Mode.LIVE,
    order_id="ord_01JCQ4W9T6X2M8",
    issued_at="2026-11-15T10:00:00.123Z",
    beneficiary="Marlowe & Finch Shipping Ltd",
    issuer="Example Offsets Ltd",
    total_quantity="1234567.105697",
    verification_url="https://tonne.example.org/certificates/Vk3jQ9xT2mB7pLw0sYdA8n",
    lines=[LINE],
)
