"""How the templates of PDFs write numbers and dates in a language, and their translated labels."""

import json
import re
from functools import cache
from typing import Any

from babel import Locale
from babel.numbers import get_decimal_symbol

from tonne.platform.web.translate import Translator, translator

_FIELDS = re.compile(r"'([^']*)'|(d+|M+|y+)")
_NAMES = {"d": "{day}", "M": "{month}", "y": "{year}"}


def label_inputs(_: Translator, labels: dict[str, str]) -> dict[str, str]:
    """Inputs for `render_pdf`. A label may contain values as `{name}`, which the template fills in: see `fill`."""
    return {"labels": json.dumps({**_conventions(_.language), **labels}, ensure_ascii=False)}


@cache
def _conventions(language: str) -> dict[str, Any]:
    """`day` is a pattern for dates such as `{day}. {month} {year}`."""
    _ = translator(language)
    locale = Locale.parse("en_GB" if language == "en" else language)
    pattern = _FIELDS.sub(lambda found: found[1] or _NAMES[found[2][0]], locale.date_formats["long"].pattern)
    return {
        "language": language,
        "decimal": get_decimal_symbol(locale),
        "months": [locale.months["format"]["wide"][month] for month in range(1, 13)],
        "day": pattern,
        "page": _("Page %(page)s of %(pages)s", page="{page}", pages="{pages}"),
    }
