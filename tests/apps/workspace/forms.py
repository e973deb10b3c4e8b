"""Reads what a page offers to submit."""

import html
import re

_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')
_TYPED = re.compile(r'<input id="[^"]+" name="([^"]+)"[^>]*? value="([^"]*)"')


def hidden_fields(text: str) -> dict[str, str]:
    """The hidden fields of a page, without the token of the form."""
    found = {name: html.unescape(value) for name, value in _HIDDEN.findall(text)}
    found.pop("form_token", None)
    return found


def typed_fields(text: str) -> dict[str, str]:
    """The text fields of a page with their values."""
    return {name: html.unescape(value) for name, value in _TYPED.findall(text)}
