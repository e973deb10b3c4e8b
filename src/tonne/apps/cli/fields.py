"""Options and columns of the command line, derived from the fields of a wire struct."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import click
import msgspec

from tonne.apps.cli.output import ValueColumn
from tonne.platform.web.fields import Field, fields_of

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=msgspec.Struct)


def options_of(struct: type[msgspec.Struct], *, is_change: bool = False, can_clear: bool = False) -> Callable[[F], F]:
    """An option for every described field. None is required for a change; empty texts may clear a setting."""

    def decorate(command: F) -> F:
        for field in reversed(fields_of(struct).values()):
            option = field.option
            if option is None:
                name = field.name.replace("_", "-")
                option = f"--{name}/--no-{name}" if field.is_flag else f"--{name}"
            if option:
                is_required = field.is_required and not is_change
                command = _option(option, field, is_required=is_required, can_clear=can_clear)(command)
        return command

    return decorate


class _ChoiceOrEmpty(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "" else super().convert(value, param, ctx)


def _option(option: str, field: Field, *, is_required: bool, can_clear: bool) -> Callable[[F], F]:
    """Options that are not given are None; lists are empty."""
    if field.is_list:
        return click.option(option, field.name, multiple=True, help=f"{field.description} Repeat it for more.")
    if field.is_flag:
        return click.option(option, field.name, default=None, help=field.description)
    choices = (_ChoiceOrEmpty if can_clear else click.Choice)(field.choices) if field.choices else None
    return click.option(option, field.name, type=choices, required=is_required, help=field.description)


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
