"""Options and columns of the command line, derived from the fields of a wire struct."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import click
import msgspec

from tonne.apps.cli.output import ValueColumn
from tonne.platform.web.fields import fields_of

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=msgspec.Struct)


def options_of(struct: type[msgspec.Struct], *, is_change: bool = False) -> Callable[[F], F]:
    """An option with a text for every described field. None of them is required for a change."""

    def decorate(command: F) -> F:
        for field in reversed(fields_of(struct).values()):
            option = f"--{field.name.replace('_', '-')}" if field.option is None else field.option
            if option:
                is_required = field.is_required and not is_change
                command = click.option(option, field.name, required=is_required, help=field.description)(command)
        return command

    return decorate


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The values of the given options. Empty ones become null, which clears a setting."""
    return {name: value or None for name, value in options.items() if value is not None}


def columns_of(
    struct: type[T],
    *,
    first: Sequence[ValueColumn[T]] = (),
    last: Sequence[ValueColumn[T]] = (),
    without: Sequence[str] = (),
    **others: ValueColumn[T],
) -> tuple[ValueColumn[T], ...]:
    """A column for every field, in their order, except for those in `without`.

    `first`, `last` and `others` have columns that do more than show a value. They replace the field of their name.
    """
    fields, own = fields_of(struct), {column.name for column in (*first, *last)} | {*without}
    derived = (
        others.get(name) or ValueColumn(name, attrgetter(name), head=fields[name].column if name in fields else None)
        for name in struct.__struct_fields__
        if name not in own
    )
    return (*first, *derived, *last)
