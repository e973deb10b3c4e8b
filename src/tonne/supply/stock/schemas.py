"""Types of fields that describe a retirement."""

from typing import Annotated

from msgspec import Meta

Day = Annotated[str, Meta(examples=["2026-11-15"], extra_json_schema={"format": "date"})]
RetirementUrl = Annotated[
    str | None,
    Meta(
        description="The retirement at the registry, or null.",
        examples=["https://registry.example/retirements/99"],
        extra_json_schema={"format": "uri"},
    ),
]
