"""Check values against the types of Stripe's SDK, so that fakes respond as Stripe does."""

import builtins
import functools
import sys
import types
import typing
from decimal import Decimal
from typing import Any, ForwardRef, Literal, NotRequired, Required, Union

import stripe
from stripe._request_options import RequestOptions
from stripe._stripe_object import UntypedStripeObject
from typing_extensions import is_typeddict  # used by the SDK

_PLAIN = (str, int, bool, float)
# Request options, and fields that only deleted objects have.
_NO_FIELDS = {*RequestOptions.__annotations__, "deleted"}


class _Names(dict[str, Any]):
    """Resolve names that the SDK imports for type checkers only; `CardResource` is an alias of Card."""

    def __missing__(self, name: str) -> Any:
        return getattr(stripe, name.removesuffix("Resource"))


def misfits(value: Any, hint: Any, where: str = "", *, is_form: bool = False) -> list[str]:
    """The mismatches, by path. `is_form`: numbers and booleans are text."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {NotRequired, Required}:
        return misfits(value, arguments[0], where, is_form=is_form)
    if origin in {Union, types.UnionType}:
        # The SDK allows any text next to a list of literals, for future values. Only the literals are accepted here.
        has_words = any(typing.get_origin(branch) is Literal for branch in arguments)
        branches = [branch for branch in arguments if not (has_words and branch is str)]
        return min((misfits(value, branch, where, is_form=is_form) for branch in branches), key=len)
    if origin in {list, dict, UntypedStripeObject}:
        return _misfits_of_many(value, origin, arguments[-1], where, is_form=is_form)
    if isinstance(hint, type) and (is_typeddict(hint) or issubclass(hint, stripe.StripeObject)):
        return _misfits_of_object(value, hint, where, is_form=is_form)
    fits = value in arguments if origin is Literal else _is_plain(value, hint, is_form=is_form)
    return [] if fits else [f"{where}: {value!r} is not {hint}"]


def _misfits_of_many(value: Any, origin: Any, kind: Any, where: str, *, is_form: bool) -> list[str]:
    if not isinstance(value, list if origin is list else dict):
        return [f"{where}: {value!r} is not a {origin.__name__}"]
    items = enumerate(value) if isinstance(value, list) else value.items()
    return [fault for name, item in items for fault in misfits(item, kind, f"{where}.{name}", is_form=is_form)]


def _is_plain(value: Any, hint: Any, *, is_form: bool) -> bool:
    if hint is type(None):
        return value is None
    if hint is Any or hint is object:
        return True
    if is_form and isinstance(value, str):
        return {int: value.isdigit(), bool: value in {"true", "false"}, Decimal: True, str: True}.get(hint, False)
    return hint in _PLAIN and type(value) is hint


def _misfits_of_object(value: Any, kind: type, where: str, *, is_form: bool) -> list[str]:
    """Unknown names, wrong types and missing required values."""
    if not isinstance(value, dict):
        return [f"{where}: not an object"]
    known = fields_of(kind)
    faults = [f"{where}.{name}: unknown" for name in value if name not in known]
    for name, hint in known.items():
        if name in value:
            faults += misfits(value[name], hint, f"{where}.{name}", is_form=is_form)
        elif not is_typeddict(kind) and not _may_be_missing(hint):
            faults.append(f"{where}.{name}: missing")
    return faults


def _may_be_missing(hint: Any) -> bool:
    return typing.get_origin(hint) is NotRequired or type(None) in typing.get_args(hint)


@functools.cache
def fields_of(kind: type) -> dict[str, Any]:
    """Names and types, without the internal state of the SDK."""
    found: dict[str, Any] = {}
    for part in kind.__mro__:
        if part in {object, dict, stripe.StripeObject, stripe.APIResource}:
            continue
        for name, hint in vars(part).get("__annotations__", {}).items():
            if name.islower() and not name.startswith("_") and name not in _NO_FIELDS:
                found.setdefault(name, _resolved(hint, part))
    return found


def _resolved(hint: Any, kind: type) -> Any:
    if isinstance(hint, str):
        hint = ForwardRef(hint)
    if isinstance(hint, ForwardRef):
        names = _Names({**vars(builtins), **vars(typing), **vars(sys.modules[kind.__module__]), **vars(kind)})
        return _resolved(eval(hint.__forward_arg__, {}, names), kind)  # noqa: S307 - of an installed library
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if not arguments or origin is Literal:
        return hint
    parts = tuple(_resolved(argument, kind) for argument in arguments)
    if origin is types.UnionType:
        return Union[parts]  # noqa: UP007 - made at run time
    return hint.copy_with(parts) if hasattr(hint, "copy_with") else origin[parts if len(parts) > 1 else parts[0]]
