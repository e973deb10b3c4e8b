"""JSON request bodies: strict decoding, and validation that reports every error of a body with its path."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from functools import partial
from typing import Annotated, Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from tonne.platform.http.validation_text import validation_text
from tonne.platform.values.amounts import parse_decimal
from tonne.platform.values.errors import Fault, Invalid

MAX_DEPTH = 32
MAX_NAME = 100
# What one body may cost. More values are refused before they are decoded, longer lists before their items are read. A
# small body may contain as many values as fit: metadata alone may be 16 KiB of any JSON.
SMALL_BYTES = 32 * 1024
MAX_VALUES = 5_000
# Of a batch, which is decoded in a thread.
MAX_BATCH_VALUES = 50_000
MAX_ITEMS = 1_000
# Reading stops at this many faults. Only the first unknown names are compared with the known ones.
MAX_FAULTS = 20
MAX_SUGGESTIONS = 5
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NOT_LETTERS = re.compile(r"[^A-Za-z0-9]")
_UNSAFE = re.compile("[\x00\ud800-\udfff]")

T = TypeVar("T", bound=msgspec.Struct)


class JsonNumber(str):
    """A number as it was written: no digit is lost, and a huge number costs nothing."""

    __slots__ = ()


class _JsonInvalid(ValueError):
    """The JSON text as a whole is invalid."""


class _TooManyFaults(Exception):
    """Reading stops."""


class Document:
    """A decoded body, which is an object, and its bytes."""

    def __init__(self, raw: bytes, members: dict[str, Any]) -> None:
        self.raw = raw
        self.members = members

    def add_idempotency_key(self, key: str) -> None:
        """Add the key of the header to the body. Raises Invalid if the body has another one."""
        name = "idempotency_key"
        found = self.members.get(name)
        if found is not None and found != key:
            raise _invalid(f"The {name} of the body and the Idempotency-Key header differ. Send one of them.", name)
        if found is None:
            rest = msgspec.json.decode(self.raw, type=dict[str, msgspec.Raw])
            rest.pop(name, None)
            self.raw = msgspec.json.encode({name: key, **rest})
            self.members[name] = key

    def add_default_key(self, key: str | None) -> None:
        """The key of an item of a batch, unless it has one of its own."""
        if key is not None and self.members.get("idempotency_key") is None:
            self.add_idempotency_key(key)

    def raw_member(self, name: str) -> str | None:
        """One member exactly as it was sent, with its key order and its spelling of numbers."""
        if self.members.get(name) is None:
            return None
        return bytes(msgspec.json.decode(self.raw, type=dict[str, msgspec.Raw])[name]).decode()


def decode_json(raw: bytes, max_values: int = MAX_VALUES) -> Document:
    value = _decode(raw, max_values)
    if not isinstance(value, dict):
        raise _invalid("The body must be a JSON object.")
    return Document(raw, value)


def decode_json_array(raw: bytes, max_values: int = MAX_VALUES) -> list[Any]:
    value = _decode(raw, max_values)
    if not isinstance(value, list):
        raise _invalid("The body must be a JSON array.")
    return value


def _decode(raw: bytes, max_values: int) -> Any:
    """Refuses what JSON parsers treat differently: duplicate keys, NaN, NUL, lone surrogates, deep nesting."""
    # Every value but the first follows one of these. Those in strings count too, but no text is that long.
    if len(raw) > SMALL_BYTES and raw.count(b",") + raw.count(b"[") + raw.count(b"{") > max_values:
        raise _invalid(f"The body has too many values. Send at most {max_values:,}.")
    try:
        value = _DECODER.decode(raw.decode("utf-8"))
        # UTF-8 has no surrogates, and the decoder refuses control characters: only escapes can contain them.
        if b"\\u" in raw or raw.count(b"{") + raw.count(b"[") >= MAX_DEPTH:
            _check_strings_and_depth(value)
    except UnicodeDecodeError as error:
        raise _invalid("The body is not valid UTF-8.") from error
    except RecursionError as error:
        raise _invalid(f"The body is nested deeper than {MAX_DEPTH} levels.") from error
    except json.JSONDecodeError as error:
        raise _invalid(
            f"The body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except _JsonInvalid as error:
        raise _invalid(str(error)) from error
    return value


def read(document: Document, shape: type[T]) -> T:
    """The body as `shape`. Raises Invalid with one fault for every invalid member."""
    with _faults() as faults:
        return _read_struct(shape, document.members, "", faults)  # type: ignore[no-any-return]


def read_values(values: dict[str, Any], shape: type[T]) -> T:
    """Values of a form or of options, validated like the members of a body."""
    _check_text(values)
    return read(Document(b"", values), shape)


def read_some(values: dict[str, Any], shape: type[msgspec.Struct]) -> dict[str, Any]:
    """The given members alone, for a change: typed values by field. Null means the default."""
    _check_text(values)
    found: dict[str, Any] = {}
    with _faults() as faults:
        for name, _, required, reading in _fields(shape).readings:
            value = values.get(name)
            if value is not None:
                found[name] = _read_value(reading, value, name, faults)
            elif name in values and required:
                _note(faults, f"{name} is required.", name)
            elif name in values:
                found[name] = _fields(shape).defaults[name]
    return found


def _check_text(values: dict[str, Any]) -> None:
    try:
        _check_strings_and_depth(values)
    except _JsonInvalid as error:
        raise _invalid(str(error)) from error


def read_items(values: Sequence[Any], shape: type[T], max_items: int) -> list[T]:
    """The items of a body that is an array. Raises Invalid with one fault for every invalid member."""
    if len(values) > max_items:
        raise _invalid(f"The array has {len(values)} items. Send at most {max_items}.")
    with _faults() as faults:
        return [_read_struct(shape, value, f"[{i}]", faults) for i, value in enumerate(values)]


@contextmanager
def _faults() -> Iterator[list[Fault]]:
    """Raises Invalid at the end if there are any."""
    faults: list[Fault] = []
    try:
        yield faults
    except _TooManyFaults:
        faults.append(Fault("validation_error", "The body may have more errors: correct these first."))
    if faults:
        raise Invalid(faults)


def _note(faults: list[Fault], message: str, field: str, code: str = "validation_error") -> None:
    """A hostile body must cost little, and get no response that is larger than itself."""
    faults.append(Fault(code, message, field))
    if len(faults) >= MAX_FAULTS:
        raise _TooManyFaults


def _invalid(message: str, field: str | None = None) -> Invalid:
    return Invalid([Fault("validation_error", message, field)])


def _refuse_constant(name: str) -> NoReturn:
    raise _JsonInvalid(f"The body is not valid JSON: {name} is not a JSON number.")


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a repeated name. Takes linear time: a hostile body has tens of thousands of names."""
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise _JsonInvalid(f"The body contains the key {json.dumps(twice[:MAX_NAME])} twice in one object.")
    return members


