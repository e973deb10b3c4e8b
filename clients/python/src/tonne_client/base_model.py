"""Models: typed views of the JSON objects that the service sends."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from inspect import get_annotations
from keyword import iskeyword
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

Convert = Callable[[Any], Any]


class Model:
    """A JSON object of the API. A field is converted to its type when it is first read.

    Fields that this version of the library does not know are in `to_dict()`.
    """

    __slots__ = ("__dict__", "_json")

    def __init__(self, json: dict[str, Any]) -> None:
        self._json = json

    def __init_subclass__(cls) -> None:
        for name in get_annotations(cls):
            setattr(cls, name, _Field(name))

    def to_dict(self) -> dict[str, Any]:
        """The JSON object as it was received. Do not change it."""
        return self._json

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._json == self._json

    # A dictionary cannot be hashed.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._json.items())
        return f"{type(self).__name__}({shown})"


class _Field:
    """Reads a field from the JSON object. Lists and models are converted once: then the result replaces the field."""

    __slots__ = ("_convert", "_is_optional", "_is_stored", "_key", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._key = wire_name(name)
        self._convert: Convert | None = None
        self._is_optional = False
        self._is_stored = False

    def __get__(self, model: Model | None, owner: type[Model]) -> Any:
        if model is None:
            return self
        convert = self._convert or self._resolve(owner)
        value = model._json.get(self._key)  # noqa: SLF001 - a part of the model
        if value is None and not self._is_optional:
            text = f"The service did not send the field {self._key!r}: it may be older than this library."
            raise AttributeError(text, name=self._name, obj=model)
        if value is None or convert is _keep:
            return value
        converted = convert(value)
        if self._is_stored:
            model.__dict__[self._name] = converted
        return converted

    def _resolve(self, owner: type[Model]) -> Convert:
        """When a field is first read: types may be defined further below in their module."""
        _, convert, self._is_optional = fields_of(owner)[self._name]
        self._is_stored = convert not in _SCALARS.values()
        self._convert = convert
        return convert


class UnknownModel(Model):
    """A member of a union that this version of the library does not know, such as a new type of event."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or name not in self._json:
                raise AttributeError(f"The service did not send the field {name!r}.", name=name, obj=self)
            return self._json[name]


Fields = dict[str, tuple[str, Convert, bool]]
_fields: dict[type[Model], Fields] = {}


def fields_of(model: type[Model]) -> Fields:
    """By attribute: the name in JSON, the conversion, and whether the field may be null or left out."""
    if model not in _fields:
        _fields[model] = _read_fields(model)
    return _fields[model]


def _read_fields(model: type[Model]) -> Fields:
    hints = {name: hint for name, hint in get_type_hints(model).items() if not name.startswith("_")}
    return {name: (wire_name(name), converter(hint), _is_optional(hint)) for name, hint in hints.items()}


def wire_name(name: str) -> str:
    """Python's keywords have an underscore at the end: `from_` is `from` in JSON."""
    return name[:-1] if name.endswith("_") and iskeyword(name[:-1]) else name


@cache
def converter(hint: Any) -> Convert:
    """The conversion of a JSON value to this type."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return _union_converter([member for member in get_args(hint) if member is not NoneType])
    if origin is list:
        item = converter(get_args(hint)[0])
        return _keep if item is _keep else lambda values: [None if value is None else item(value) for value in values]
    if origin is dict:
        entry = converter(get_args(hint)[1])
        return _keep if entry is _keep else lambda values: {key: entry(value) for key, value in values.items()}
    if isinstance(hint, type) and issubclass(hint, Model):
        return hint
    return _SCALARS.get(hint, _keep)


def _keep(value: Any) -> Any:
    return value


def _decimal(value: Any) -> Decimal:
    return Decimal(value if isinstance(value, str) else str(value))


_SCALARS: dict[Any, Convert] = {
    Decimal: _decimal,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
}


def _union_converter(members: list[Any]) -> Convert:
    if len(members) == 1:
        return converter(members[0])
    models = [member for member in members if isinstance(member, type) and issubclass(member, Model)]
    if not models:
        return _keep
    tag = _tag(models)
    if tag is not None:
        by_tag = {value: model for model in models for value in get_args(get_type_hints(model)[tag])}
        return lambda value: by_tag.get(value.get(tag), UnknownModel)(value) if isinstance(value, dict) else value
    return lambda value: _by_fields(models)(value) if isinstance(value, dict) else value


def _tag(models: list[type[Model]]) -> str | None:
    """The field that tells the members of a union apart: a literal in each of them."""
    first, *others = [get_type_hints(model) for model in models]
    for name in first:
        if all(get_origin(hints.get(name)) is Literal for hints in (first, *others)):
            return name
    return None


def _by_fields(models: list[type[Model]]) -> Convert:
    """Without a tag, the first member whose required fields are all there."""
    required = [
        (model, [key for key, _, is_optional in fields_of(model).values() if not is_optional]) for model in models
    ]

    def convert(value: dict[str, Any]) -> Model:
        chosen = next((model for model, keys in required if all(key in value for key in keys)), UnknownModel)
        return chosen(value)

    return convert


def _is_optional(hint: Any) -> bool:
    return hint is Any or (get_origin(hint) in {Union, UnionType} and NoneType in get_args(hint))
