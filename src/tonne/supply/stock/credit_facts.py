"""What is known of credits beyond their serials, as certificates state it. No I/O.

An order keeps the facts of the moment of its allocation, whatever the catalogue says later. What is unknown is absent,
never "no".
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.selling.catalogue.details import ProjectDetails, Rating
from tonne.supply.stock.lots.lot_facts import NO_LOT_FACTS, CreditLabel, LotFacts

_SOURCE = Annotated[
    str | None, Meta(description="Who says so. Missing: the seller.", examples=["Project description, version 2"])
]
_AS_OF = Annotated[
    str | None,
    Meta(description="The day of the source, if it is known.", examples=["2026-01-31"]),
]


class StatedText(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fact, with who says so and when."""

    value: Annotated[str, Meta(description="The fact.", examples=["removal"])]
    source: _SOURCE = None
    as_of: _AS_OF = None


class StatedNumber(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number, with who says so and when."""

    value: Annotated[int, Meta(description="The number.", examples=[1000])]
    source: _SOURCE = None
    as_of: _AS_OF = None


class StatedFlag(msgspec.Struct, frozen=True, omit_defaults=True):
    """True or false, with who says so and when."""

    value: Annotated[bool, Meta(description="Whether it is so.", examples=[False])]
    source: _SOURCE = None
    as_of: _AS_OF = None


class StatedAuthorisation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Article 6 of the Paris Agreement: what the host country has authorised."""

    value: Annotated[
        str,
        Meta(
            description="`none`; `authorised`: the host country authorised other uses than its own; `adjusted`: it has "
            "made the corresponding adjustment.",
            examples=["authorised"],
        ),
    ]
    uses: Annotated[
        list[str] | None, Meta(description="Authorised uses: `ndc`, `international`, `other`.", examples=[["other"]])
    ] = None
    source: _SOURCE = None
    as_of: _AS_OF = None


class CreditFacts(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was known of the credits when the order got them. Missing: not recorded."""

    mechanism: Annotated[StatedText | None, Meta(description="`removal`, `avoidance` or `mixed`.")] = None
    removal_percent: Annotated[StatedNumber | None, Meta(description="Of mixed credits: the part that is removed.")] = (
        None
    )
    sink: Annotated[StatedText | None, Meta(description="`biogenic`, `technological` or `hybrid`.")] = None
    methodology: Annotated[StatedText | None, Meta(description="The code of the methodology.")] = None
    methodology_version: Annotated[StatedText | None, Meta(description="Its version.")] = None
    durability_years: Annotated[StatedNumber | None, Meta(description="For how many years carbon is stored.")] = None
    reversible: Annotated[StatedFlag | None, Meta(description="Whether stored carbon may be released.")] = None
    buffer: Annotated[StatedFlag | None, Meta(description="Whether a buffer pool covers releases.")] = None
    labels: Annotated[
        list[CreditLabel] | None,
        Meta(
            description="Labels of these credits: `icvcm_ccp`; `icroa_programme`: the programme is endorsed; "
            "`corsia_first_scope` and `corsia_first_eligible` are two labels, and only with the second an airline may "
            "use them."
        ),
    ] = None
    article_6: Annotated[StatedAuthorisation | None, Meta(description="Null or missing: not recorded.")] = None
    ratings: Annotated[
        list[Rating] | None, Meta(description="Ratings by others, as they published them. Never our own.")
    ] = None
    verifier: Annotated[
        StatedText | None, Meta(description="Who verified the reductions; `as_of` is the date of the report.")
    ] = None


NO_FACTS = CreditFacts()


def compose_facts(
    mechanism: str, methodology: str | None, details: ProjectDetails, lot: LotFacts = NO_LOT_FACTS
) -> CreditFacts:
    """What the lot says counts before what its project says, each with its own source."""
    of_project = (details.facts_source, details.facts_as_of)
    of_lot = (lot.facts_source, lot.facts_as_of)
    is_of_lot = lot.mechanism is not None or lot.removal_percent is not None
    mechanism_source = of_lot if is_of_lot else of_project
    percent = lot.removal_percent if is_of_lot else details.removal_percent
    stated = "mixed" if percent is not None else lot.mechanism or mechanism
    verifier, who_says, verified_on = details.verifying_body, details.facts_source, details.verified_on
    if lot.verifying_body is not None:
        verifier, who_says, verified_on = lot.verifying_body, lot.facts_source, lot.verified_on
    return CreditFacts(
        mechanism=StatedText(stated, *mechanism_source),
        removal_percent=None if percent is None else StatedNumber(percent, *mechanism_source),
        sink=_text(details.sink, of_project),
        methodology=_text(methodology, of_project),
        methodology_version=_text(details.methodology_version, of_project),
        durability_years=None
        if details.durability_years is None
        else StatedNumber(details.durability_years, *of_project),
        reversible=_flag(details.reversible, of_project),
        buffer=_flag(details.buffer, of_project),
        labels=lot.labels,
        article_6=None
        if lot.article_6 is None
        else StatedAuthorisation(lot.article_6, lot.article_6_uses, lot.article_6_source, lot.article_6_date),
        ratings=details.ratings,
        verifier=None if verifier is None else StatedText(verifier, who_says, verified_on),
    )


def _text(value: str | None, source: tuple[str | None, str | None]) -> StatedText | None:
    return None if value is None else StatedText(value, *source)


def _flag(value: bool | None, source: tuple[str | None, str | None]) -> StatedFlag | None:
    return None if value is None else StatedFlag(value, *source)