_DECODER = json.JSONDecoder(
    object_pairs_hook=unique_members, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=_refuse_constant
)


def _check_strings_and_depth(root: Any) -> None:
    level: list[Any] = [root]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str) and not (value.isascii() and "\x00" not in value) and _UNSAFE.search(value):
                raise _JsonInvalid("The body contains a string with a NUL character or a lone surrogate.")
        if not below:
            return
        level = below
    raise _JsonInvalid(f"The body is nested deeper than {MAX_DEPTH} levels.")


class _Reading(msgspec.Struct, frozen=True):
    """How a value with this type hint is read, found out once. `reader` reads what is no struct and no list.

    A list with a validator of its own is only passed to that.
    """

    hint: Any
    struct: type[msgspec.Struct] | None
    item: "_Reading | None"
    max_items: int
    reader: Callable[[Any], Any]


class _Fields(msgspec.Struct, frozen=True):
    known: frozenset[str]
    # The name of each field in Python and in JSON, whether it is required, and how it is read.
    readings: Sequence[tuple[str, str, bool, _Reading]]
    defaults: dict[str, Any]


_FIELDS: dict[type, _Fields] = {}


def _fields(shape: type[msgspec.Struct]) -> _Fields:
    fields = _FIELDS.get(shape)
    if fields is None:
        hints = get_type_hints(shape, include_extras=True)
        found = msgspec.structs.fields(shape)
        fields = _FIELDS[shape] = _Fields(
            frozenset(field.encode_name for field in found),
            [
                (field.name, field.encode_name, field.required, _reading(_without_none(hints[field.name])))
                for field in found
            ],
            {field.name: field.default for field in found},
        )
    return fields


def _reading(hint: Any) -> _Reading:
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    is_class = isinstance(plain, type)
    reader = _validator(hint) or _READERS.get(plain)
    if is_class and issubclass(plain, Enum):
        reader = partial(_read_enum, {option.value: option for option in plain})
    return _Reading(
        hint,
        struct=plain if is_class and issubclass(plain, msgspec.Struct) else None,
        item=_reading(get_args(plain)[0]) if get_origin(plain) is list and not _validator(hint) else None,
        max_items=next((extra.max_length for extra in get_args(hint)[1:] if _limits_length(extra)), MAX_ITEMS),
        reader=reader or partial(_convert, hint),
    )


