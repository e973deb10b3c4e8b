"""In whose name an order's certificate is issued, as clients send it."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.http.json_body import JsonNumber
from tonne.selling.accounts.errors import NameInvalid
from tonne.selling.accounts.organisations.open_organisation import check_name
from tonne.selling.orders.model import BeneficiaryKind


class Beneficiary(msgspec.Struct, frozen=True):
    """`is_public` matters only for persons: whether the person agreed to be named in public."""

    name: str
    kind: BeneficiaryKind = BeneficiaryKind.ORGANISATION
    is_public: bool = False


def _read_name(value: Any) -> str:
    try:
        if isinstance(value, str) and not isinstance(value, JsonNumber):
            return check_name(value)
    except NameInvalid:
        pass
    raise ValueError("expected 1 to 200 printable characters on one line, not all of them spaces")


BeneficiaryName = Annotated[
    str,
    _read_name,
    Meta(
        min_length=1,
        max_length=200,
        description="The name on the certificate. Spaces at its ends are removed.",
        examples=["Fjord Bakery AS"],
    ),
]
_KIND = Meta(
    description="`person`: the name is private. It is on the certificate, but registries do not get it and public "
    "pages do not show it.",
    examples=["organisation"],
)


class BeneficiaryIn(msgspec.Struct, forbid_unknown_fields=True):
    """In whose name the certificate is issued."""

    name: BeneficiaryName
    kind: Annotated[BeneficiaryKind, _KIND] = BeneficiaryKind.ORGANISATION

    @property
    def value(self) -> Beneficiary:
        return Beneficiary(self.name, self.kind)


class CustomerIn(msgspec.Struct, forbid_unknown_fields=True):
    """In whose name the certificate of a checkout is issued: usually a person's."""

    name: BeneficiaryName
    kind: Annotated[BeneficiaryKind, _KIND] = BeneficiaryKind.PERSON

    @property
    def value(self) -> Beneficiary:
        return Beneficiary(self.name, self.kind)


BENEFICIARY = Meta(description="In whose name the certificate is issued. Omit it for the account's beneficiary.")
