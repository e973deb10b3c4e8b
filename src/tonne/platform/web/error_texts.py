"""What people read on the page of an error: a title for its kind, and a text if the API's message is for programs."""

from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_
from tonne.platform.web.shown_errors import shown
from tonne.platform.web.translate import Translator

_TITLES = {
    Kind.NOT_FOUND: N_("Page not found"),
    Kind.METHOD_NOT_ALLOWED: N_("That page can't be opened this way"),
    Kind.INVALID: N_("That didn't work"),
    Kind.CONFLICT: N_("That isn't possible right now"),
    Kind.TOO_LARGE: N_("That is too much at once"),
    Kind.RATE_LIMITED: N_("Too many requests"),
    Kind.UNAVAILABLE: N_("Temporarily unavailable"),
}
_OTHER_TITLE = N_("Something went wrong")
# By error code.
_TEXTS = {
    "route_not_found": N_(
        "There is no page at this address. It may be misspelt or incomplete: if it comes from a mail, open the link in "
        "the mail again."
    ),
    "asset_not_found": N_("There is no file at this address."),
    "image_not_found": N_("There is no picture at this address."),
    "method_not_allowed": N_("Go back to the page you came from, reload it and try again."),
    "rate_limited": N_("Too many requests came from your network. Wait a minute, then reload the page."),
    "body_too_large": N_("What you sent is too large. Go back and send less text or a smaller file."),
    "service_unavailable": N_(
        "We can't answer right now. Nothing is lost: wait a moment, then reload the page. If you were paying, you are "
        "charged at most once."
    ),
    "service_held": N_("We are working on the service. Nothing is lost: try again in a few minutes."),
    "internal_error": N_("Something went wrong on our side. Reload the page in a moment."),
}
# Their messages always name paths and methods.
_FOR_PROGRAMS = {"route_not_found", "method_not_allowed", "internal_error"}


def error_title(refusal: TonneError, _: Translator) -> str:
    return _(_TITLES.get(refusal.kind, _OTHER_TITLE))


def error_text(refusal: TonneError, _: Translator) -> str:
    """A message that was written for this case is better than the text of its code, unless it is for programs."""
    text = _TEXTS.get(refusal.code)
    is_general = str(refusal) == refusal.message or refusal.code in _FOR_PROGRAMS
    return _(text) if text is not None and is_general else shown(refusal, _)
