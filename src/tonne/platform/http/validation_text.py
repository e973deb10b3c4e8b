"""What is wrong with a value of a body, in the words of JSON instead of those of Python."""

import re
from typing import Annotated, Any, get_args, get_origin

import msgspec

_TYPES = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number with decimals",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_GOT = re.compile(r"Expected `([a-z |]+)`, got `([a-z]+)`")
_LENGTH = re.compile(r"Expected `(str|array)` of length ([<>]=) ([0-9]+)")
_RANGE = re.compile(r"Expected `(?:int|float)` ([<>]=?) ([-0-9.]+)")
_PATTERN = re.compile(r"Expected `str` matching regex '(.+)'", re.DOTALL)
_COMPARISONS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def validation_text(error: msgspec.ValidationError, hint: Any) -> str:
    """After "… is not valid: ". `hint` is the type of the field, whose examples are shown."""
    text = str(error)
    if found := _PATTERN.match(text):
        example = _example(hint)
        such_as = "" if example is None else f" such as {example},"
        return f"expected a string{such_as} that matches {found[1]}"
    if found := _LENGTH.match(text):
        what, compared, length = found.groups()
        unit = "character" if what == "str" else "item"
        return f"expected {_COMPARISONS[compared]} {length} {unit}{'' if length == '1' else 's'}"
    if found := _RANGE.match(text):
        return f"expected a number of {_COMPARISONS[found[1]]} {found[2].removesuffix('.0')}"
    if found := _GOT.match(text):
        expected = " or ".join(_TYPES.get(name, name) for name in found[1].split(" | ") if name != "null")
        return f"expected {expected}, not {_TYPES.get(found[2], found[2])}"
    return text


def _example(hint: Any) -> str | None:
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    for extra in extras:
        for example in (isinstance(extra, msgspec.Meta) and extra.examples) or ():
            if isinstance(example, str):
                return example
    return None