def _without_none(hint: Any) -> Any:
    """`X | None` means that a member may be omitted or null; any other value must be an X."""
    union, *extras = get_args(hint) if get_origin(hint) is Annotated else [hint]
    options = [option for option in get_args(union) if option is not type(None)]
    if type(None) in get_args(union) and len(options) == 1:
        return Annotated[(options[0], *extras)] if extras else options[0]
    return hint


def _read_struct(shape: type[msgspec.Struct], value: Any, path: str, faults: list[Fault]) -> Any:
    if not isinstance(value, dict):
        _note(faults, f"{path} must be an object.", path)
        return None
    fields, before = _fields(shape), len(faults)
    if not fields.known.issuperset(value):
        for name in value:
            if name not in fields.known:
                _note_unknown(name, fields.known, path, faults)
    found: dict[str, Any] = {}
    for name, encoded, required, reading in fields.readings:
        member = value.get(encoded)
        if member is None and not required:
            continue
        there = f"{path}.{encoded}" if path else encoded
        if member is None:
            _note(faults, f"{there} is required.", there)
        else:
            found[name] = _read_value(reading, member, there, faults)
    return None if len(faults) > before else shape(**found)


def _note_unknown(name: str, known: Collection[str], path: str, faults: list[Fault]) -> None:
    shown = name[:MAX_NAME]
    there = f"{path}.{shown}" if path else shown
    advice = did_you_mean(shown, known) if len(faults) < MAX_SUGGESTIONS else "Remove it, or correct its name."
    _note(faults, f"Unknown field {there}. {advice}", there)


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "Remove it.") -> str:
    """Advice about a name that is not known; `otherwise` if it resembles none."""
    letters = _NOT_LETTERS.sub("", name).lower()
    meant = [each for each in known if each.replace("_", "") == letters] or get_close_matches(name, known, 1)
    return f"Did you mean {meant[0]}?" if meant else otherwise


def _read_value(reading: _Reading, value: Any, path: str, faults: list[Fault]) -> Any:
    if reading.struct is not None:
        return _read_struct(reading.struct, value, path, faults)
    if reading.item is not None and isinstance(value, list):
        return _read_list(reading.item, value, reading.max_items, path, faults)
    try:
        return reading.reader(value)
    except Invalid as error:
        # A validator of an object names the members.
        for fault in error.faults:
            _note(faults, fault.message, f"{path}.{fault.field}", fault.error_code)
        return None
    except msgspec.ValidationError as error:
        words = validation_text(error, reading.hint)
    except ValueError as error:
        words = str(error)
    _note(faults, f"{path} is not valid: {words}.", path)
    return None


def _read_list(item: _Reading, values: list[Any], max_items: int, path: str, faults: list[Fault]) -> list[Any]:
    if len(values) > max_items:
        _note(faults, f"{path} has {len(values)} items. Send at most {max_items}.", path)
        return []
    return [_read_value(item, value, f"{path}[{i}]", faults) for i, value in enumerate(values)]


def _limits_length(extra: Any) -> bool:
    return isinstance(extra, msgspec.Meta) and extra.max_length is not None


def _validator(hint: Any) -> Callable[[Any], Any] | None:
    """A function among a field's annotations is its validator."""
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((extra for extra in extras if callable(extra)), None)


def _convert(hint: Any, value: Any) -> Any:
    if isinstance(value, JsonNumber):
        # Only the type of a fraction matters, for the error: no field is a float.
        value = int(value) if _WHOLE.fullmatch(value) else Decimal("0.5")
    return msgspec.convert(value, hint)


def _read_enum(options: dict[str, Enum], value: Any) -> Enum:
    found = options.get(value) if isinstance(value, str) and not isinstance(value, JsonNumber) else None
    if found is None:
        raise ValueError(f"expected one of {', '.join(options)}")
    return found


def _read_decimal(value: Any) -> Decimal:
    """Decimals may be strings or numbers; both are parsed without floating point."""
    number = parse_decimal(value) if isinstance(value, str) else None
    if number is None:
        if isinstance(value, str) and value.startswith("-"):
            raise ValueError("expected a positive number")
        raise ValueError(
            "expected a decimal such as 1.105697, at most 15 digits before the point and 12 after, no exponent"
        )
    return number


def _read_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("expected an object")  # noqa: TRY004 - an error of the body, not of our code
    return value


_READERS: dict[Any, Callable[[Any], Any]] = {
    Decimal: _read_decimal,
    dict[str, Any]: _read_object,
    Any: lambda value: value,
}
