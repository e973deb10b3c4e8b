"""The contents of a certificate, stored when the order completes. PDF, public page and JSON are made from it."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.db.json_compression import JsonDictionary, compress_json, decompress_json
from tonne.platform.values.context import Mode, Timestamp
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.catalogue import schemas
from tonne.selling.orders.schemas import OrderId
from tonne.supply.stock.credit_facts import CreditFacts
from tonne.supply.stock.schemas import Day, RetirementUrl


class SharedUnit(msgspec.Struct, frozen=True):
    """A registry unit that several orders share."""

    unit_quantity: Annotated[schemas.Tonnes, Meta(description="Tonnes of the whole unit.", examples=["1"])]
    share: Annotated[schemas.Tonnes, Meta(description="Tonnes that belong to this order.", examples=["0.25"])]


class RetiredInAdvance(msgspec.Struct, frozen=True):
    """Credits that the seller had retired, in its own name, before they were assigned to the order."""

    retired_by: Annotated[str, Meta(description="The seller that retired them.", examples=["Tonne"])]
    assigned_to: Annotated[str, Meta(description="To whom they were assigned.", examples=["Acme Ltd"])]
    assigned_on: Annotated[Day, Meta(description="When they were assigned to the order.")]


class Replacement(msgspec.Struct, frozen=True):
    """The certificate that this one replaces."""

    number: Annotated[str, Meta(description="Its number.", examples=["3WNC-9RTV-M2QH-7XKD"])]
    reason: Annotated[str, Meta(description="Why it was replaced.", examples=["The name was misspelt."])]


class CertificateLine(msgspec.Struct, frozen=True):
    registry: schemas.Registry
    project_id: schemas.RegistryProjectId
    project_name: schemas.ProjectName
    country: schemas.Country
    project_type: schemas.ProjectType
    methodology: schemas.Methodology
    vintage: Annotated[str, Meta(description="The year of the emission reductions.", examples=["2024"])]
    serial_range: Annotated[
        str,
        Meta(
            description="The serial as the registry writes it. A shared unit is stated as a whole.",
            examples=["9731-17-18-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0"],
        ),
    ]
    quantity: Annotated[schemas.Tonnes, Meta(description="Tonnes of this order.", examples=["1040"])]
    retired_on: Annotated[Day, Meta(description="When the registry retired them.")]
    retirement_url: RetirementUrl
    shared: Annotated[SharedUnit | None, Meta(description="Null if the credits belong to this order alone.")]
    in_advance: Annotated[
        RetiredInAdvance | None,
        Meta(description="Set if the credits were retired in advance, before they were assigned to the order."),
    ] = None
    registry_name: Annotated[
        str | None,
        Meta(
            description="The name that the registry has, if it is not the beneficiary's: registries do not get the "
            "names of persons, and keep a name that was corrected later.",
            examples=[None, "customers of Acme Ltd"],
        ),
    ] = None
    facts: Annotated[
        CreditFacts | None,
        Meta(
            description="What was known of the credits when the order got them. Later changes of the catalogue do not "
            "change it. Null if nothing was recorded."
        ),
    ] = None


class CertificateRecord(msgspec.Struct, frozen=True):
    number: Annotated[str, Meta(description="The number of the certificate.", examples=["7XKD-M2QH-9RTV-4WNC"])]
    mode: Annotated[Mode, Meta(description="Nothing is retired in test mode.", examples=["live"])]
    order_id: OrderId
    issued_at: Annotated[Timestamp, Meta(description="When the certificate was issued.")]
    beneficiary: Annotated[str, Meta(description="On whose behalf the credits are retired.", examples=["Acme Ltd"])]
    issuer: Annotated[str, Meta(description="The seller that issued the certificate.", examples=["Tonne"])]
    total_quantity: Annotated[schemas.Tonnes, Meta(description="Tonnes of CO2 equivalent.", examples=["1040"])]
    verification_url: Annotated[
        str,
        Meta(
            description="Where anybody can verify the certificate.",
            examples=["https://offsets.example.com/verify/7XKD-M2QH-9RTV-4WNC"],
            extra_json_schema={"format": "uri"},
        ),
    ]
    lines: Annotated[list[CertificateLine], Meta(description="The retired credits.")]
    replaces: Annotated[
        Replacement | None,
        Meta(description="Null for the first certificate of an order.", examples=[None]),
    ] = None
    name_erased_on: Annotated[
        Day | None,
        Meta(
            description="When the name was erased at the person's request; `beneficiary` is then `erased`. Otherwise "
            "null.",
            examples=[None],
        ),
    ] = None
    language: Annotated[
        str,
        Meta(
            description="The language of the PDF, that of the order.",
            examples=["en"],
        ),
    ] = DEFAULT_LANGUAGE
    logo: Annotated[
        str | None,
        Meta(
            description="SHA-256 of the beneficiary's logo on the PDF, in hexadecimal. Null without one.",
            examples=[None],
        ),
    ] = None
    supplied_on: Annotated[
        Day | None,
        Meta(description="The date of supply of the order."),
    ] = None


def encode_record(record: CertificateRecord) -> bytes:
    """The form in which `certificates.record` stores it: JSON, compressed."""
    return compress_json(msgspec.json.encode(record), JsonDictionary.CERTIFICATE)


def decode_record(stored: bytes) -> CertificateRecord:
    return msgspec.json.decode(decompress_json(stored), type=CertificateRecord)


class CertificateState(StrEnum):
    VALID = "valid"
    # Another certificate of the order is valid instead.
    REPLACED = "replaced"
    WITHDRAWN = "withdrawn"


class CertificateOut(CertificateRecord, frozen=True, kw_only=True):
    """A certificate as it was issued, and its current state."""

    state: Annotated[
        CertificateState,
        Meta(
            description="`valid`; `replaced` by another certificate of the order; `withdrawn`: nothing replaces it.",
            examples=["valid"],
        ),
    ]
    replaced_by: Annotated[str | None, Meta(description="The number of the new certificate.", examples=[None])]
    state_reason: Annotated[str | None, Meta(description="Why it is no longer valid. Null if it is.", examples=[None])]
    state_changed_at: Annotated[
        Timestamp | None, Meta(description="Since when it is no longer valid. Null if it is.", examples=[None])
    ]
