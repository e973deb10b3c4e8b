"""Which imported exchange rates are probably wrong. A slip would sell credits far below their price. No I/O."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from tonne.platform.documents.sheets.columns import RowError
from tonne.selling.catalogue.imports.plan import ExchangeRateRow

# The first rate of a pair may differ from the typical one by this factor. It finds a shifted decimal point.
_TYPICAL_FACTOR = 5
# Roughly, in 2026: units for one euro.
_TYPICAL = """
    AED 4.2 AFN 78 ALL 97 AMD 440 AOA 1060 ARS 1650 AUD 1.77 AWG 2.07 AZN 1.96 BAM 1.96 BBD 2.3 BDT 140 BHD 0.434
    BIF 3420 BMD 1.15 BND 1.5 BOB 8 BRL 6.2 BSD 1.15 BTN 102 BWP 15.5 BYN 3.6 BZD 2.3 CAD 1.61 CDF 2900 CHF 0.93
    CLP 1090 CNY 8.2 COP 4500 CRC 580 CUP 27.6 CVE 110 CZK 24.3 DJF 204 DKK 7.46 DOP 73 DZD 150 EGP 55 ERN 17.2
    ETB 175 EUR 1 FJD 2.6 FKP 0.88 GBP 0.88 GEL 3.1 GHS 12.5 GIP 0.88 GMD 83 GNF 9950 GTQ 8.8 GYD 240 HKD 8.95
    HNL 30 HTG 150 HUF 387 IDR 19200 ILS 3.8 INR 102 IQD 1500 IRR 48000 ISK 145 JMD 184 JOD 0.815 JPY 177 KES 149
    KGS 100 KHR 4620 KMF 492 KPW 1035 KRW 1680 KWD 0.353 KYD 0.958 KZT 605 LAK 25000 LBP 103000 LKR 350 LRD 207
    LSL 20 LYD 6.3 MAD 10.7 MDL 19.6 MGA 5150 MKD 61.6 MMK 2415 MNT 4100 MOP 9.2 MRU 46 MUR 52.5 MVR 17.7 MWK 1995
    MXN 21.2 MYR 4.8 MZN 73.5 NAD 20 NGN 1660 NIO 42.3 NOK 11.7 NPR 163 NZD 2.03 OMR 0.442 PAB 1.15 PEN 3.9
    PGK 4.85 PHP 68 PKR 323 PLN 4.25 PYG 8150 QAR 4.19 RON 5.08 RSD 117 RUB 93 RWF 1670 SAR 4.31 SBD 9.5 SCR 16.5
    SDG 690 SEK 11 SGD 1.5 SHP 0.88 SLE 26.5 SOS 657 SRD 44.5 SSP 5300 STN 24.5 SVC 10.06 SYP 12700 SZL 20 THB 37.3
    TJS 10.6 TMT 4.03 TND 3.38 TOP 2.75 TRY 48.5 TTD 7.8 TWD 35.7 TZS 2830 UAH 48.5 UGX 4030 USD 1.15 UYU 45.7
    UZS 13800 VED 270 VES 270 VND 30300 VUV 140 WST 3.2 XAF 656 XCD 3.11 XOF 656 XPF 119 YER 274 ZAR 19.9 ZMW 26
    ZWG 30.5
"""
_WORDS = _TYPICAL.split()
PER_EURO: Mapping[str, Decimal] = dict(zip(_WORDS[::2], map(Decimal, _WORDS[1::2]), strict=True))
_REMEDY = "correct it, or accept it if it is right."
ACCEPT_OPTION = "--allow-large-change"


class KnownRate(Struct, frozen=True):
    rate: Decimal
    as_of: datetime


def check_rates(
    file: str, rows: Iterable[ExchangeRateRow], nearest: Mapping[tuple[object, ...], KnownRate], factor: Decimal
) -> Iterator[RowError]:
    """Compare each rate with the one before it, in the file or stored, or else with what is typical.

    `nearest` has, by the key of a row, the newest stored rate up to that time, or else the oldest one after it.
    """
    before: dict[tuple[str, str], KnownRate] = {}
    for row in sorted(rows, key=lambda each: each.as_of):
        pair = (row.base, row.quote)
        known = [rate for rate in (before.get(pair), nearest.get(row.key)) if rate is not None]
        before[pair] = KnownRate(row.rate, row.as_of)
        if not known:
            typical = PER_EURO[row.quote] / PER_EURO[row.base]
            if _differ(row.rate, typical, Decimal(_TYPICAL_FACTOR)):
                message = f"{_plain(row.rate)} is far from a typical rate, {typical:.3g}: {_REMEDY}"
                yield RowError(file, row.line, "rate", message, ACCEPT_OPTION)
            continue
        # The latest one that is not after this row; a later one only if there is no other.
        last = max(known, key=lambda rate: (rate.as_of <= row.as_of, rate.as_of))
        if _differ(row.rate, last.rate, factor):
            earlier = f"the rate of {last.as_of:%Y-%m-%d}, {_plain(last.rate)}"
            message = f"{_plain(row.rate)} differs from {earlier}, by more than a factor of {_plain(factor)}: {_REMEDY}"
            yield RowError(file, row.line, "rate", message, ACCEPT_OPTION)


def _differ(rate: Decimal, other: Decimal, factor: Decimal) -> bool:
    return rate > other * factor or other > rate * factor


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
