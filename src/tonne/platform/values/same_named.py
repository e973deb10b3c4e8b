"""Copies the fields that two structs have under the same name."""

from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def same_named(target: type[T], source: object, /, **others: Any) -> T:
    """A `target` whose fields have the values of the attributes of `source` with the same names, except for `others`.

    Fields that neither has keep their default, so a new field that is passed on as it is needs no further line.
    """
    names = [name for name in target.__struct_fields__ if name not in others and hasattr(source, name)]
    return target(**{name: getattr(source, name) for name in names}, **others)
