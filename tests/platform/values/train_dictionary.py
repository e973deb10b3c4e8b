"""Makes a dictionary of `tonne.platform.db.json_compression` from invented documents.

    python -m tests.platform.values.train_dictionary order FILE

The result depends on the version of zstd, and stored documents depend on the result: never replace the file of a
released dictionary. Train a new one when documents have got other fields, and add it as a new member.
"""

import random
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
import zstandard

from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.prices.price import OrderType, PaymentPlan
from tonne.selling.catalogue.schemas import BundleItemOut
from tonne.selling.orders.model import CancellationReason, FailureReason, OrderStatus, PaymentState, ProjectStatus
from tonne.selling.orders.schemas import BeneficiaryOut, OrderOut, ProjectItemOut
from tonne.supply.certificates.record import CertificateLine, CertificateRecord, RetiredInAdvance, SharedUnit
from tonne.supply.transparency.statements import (
    WaitingStatement,
    certificate_facts,
    certificate_names,
    compose_statement,
)
from tonne_verify.openings import StatementKind

SAMPLES = 6_000
BYTES = 4_096
_RNG = random.Random(27)  # noqa: S311 - no secrets
_ID_LETTERS = "0123456789abcdefghijklmnopqrstuv"
_NUMBER_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
# General words, no catalogue's own: the names of projects differ from installation to installation.
_WORDS = (
    *("Forest", "Wind", "Solar", "Hydro", "Biomass", "Biochar", "Landfill", "Methane", "Mangrove", "Peatland", "Soil"),
    *("Cookstoves", "Water", "River", "Valley", "Coast", "Mountain", "Community", "Power", "Plant", "Farm", "Capture"),
    *("Conservation", "Restoration", "Reforestation", "Protection", "Project", "of", "in", "and", "the", "for"),
)
_TYPES = (
    *("Reforestation", "Forest conservation", "Renewable energy", "Wind", "Solar", "Biochar", "Landfill gas"),
    *("Household devices", "Blue carbon", "Direct air capture", "Improved forest management"),
)
_COUNTRIES = ("Brazil", "India", "Kenya", "Peru", "Indonesia", "Vietnam", "Ghana", "Germany", "Mexico", "Zambia")
_RETIREMENT_FACTS = (
    *("registry", "project_id", "vintage", "serial_range", "quantity", "retired_on", "retirement_url"),
)
_HOSTS = ("https://offsets.example.com", "https://tonne.example.org", "https://carbon.example.net")


def _id(prefix: str) -> str:
    return f"{prefix}_06{''.join(_RNG.choices(_ID_LETTERS, k=24))}"


def _number() -> str:
    return "-".join("".join(_RNG.choices(_NUMBER_LETTERS, k=4)) for _ in range(4))


def _words(least: int, most: int) -> str:
    return " ".join(_RNG.choices(_WORDS, k=_RNG.randint(least, most)))


def _slug(text: str) -> str:
    return text.lower().replace(" ", "-").replace("+", "")


def _money() -> str:
    return f"{_RNG.choice((10, 100, 1_000)) * _RNG.random():.2f}"


def _tonnes() -> str:
    return _RNG.choice((f"{3 * _RNG.random():.6f}", str(_RNG.randint(1, 60)), f"{10 * _RNG.random():.2f}"))


def _day() -> str:
    return f"20{_RNG.randint(26, 31)}-{_RNG.randint(1, 12):02}-{_RNG.randint(1, 28):02}"


def _time() -> str:
    hour, minute, second = _RNG.randint(0, 23), _RNG.randint(0, 59), _RNG.randint(0, 59)
    return f"{_day()}T{hour:02}:{minute:02}:{second:02}.{_RNG.randint(0, 999):03}Z"


def _bundle(host: str) -> BundleItemOut:
    name = _words(1, 3)
    return BundleItemOut(
        bundle_id=_id("bun"),
        bundle_name=name,
        primary_image=_RNG.choice((None, f"{host}/images/bundles/{_slug(name)}.svg")),
        quantity=_tonnes(),
        unit_price=_money(),
        gross_unit_price=_money(),
        offset_cost=_money(),
        insufficient_available_quantity=_RNG.random() < 0.03,
    )


def _project(status: ProjectStatus) -> ProjectItemOut:
    name = _words(3, 8)
    return ProjectItemOut(
        project_id=_id("prj"),
        project_name=name,
        project_type=_RNG.choice(_TYPES),
        project_slug=_slug(name)[:30],
        quantity=_tonnes(),
        unit_price=_money(),
        offset_cost=_money(),
        status=status,
    )


# As often as events have them.
_STATUSES = (
    *(OrderStatus.RECEIVED, OrderStatus.PLACED, OrderStatus.PAID, OrderStatus.RETIRING, OrderStatus.COMPLETE) * 4,
    *(OrderStatus.CANCELLED, OrderStatus.FAILED),
)


