"""The visitor of a page: the language, and numbers, amounts and dates in the visitor's locale.

The language is the visitor's choice, then one of the browser's languages, then the merchant's default.
"""

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import cache, lru_cache
from urllib.parse import quote

from babel import Locale
from babel.dates import format_date, format_datetime
from babel.numbers import (
    format_compact_currency,
    format_currency,
    format_decimal,
    format_percent,
    get_decimal_symbol,
)
from markupsafe import Markup
from msgspec import Struct

from tonne.platform.http.route import Request
from tonne.platform.values.amounts import GRAMS_PER_TONNE, format_money, format_scaled, format_tonnes, people_mass
from tonne.platform.values.countries import COUNTRIES
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import DEFAULT_LANGUAGE, LANGUAGES
from tonne.platform.web.translate import Translator, translator

DEFAULT = Locale("en")
_MAX_HEADER = 200
_CODE_BEFORE_NUMBER = re.compile(r"(?<=[A-Za-z])(?=\d)")
# A closed list: Babel keeps the data of every locale that was ever used, some 200 kB each.
_LOCALES = frozenset(
    re.findall(
        r"\w+",
        """ar ar_EG bg bn ca cs da de de_AT de_CH el en en_AU en_CA en_GB en_IE en_IN en_NZ en_US es es_MX et fa fi fr
        fr_CA fr_CH ga he hi hr hu id is it ja ko lt lv ms mt nb nl nl_BE no pl pt pt_BR pt_PT ro ru sk sl sr sv th tr
        uk vi zh zh_CN zh_TW""",
    )
)


def locale_of(accept_language: str) -> Locale:
    """The first language of the header that is in the list, English if there is none."""
    for part in accept_language[:_MAX_HEADER].split(","):
        language, _, territory = part.partition(";")[0].strip().replace("_", "-").partition("-")
        for name in (f"{language.lower()}_{territory.upper()}", language.lower()):
            if name in _LOCALES:
                return _locale(name)
    return DEFAULT


def locale_named(language: str, region: str) -> Locale:
    """The language as it is used in the region, or everywhere if the combination is not in the list."""
    name = f"{language}_{region}"
    return _locale(name if name in _LOCALES else language)


@cache
def _locale(name: str) -> Locale:
    return Locale.parse(name)


def money(amount_minor: int, currency: str, locale: Locale) -> str:
    """With all decimals of the currency, not rounded."""
    return amount(Decimal(format_money(amount_minor, currency)), currency, locale)


def amount(decimal: Decimal, currency: str, locale: Locale) -> str:
    """Like `money`, in units of the currency."""
    shown = format_currency(decimal, currency, locale=locale, decimal_quantization=False)
    # Babel writes `NOK10.00` without a space.
    return _CODE_BEFORE_NUMBER.sub("\u00a0", shown)


def compact_money(amount_minor: int, currency: str, locale: Locale) -> str:
    """For the scale of a chart: `€16K`. Small amounts are not shortened."""
    decimal = Decimal(format_money(amount_minor, currency))
    if decimal < 1000:
        return money(amount_minor, currency, locale)
    return format_compact_currency(decimal, currency, locale=locale, fraction_digits=1)


def tonnes(grams: int, locale: Locale) -> Markup:
    """A mass for people, rounded. The exact mass is in the title. For attributes and SVG use `rounded` or `exact`."""
    return Markup('<span title="{}">{}</span>').format(exact(grams, locale), rounded(grams, locale))


def rounded(grams: int, locale: Locale) -> str:
    """At least three significant digits and the whole part in full; kilograms below a tonne: `1,085 t`, `63.4 kg`."""
    amount, unit = people_mass(Decimal(grams) / GRAMS_PER_TONNE)
    return f"{format_decimal(amount, locale=locale, decimal_quantization=False)}\u00a0{unit}"


def tonnes_column(column: Sequence[int | None], locale: Locale) -> list[Markup]:
    """Masses for a column of a table, as `aligned` has them. The exact mass is in the title. None: not known yet."""
    cells = zip(column, aligned([grams or 0 for grams in column], locale), strict=True)
    cell = Markup('<span title="{}">{}</span>')
    return [Markup() if grams is None else cell.format(exact(grams, locale), text) for grams, text in cells]


def aligned(column: Sequence[int], locale: Locale) -> list[str]:
    """One unit and one number of decimals, so that right-aligned numbers line up.

    The largest mass has three significant digits or more.
    """
    largest = max(column, default=0)
    unit, grams_per_unit = ("t", GRAMS_PER_TONNE) if largest >= GRAMS_PER_TONNE else ("kg", 1000)
    decimals = max(0, 2 - (Decimal(largest) / grams_per_unit).adjusted()) if largest else 0
    step = Decimal(1).scaleb(-decimals)
    pattern = "#,##0." + "0" * decimals if decimals else "#,##0"
    texts = []
    for grams in column:
        amount = (Decimal(grams) / grams_per_unit).quantize(step, rounding=ROUND_HALF_UP)
        # Not "0": something was retired.
        sign = "<\u2009" if grams and not amount else ""
        text = format_decimal(amount or (step if grams else amount), pattern, locale=locale)
        texts.append(f"{sign}{text}\u00a0{unit}")
    return texts


