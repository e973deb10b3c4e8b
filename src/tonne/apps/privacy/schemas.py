"""Request and response bodies of exporting and erasing a person."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.apps.privacy.export_person import PersonRecord
from tonne.apps.privacy.model import Erasure, FoundBy, Person, PersonInvalid, parse_person
from tonne.platform.http.openapi.components import JsonValues
from tonne.platform.values.context import Mode, Timestamp, to_wire

_PERSON = "One of `email` and `name` is required, not both."


class PersonIn(msgspec.Struct, forbid_unknown_fields=True):
    email: Annotated[
        Annotated[str, Meta(max_length=254)] | None,
        Meta(
            description=f"Address of the person. {_PERSON}",
            examples=["ada@example.com"],
            extra_json_schema={"format": "email"},
        ),
    ] = None
    name: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description=f"Private name on certificates. {_PERSON}", examples=["Ada Lovelace"]),
    ] = None
    account_type: Annotated[
        Mode | None, Meta(description="Only the data of this mode. Omit it for both modes.", examples=["live"])
    ] = None

    @property
    def person(self) -> Person:
        """Raises PersonInvalid."""
        if (self.email is None) == (self.name is None):
            raise PersonInvalid("Send either email or name.")
        if self.email is not None:
            person = parse_person(self.email)
            if person.found_by is not FoundBy.EMAIL:
                raise PersonInvalid("email is not an e-mail address. Send one such as ada@example.com.", field="email")
            return person
        return parse_person(self.name or "")


class PersonRecordOut(msgspec.Struct):
    type: Annotated[
        str,
        Meta(
            description="`order`, `buyer`, `event`, `certificate`, `checkout`, `estimate`, `mail`, `address_use` or "
            "`audit_entry`. New types may be added.",
            examples=["order"],
        ),
    ]
    id: Annotated[
        str | None, Meta(description="Id, or number of a certificate.", examples=["ord_06gtv1alff3htg9thvlvj59t20"])
    ]
    created_at: Annotated[Timestamp | None, Meta(description="When it was created, if that is stored.")]
    is_erasable: Annotated[bool, Meta(description="False for what an erasure leaves as it is.", examples=[True])]
    data: Annotated[
        JsonValues,
        Meta(description="What is stored. Its members depend on the type.", examples=[{"email": "ada@example.com"}]),
    ]


class PersonExportOut(msgspec.Struct):
    """Everything that is held about a person."""

    records: Annotated[list[PersonRecordOut], Meta(description="In no particular order.")]


class ErasureCountsOut(msgspec.Struct):
    orders: Annotated[int, Meta(description="Orders without the data now.", examples=[2])]
    events: Annotated[int, Meta(description="Events that were changed.", examples=[10])]
    certificates: Annotated[int, Meta(description="Certificates without the name now.", examples=[2])]
    checkouts: Annotated[int, Meta(description="Checkouts without the data now.", examples=[2])]
    estimates: Annotated[int, Meta(description="Estimates without the data now.", examples=[0])]
    mails: Annotated[int, Meta(description="Mails whose content was erased.", examples=[4])]
    refunds: Annotated[int, Meta(description="Refunds whose texts were changed.", examples=[0])]
    webhook_answers: Annotated[int, Meta(description="Stored answers of webhook receivers erased.", examples=[0])]


class ErasureOut(msgspec.Struct):
    """The record of an erasure. It does not contain the data itself."""

    id: Annotated[str, Meta(description="Id of the erasure.", examples=["era_06gtv1alff3htg9thvlvj59t20"])]
    finished_at: Annotated[Timestamp, Meta(description="When all data was erased.")]
    erased: Annotated[ErasureCountsOut, Meta(description="What was changed. All 0 if nothing was held.")]


def record_out(record: PersonRecord) -> PersonRecordOut:
    created_at = None if record.created_at is None else to_wire(record.created_at)
    return PersonRecordOut(record.kind, record.id, created_at, record.is_erasable, record.data)


def erasure_out(erasure: Erasure) -> ErasureOut:
    finished_at = erasure.finished_at or erasure.started_at
    return ErasureOut(erasure.id, to_wire(finished_at), ErasureCountsOut(**erasure.counts))
