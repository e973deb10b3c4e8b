"""Turns what a check has found into HTML: ids become links."""

import re
from collections.abc import Mapping

from markupsafe import Markup, escape

_PARTS = re.compile(
    r"(?P<id>\b[a-z]{2,4}_[0-9a-z]{26}\b)"
    r"|(?<=\binvoice )(?P<number>[A-Z][A-Z0-9-]*[0-9])\b"
    r"|`(?P<command>[^`]+)`"
)


def found_text(text: str, pages: Mapping[str, str]) -> Markup:
    """`pages` has the address of the page of an object, without its id, by the prefix of the id; also `invoice`."""
    parts, end = [], 0
    for match in _PARTS.finditer(text):
        parts += [escape(text[end : match.start()]), _part(match, pages)]
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def _part(match: re.Match[str], pages: Mapping[str, str]) -> Markup:
    if match["command"] is not None:
        return Markup("<code>{}</code>").format(match["command"])
    name = match["number"] or match["id"]
    page = pages.get("invoice" if match["number"] else name.partition("_")[0])
    if page is None:
        return Markup('<code class="id">{}</code>').format(name)
    return Markup('<a href="{}/{}"><code class="id">{}</code></a>').format(page, name, name)
