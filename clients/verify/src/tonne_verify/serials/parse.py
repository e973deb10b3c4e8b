"""Reads the serials of a registry."""

import re
from collections.abc import Mapping
from functools import lru_cache

from tonne_verify.serials.grammars import GRAMMARS
from tonne_verify.serials.spelling import cleaned, plain_spelling, registry_id
from tonne_verify.serials.units import TONNE_GRAMS, SerialError, UnitRange

# Units that a demo or a test made up: no registry can find them, and they are no other units.
_DEMO = "TEST-LIVE-"
_MADE_UP = re.compile(rf"{_DEMO}|TEST-")
# A block, and its numbers behind a space: `9731-VCS 101–590`.
_PLAIN = re.compile(r"(?P<block>.+?) (?P<first>[0-9]{1,15})(?:(?: ?[–-] ?| to )(?P<last>[0-9]{1,15}))?")


def has_grammar(registry: str) -> bool:
    return registry_id(registry) in GRAMMARS


def is_made_up(registry: str, units: UnitRange) -> bool:
    """Whether no registry has them, and they are not those of the live mode of a demo either."""
    mark = _MADE_UP.match(units.before.upper())
    return (mark is not None and mark[0] != _DEMO) or (units.grammar == "plain" and has_grammar(registry))


def is_of_demo(units: UnitRange) -> bool:
    """Whether they were made up for the live mode of a demo."""
    return units.before.upper().startswith(_DEMO)


def parse(registry: str, text: str, *, unit_grams: int = TONNE_GRAMS) -> UnitRange:
    """Raises SerialError. `unit_grams` counts only if the form of the serial does not say it."""
    id_ = registry_id(registry)
    units = _read_known(id_, text)
    if units is not None:
        return units
    if id_ not in GRAMMARS:
        _refuse_known(dict.fromkeys(reversed(GRAMMARS), text))
    if id_ not in GRAMMARS or _is_made_up(text):
        return _read_plain(id_, text, unit_grams)
    if cleaned(text).upper().endswith("-O"):
        raise SerialError(f"“{text}” ends with the letter O: write 0.")
    example = GRAMMARS[id_][0].example
    raise SerialError(f"“{text}” is not a serial of {registry}: copy the whole serial from the registry: {example}.")


def parse_block(registry: str, block: str, first: int, last: int, *, unit_grams: int = TONNE_GRAMS) -> UnitRange:
    """Of a serial whose numbers are written apart from the rest of it. Raises SerialError."""
    id_ = registry_id(registry)
    plain = f"{block} {first}–{last}"
    if id_ in GRAMMARS:
        text = _assembled(id_, block, first, last)
        if _read_known(id_, text) is not None or not _is_made_up(block):
            return parse(registry, text, unit_grams=unit_grams)
    else:
        _refuse_known({other: _assembled(other, block, first, last) for other in reversed(GRAMMARS)})
    units = _read_plain(id_, plain, unit_grams)
    one = units.part(last, last)
    if units.last != last or _read_plain(id_, one.text, unit_grams) != one:
        raise SerialError(f"the block “{block}” ends like a range of numbers: write only what is before the number.")
    return units


@lru_cache(maxsize=4096)
def stored_units(registry: str, text: str, unit_grams: int) -> UnitRange:
    """Of a serial that was parsed before. Cached, because many parcels are printed with the serial of one lot."""
    return parse(registry, text, unit_grams=unit_grams)


def _refuse_known(texts: Mapping[str, str]) -> None:
    """A serial under another name than that of its registry would be other units, of another size. By registry."""
    for id_, text in texts.items():
        if _read_known(id_, text) is not None:
            raise SerialError(f"“{text}” is a serial of {id_}: enter that as the registry.")


def _is_made_up(text: str) -> bool:
    return _MADE_UP.match(cleaned(text).upper()) is not None


def _read_known(id_: str, text: str) -> UnitRange | None:
    spelt = cleaned(text).upper()
    made_up = _MADE_UP.match(spelt)
    mark = made_up[0] if made_up else ""
    for grammar in GRAMMARS.get(id_, ()):
        units = grammar.read(spelt[len(mark) :])
        if units is not None:
            return units._replace(namespace=mark.replace("-", " ") + units.namespace, before=mark + units.before)
    return None


def _read_plain(id_: str, text: str, unit_grams: int) -> UnitRange:
    found = _PLAIN.fullmatch(text.strip())
    block = found["block"].strip() if found else ""
    spelling = plain_spelling(block)
    if found is None or not any(character.isalnum() for character in spelling):
        raise SerialError(f"“{text}” is not a block with numbers: write them as BLOCK 101–200.")
    first, last = int(found["first"]), int(found["last"] or found["first"])
    if last < first:
        raise SerialError(f"the last number {last} is below the first number {first}: swap or correct the two.")
    return UnitRange("plain", f"{id_} {spelling}", first, last, unit_grams, f"{block} ", "–")


def _assembled(id_: str, block: str, first: int, last: int) -> str:
    """The numbers where the registry writes them."""
    parts = cleaned(block).rstrip("-_ ").split("-")
    place = {"VERRA": 1, "PLANVIVO": 6}.get(id_, len(parts)) + parts.count("TEST") + parts.count("LIVE")
    if id_ == "CERCARBONO":
        return f"{'-'.join(parts)} from {first} to {last}"
    if id_ == "PURO":
        return f"{'-'.join(parts)}_{first}-{last}"
    numbers = {
        "ACR": f"{first} to {last}",
        "CAR": f"{first} to {last}",
        "BIOCARBON": f"{first:07}-{last:07}",
    }.get(id_, f"{first}-{last}")
    return "-".join([*parts[:place], numbers, *parts[place:]])