def order_sample() -> bytes:
    status, host, parts = _RNG.choice(_STATUSES), _RNG.choice(_HOSTS), _RNG.choice((1, 1, 2, 2, 3))
    is_priced, is_complete = status is not OrderStatus.RECEIVED, status is OrderStatus.COMPLETE
    is_allocated = is_complete or status is OrderStatus.RETIRING
    by_quantity, at_checkout, order_id = _RNG.random() < 0.8, _RNG.random() < 0.3, _id("ord")
    key = "".join(_RNG.choices(_ID_LETTERS, k=_RNG.choice((12, 24, 36))))
    metadata = _RNG.choice((b"{}", b"{}", b'{"reference":"%d"}' % _RNG.randint(1, 99_999)))
    project_status = ProjectStatus.RETIRED if is_complete else ProjectStatus.ALLOCATED
    order = OrderOut(
        id=order_id,
        idempotency_key=_RNG.choice((key, _id("auto"))),
        type=OrderType.QUANTITY if by_quantity else OrderType.VALUE,
        status=status,
        currency=_RNG.choice(("EUR", "EUR", "USD", "GBP", "CHF")),
        offset_cost=_money() if is_priced else None,
        total_cost=_money() if is_priced else None,
        commission=_money() if is_priced else None,
        quantity=_tonnes() if is_priced else None,
        payment_method=_RNG.choice(list(PaymentMethod)),
        created_at=_time(),
        bundles=[_bundle(host) for _ in range(parts)] if is_priced else [],
        projects=[_project(project_status) for _ in range(parts)] if is_allocated else [],
        certificate=f"{host}/v1/orders/{order_id}/certificate" if is_complete else None,
        public_certificate_url=f"{host}/certificates/{_number()}" if is_complete else None,
        metadata=msgspec.Raw(metadata),
        offset_link_id=_id("lnk") if at_checkout else None,
        email=f"{_slug(_words(1, 1))}@example.org" if at_checkout else None,
        estimate_id=_id("est") if by_quantity and not at_checkout else None,
        requested_value=None if by_quantity else _money(),
        requested_quantity=_tonnes() if by_quantity else None,
        payment_plan=PaymentPlan.NOW,
        payment_state=_RNG.choice((PaymentState.UNPAID, PaymentState.PAID)),
        tax=_RNG.choice(("0.00", _money())) if is_priced else None,
        billing_adjustment="0.00" if is_priced else None,
        amount_due=_money() if is_priced else None,
        refunded_amount="0.00",
        failure_reason=_RNG.choice(list(FailureReason)) if status is OrderStatus.FAILED else None,
        cancellation_reason=_RNG.choice(list(CancellationReason)) if status is OrderStatus.CANCELLED else None,
        beneficiary=BeneficiaryOut(f"{_words(1, 2)} Ltd"),
    )
    return msgspec.json.encode(order)


def certificate_sample() -> bytes:
    number, host, issued_at = _number(), _RNG.choice(_HOSTS), _time()
    mode = _RNG.choice((Mode.LIVE, Mode.LIVE, Mode.TEST))
    if mode is Mode.TEST:
        number = f"TEST-{number}"
    beneficiary = f"{_words(1, 2)} Ltd"
    record = CertificateRecord(
        number=number,
        mode=mode,
        order_id=_id("ord"),
        issued_at=issued_at,
        beneficiary=beneficiary,
        issuer=f"{_words(1, 2)} Ltd",
        total_quantity=_tonnes(),
        verification_url=f"{host}/verify/{number}",
        lines=[_line(host, beneficiary, issued_at[:10]) for _ in range(_RNG.choice((1, 2, 2, 3)))],
    )
    return msgspec.json.encode(record)


def _line(host: str, beneficiary: str, issued_on: str) -> CertificateLine:
    registry, short = _RNG.choice((("Verra", "VCS"), ("Gold Standard", "GS"), ("Puro.earth", "PURO"), ("ACR", "ACR")))
    project_id, vintage = f"{short}{_RNG.randint(100, 9_999)}", str(_RNG.randint(2016, 2030))
    first, quantity = _RNG.randint(1, 999_999), _tonnes()
    in_advance = RetiredInAdvance(retired_by="Tonne", assigned_to=beneficiary, assigned_on=issued_on)
    return CertificateLine(
        registry=registry,
        project_id=project_id,
        project_name=_words(3, 8),
        country=_RNG.choice(_COUNTRIES),
        project_type=_RNG.choice(_TYPES),
        methodology=_RNG.choice(("VM0007", "VM0015", "VM0047", "ACM0002", "AMS-II.G.", "VMR0006", None)),
        vintage=vintage,
        serial_range=_RNG.choice((f"{project_id}-{vintage} {first}", f"{project_id}-{vintage} {first}–{first + 9}")),
        quantity=quantity,
        retired_on=issued_on,
        retirement_url=_RNG.choice((None, None, f"{host}/retirements/{first}")),
        shared=_RNG.choice((None, SharedUnit(unit_quantity="1", share=quantity))),
        in_advance=in_advance if _RNG.random() < 0.2 else None,
        registry_name=f"customers of {beneficiary}" if _RNG.random() < 0.1 else None,
    )


def statement_sample() -> bytes:
    """As many retirements as certificates."""
    record = msgspec.json.decode(certificate_sample())
    at = datetime.fromisoformat(record["issued_at"])
    if _RNG.random() < 0.5:
        waiting = WaitingStatement(1, record["mode"], StatementKind.ISSUED, record["number"], 1, at, None)
        return compose_statement(waiting, certificate_facts(record), certificate_names(record)).statement
    facts = {name: record["lines"][0][name] for name in _RETIREMENT_FACTS}
    waiting = WaitingStatement(1, record["mode"], StatementKind.RETIREMENT, _id("par"), 1, at, None)
    return compose_statement(waiting, facts, None).statement


KINDS: dict[str, Callable[[], bytes]] = {
    "order": order_sample,
    "certificate": certificate_sample,
    "statement": statement_sample,
}


def main(kind: str, file: str) -> None:
    samples: list[bytes | bytearray | memoryview] = [KINDS[kind]() for _ in range(SAMPLES)]
    Path(file).write_bytes(zstandard.train_dictionary(BYTES, samples, level=3).as_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
