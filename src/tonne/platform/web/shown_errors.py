"""The messages of errors on public pages, in the visitor's language. Responses of the API stay English."""

from collections.abc import Iterable

from babel.lists import format_list
from msgspec import structs

from tonne.platform.values.errors import Fault, TonneError
from tonne.platform.values.message_values import MassValue, MoneyValue, NamesValue
from tonne.platform.web import visitor
from tonne.platform.web.translate import Translator


def shown(error: TonneError, _: Translator) -> str:
    """The translated message. One that is not marked with `N_` has no translation and stays English."""
    text = _.text(error.template)
    if not error.values:
        return text
    return text % {name: _shown_value(value, _) for name, value in error.values.items()}


def shown_fault(error: TonneError, _: Translator) -> Fault:
    """The first fault of the error, for the field of a form."""
    return structs.replace(error.faults[0], message=shown(error, _))


def _shown_value(value: object, _: Translator) -> object:
    locale = visitor.locale_named(_.language, "")
    if isinstance(value, MassValue):
        return visitor.exact(value.grams, locale)
    if isinstance(value, MoneyValue):
        return visitor.money(value.amount_minor, value.currency, locale)
    if isinstance(value, NamesValue):
        return format_list(value.names, locale=locale)
    return value


class FormFaults(dict[str, str]):
    """Messages by field. Templates read a field without a fault as an empty text."""

    def __missing__(self, name: str) -> str:
        return ""


def texts_of(errors: Iterable[TonneError], _: Translator) -> FormFaults:
    """The messages of a form by field, the first of each. Those of the whole form have the empty name."""
    texts = FormFaults()
    for error in errors:
        if len(error.faults) == 1:
            texts.setdefault(error.faults[0].field or "", shown(error, _))
        else:
            for fault in error.faults:
                texts.setdefault(fault.field or "", fault.message)
    return texts
