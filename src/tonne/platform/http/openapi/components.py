"""Parts that many operations of the OpenAPI document have in common. The document has each of them once."""

from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any

import msgspec
from msgspec import Meta

SCHEMAS = "#/components/schemas/"
# An object whose members depend on what it is about.
JsonValues = dict[str, Annotated[Any, Meta(description="A JSON value.")]]


def any_of(*shapes: type) -> dict[str, Any]:
    """The schema of a value of one of these structs, which msgspec cannot describe without a field that tells them
    apart. Other parts of the document must describe the structs themselves.
    """
    return {"anyOf": [{"$ref": f"{SCHEMAS}{shape.__name__}"} for shape in shapes]}


class Components:
    """Collects parts while the document is written, then replaces those that occur more than once by references."""

    def __init__(self) -> None:
        # By kind and content: the suggested name, and the places in the document.
        self._found: dict[tuple[str, bytes], tuple[str, list[dict[str, Any]]]] = {}

    def add(self, kind: str, name: str, part: dict[str, Any]) -> dict[str, Any]:
        """The part as it is for now."""
        place = {**part}
        self._found.setdefault((kind, msgspec.json.encode(part)), (name, []))[1].append(place)
        return place

    def share(self) -> dict[str, dict[str, Any]]:
        """The shared parts by kind and name."""
        shared: dict[str, dict[str, Any]] = {}
        for (kind, _), (suggested, places) in self._found.items():
            if len(places) == 1:
                continue
            named = shared.setdefault(kind, {})
            name = next(each for each in _numbered(suggested) if each not in named)
            named[name] = {**places[0]}
            for place in places:
                place.clear()
                place["$ref"] = f"#/components/{kind}/{name}"
        return shared


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}.{number}" for number in count(2))