def exact(grams: int, locale: Locale) -> str:
    """A mass in tonnes to the gram, with a non-breaking space before the unit."""
    return f"{number(format_tonnes(grams), locale)}\u00a0t"


def grams(tonnes_text: str) -> int:
    """The mass of a decimal in tonnes as the API returns it, for the filters above."""
    return int(Decimal(tonnes_text) * GRAMS_PER_TONNE)


def number(text: str, locale: Locale) -> str:
    """Localise a decimal as the API returns it."""
    return format_decimal(Decimal(text), locale=locale, decimal_quantization=False)


def percent(part: Fraction, locale: Locale) -> str:
    """A rate with at most five decimals, in per cent, not rounded."""
    return format_percent(Decimal(format_scaled(int(part * 100_000), 5)), locale=locale, decimal_quantization=False)


def day(moment: date | datetime, locale: Locale) -> str:
    return format_date(moment, format="long", locale=locale)


def moment(at: datetime, locale: Locale) -> Markup:
    """A point in time in UTC. A script turns it into the zone of the viewer's browser."""
    shown = f"{format_datetime(at.astimezone(UTC), format='medium', tzinfo=UTC, locale=locale)} UTC"
    return Markup('<time datetime="{}">{}</time>').format(at.astimezone(UTC).isoformat(), shown)


def month(moment: date, locale: Locale) -> str:
    return format_date(moment, format="MMM y", locale=locale)


def month_name(moment: date, locale: Locale) -> str:
    """Abbreviated, without the year."""
    return format_date(moment, format="LLL", locale=locale)


@cache
def country_names(locale: Locale) -> list[tuple[str, str]]:
    """The codes of all countries with their names, in the order of the names."""

    def plain(pair: tuple[str, str]) -> str:
        return unicodedata.normalize("NFKD", pair[1]).encode("ascii", "ignore").decode().lower()

    return sorted(((code, str(locale.territories.get(code, code))) for code in COUNTRIES), key=plain)


def decimal_sign(locale: Locale) -> str:
    """Point or comma, for numbers in input fields. Other signs are hard to type."""
    return "," if get_decimal_symbol(locale) == "," else "."


PARAMETER = "lang"
COOKIE = "lang"

_PREFERENCE = re.compile(r"\s*([a-zA-Z]{2,3})(?:[-_]([a-zA-Z]{2}))?[^;,]*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*")


class VisitorLanguage(Struct, frozen=True):
    """`locale` formats numbers and dates: the language with the visitor's region, such as `de_CH`."""

    code: str
    locale: Locale

    @property
    def translator(self) -> Translator:
        return translator(self.code)

    @property
    def direction(self) -> str:
        """The value of HTML's attribute `dir`."""
        return self.locale.text_direction


class LanguageLink(Struct, frozen=True):
    """The current page in another language."""

    code: str
    name: str
    href: str
    is_current: bool


def visitor_language(request: Request, default: str = DEFAULT_LANGUAGE) -> VisitorLanguage:
    """`default` is the merchant's language, for visitors whose browser names none of ours."""
    header = request.headers.get(b"accept-language", b"").decode("latin-1")[:_MAX_HEADER]
    return _choose(_asked_for(request) or request.cookie(COOKIE), header, default)


def choice_cookie(request: Request) -> str | None:
    """Keeps the language of `?lang=` until the browser is closed. None if the browser has this cookie already."""
    chosen = _asked_for(request)
    if not chosen or chosen == request.cookie(COOKIE):
        return None
    return f"{COOKIE}={chosen}; Path=/; SameSite=Lax"


def language_links(request: Request, current: str) -> list[LanguageLink]:
    """Links to the page itself. The address is the request's own, so it cannot lead to another site."""
    path, _, query = request.location.partition("?")
    # A path that begins with two slashes would be the address of another host.
    path = quote(f"/{path.lstrip('/')}", safe="/%:@!$&'()*+,;=-._~")
    others = [part for part in query.split("&") if part and part.partition("=")[0] != PARAMETER]
    return [
        LanguageLink(code, name, f"{path}?{'&'.join([*others, f'{PARAMETER}={code}'])}", code == current)
        for code, name in LANGUAGES.items()
    ]


def _asked_for(request: Request) -> str:
    try:
        codes = request.query_values(PARAMETER)
    except TonneError:
        # The endpoint reports the unreadable query string; its error page needs a language, too.
        return ""
    return codes[-1] if codes and codes[-1] in LANGUAGES else ""


@lru_cache(maxsize=1024)
def _choose(chosen: str, accept_language: str, default: str) -> VisitorLanguage:
    preferences = _preferences(accept_language)
    code = chosen if chosen in LANGUAGES else next((code for code, _ in preferences if code in LANGUAGES), default)
    code = code if code in LANGUAGES else DEFAULT_LANGUAGE
    regions = [region for language, region in preferences if language == code and region]
    return VisitorLanguage(code, locale_named(code, regions[0] if regions else ""))


def _preferences(accept_language: str) -> list[tuple[str, str]]:
    """Languages and regions of the header, the most wanted first."""
    found: list[tuple[float, str, str]] = []
    for part in accept_language.split(","):
        if match := _PREFERENCE.fullmatch(part):
            weight = float(match[3] or 1)
            if weight > 0:
                found.append((weight, match[1].lower(), (match[2] or "").upper()))
    found.sort(key=lambda each: -each[0])
    return [(code, region) for _, code, region in found]
