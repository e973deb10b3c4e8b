"""Whether a line of a statement is one that was imported before, perhaps from a file in another format.

The bank's own reference identifies a line within an account and a format. Without one, lines are equal by account,
booking date, amount, currency and their order among equals of that day. Where the texts contradict that, a person
decides. The end-to-end id is never used: the payer chooses it.
"""

import hashlib
import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct, field

from tonne.money.bank.formats.statement import StatementFormat, StatementLine
from tonne.platform.values.context import Mode, new_id

_NUMBER = re.compile(r"[0-9]{3,}")
# Share of the shorter text that must be in the longer one: banks cut and break texts differently.
_MIN_SHARED = 0.8
_UMLAUTS = (("AE", "A"), ("OE", "O"), ("UE", "U"))
_MIN_CONTAINED = 4
# Bound the cost of comparing two texts, and the transfers of one day and amount that a line is compared with. If a line
# resembles none of those, a person decides.
_MAX_COMPARED = 300
_MAX_CANDIDATES = 50


class Verdict(StrEnum):
    NEW = "new"
    KNOWN = "known"
    DOUBTFUL = "doubtful"


class _Likeness(Enum):
    """MIXED: the same reference, but another name, as of a person who pays for another."""

    EQUAL = auto()
    ALIKE = auto()
    MIXED = auto()
    UNKNOWN = auto()
    CONTRARY = auto()


class StoredLine(Struct):
    """A transfer as it was imported. `references` are those of all formats in which it was seen."""

    transfer_id: str
    format: StatementFormat
    line: StatementLine
    references: set[str] = field(default_factory=set)


class Identified(NamedTuple):
    """`transfer_id` is the transfer that the line is or resembles, or the id of a new one.

    `has_same_payer` is false if only the reference agrees: the payer's account must not be taken from such a line.
    """

    line: StatementLine
    verdict: Verdict
    transfer_id: str
    has_same_payer: bool = True


def reference_key(format_: StatementFormat, line: StatementLine) -> str | None:
    """References are compared within one format: banks shorten them differently."""
    return f"{format_}:{line.bank_reference}" if line.bank_reference else None


def fingerprints(mode: Mode, format_: StatementFormat, lines: Iterable[StatementLine]) -> list[bytes]:
    """One per line, equal for the same line of the same format. Identical lines of a file are numbered."""
    seen: Counter[str] = Counter()
    found = []
    for line in lines:
        facts = [mode, format_, line.own_account, line.booked_on.isoformat(), line.amount_minor, line.currency]
        text = json.dumps([*facts, line.payer, line.payer_iban, line.reference, line.bank_reference])
        found.append(hashlib.sha256(f"{text}{seen[text]}".encode()).digest())
        seen[text] += 1
    return found


def identify(
    lines: Sequence[StatementLine], format_: StatementFormat, stored: Iterable[StoredLine]
) -> list[Identified]:
    """Decide about every line of a file. `stored` has all transfers of the same days and amounts, and references."""
    matcher = _Matcher(format_, list(stored))
    matcher.match_references(lines)
    matcher.match_pairs(lines, matcher.by_text, _text_key, _is_exact)
    for accepts in (_is_alike, _is_mixed, _is_contrary):
        matcher.match_pairs(lines, matcher.by_amount, _amount_key, accepts)
    return [matcher.found.get(index) or matcher.add(line) for index, line in enumerate(lines)]


_Key = tuple[object, ...]
_Index = dict[_Key, list[StoredLine]]


class _Matcher(Struct):
    format: StatementFormat
    stored: list[StoredLine]
    found: dict[int, Identified] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    by_reference: _Index = field(default_factory=lambda: defaultdict(list))
    by_amount: _Index = field(default_factory=lambda: defaultdict(list))
    by_text: _Index = field(default_factory=lambda: defaultdict(list))
    # The lines of the file that were found to be a transfer.
    lines_of: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for each in self.stored:
            self.by_amount[_amount_key(each.line)].append(each)
            if each.format is self.format:
                self.by_text[_text_key(each.line)].append(each)
            for reference in each.references:
                self.by_reference[_money_key(reference, each.line)].append(each)

    def match_references(self, lines: Sequence[StatementLine]) -> None:
        for index, line in enumerate(lines):
            key = reference_key(self.format, line)
            if key is None:
                continue
            same = [each for each in self.by_reference[_money_key(key, line)] if _same_account(line, each.line)]
            if not same:
                # Later lines of this file with the same reference are compared with this one.
                self._remember(index, line, key)
                continue
            best = min(same, key=lambda each: (each.line.booked_on != line.booked_on, _likeness(line, each).value))
            is_known = best.line.booked_on == line.booked_on and _likeness(line, best) is not _Likeness.CONTRARY
            self._pair(index, line, best, Verdict.KNOWN if is_known else Verdict.DOUBTFUL)

    def match_pairs(
        self,
        lines: Sequence[StatementLine],
        candidates: _Index,
        key_of: Callable[[StatementLine], _Key],
        accepts: Callable[[StatementFormat, StatementLine, StoredLine], Verdict | None],
    ) -> None:
        for index, line in enumerate(lines):
            if index in self.found and self.found[index].verdict is not Verdict.NEW:
                continue
            for each in self._unused(candidates.get(key_of(line), [])):
                if not _same_account(line, each.line) or self._are_distinct(line, each):
                    continue
                verdict = accepts(self.format, line, each)
                if verdict is not None:
                    self._pair(index, line, each, verdict)
                    break

    def _unused(self, candidates: list[StoredLine]) -> list[StoredLine]:
        """The first that no line was found to be. Used ones are dropped from the list, many at a time."""
        first = candidates[: 2 * _MAX_CANDIDATES]
        unused = [each for each in first if each.transfer_id not in self.used]
        if len(unused) <= len(first) // 2:
            candidates[: len(first)] = unused
        return unused[:_MAX_CANDIDATES]

    def add(self, line: StatementLine) -> Identified:
        return Identified(line, Verdict.NEW, new_id("trf"))

    def _remember(self, index: int, line: StatementLine, key: str) -> None:
        new = self.add(line)
        self.found[index] = new
        self.lines_of[new.transfer_id].append(index)
        self.by_reference[_money_key(key, line)].append(StoredLine(new.transfer_id, self.format, line, {key}))

    def _pair(self, index: int, line: StatementLine, stored: StoredLine, verdict: Verdict) -> None:
        before = self.found.get(index)
        has_same_payer = _likeness(line, stored) in {_Likeness.EQUAL, _Likeness.ALIKE}
        self.found[index] = Identified(line, verdict, stored.transfer_id, has_same_payer)
        self.used.add(stored.transfer_id)
        self.lines_of[stored.transfer_id].append(index)
        if before is not None:
            # Lines of this file that share the reference were compared with the id of a new transfer.
            for other in self.lines_of.pop(before.transfer_id):
                self.found[other] = self.found[other]._replace(transfer_id=stored.transfer_id)

    def _are_distinct(self, line: StatementLine, stored: StoredLine) -> bool:
        """Two references of one format are two lines."""
        key = reference_key(self.format, line)
        return key is not None and any(each.startswith(f"{self.format}:") for each in stored.references)


def _is_exact(format_: StatementFormat, line: StatementLine, stored: StoredLine) -> Verdict | None:
    is_same = stored.format is format_ and _likeness(line, stored) is _Likeness.EQUAL
    return Verdict.KNOWN if is_same else None


def _is_alike(format_: StatementFormat, line: StatementLine, stored: StoredLine) -> Verdict | None:
    """Only across formats: within one, a bank writes a line in one way."""
    is_same = stored.format is not format_ and _likeness(line, stored) in {_Likeness.EQUAL, _Likeness.ALIKE}
    return Verdict.KNOWN if is_same else None


def _is_mixed(format_: StatementFormat, line: StatementLine, stored: StoredLine) -> Verdict | None:
    is_same = stored.format is not format_ and _likeness(line, stored) is not _Likeness.CONTRARY
    return Verdict.KNOWN if is_same else None


def _is_contrary(format_: StatementFormat, _: StatementLine, stored: StoredLine) -> Verdict | None:
    return None if stored.format is format_ else Verdict.DOUBTFUL


def _amount_key(line: StatementLine) -> _Key:
    return line.booked_on, line.amount_minor, line.currency


def _text_key(line: StatementLine) -> _Key:
    return *_amount_key(line), line.payer, line.reference


def _money_key(reference: str, line: StatementLine) -> _Key:
    return reference, line.amount_minor, line.currency


def _same_account(line: StatementLine, other: StatementLine) -> bool:
    """An account that is not known may be any."""
    return line.own_account == other.own_account or not line.own_account or not other.own_account


def _likeness(line: StatementLine, stored: StoredLine) -> _Likeness:
    other = stored.line
    if line.payer_iban and other.payer_iban and line.payer_iban != other.payer_iban:
        return _Likeness.CONTRARY
    if (line.payer, line.reference) == (other.payer, other.reference):
        return _Likeness.EQUAL
    text, name = _compare(line.reference, other.reference), _compare(line.payer, other.payer)
    if text is _Likeness.ALIKE and name is _Likeness.CONTRARY:
        return _Likeness.MIXED
    return name if text is _Likeness.UNKNOWN else text


def _compare(first: str, second: str) -> _Likeness:
    """Two texts of one line in two formats: cut, folded and broken, but with the same numbers."""
    short, long = sorted((_letters(first)[:_MAX_COMPARED], _letters(second)[:_MAX_COMPARED]), key=len)
    if not short:
        return _Likeness.UNKNOWN
    if short in long and (len(short) >= _MIN_CONTAINED or short == long):
        return _Likeness.ALIKE
    numbers = _NUMBER.findall(short)
    if all(number in long for number in numbers) and _share_most(short, long):
        return _Likeness.ALIKE
    return _Likeness.CONTRARY


@lru_cache(4096)
def _letters(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text.replace("ß", "ss")).upper()
    plain = "".join(c for c in folded if c.isascii() and c.isalnum())
    for spelled, letter in _UMLAUTS:
        plain = plain.replace(spelled, letter)
    return plain


def _share_most(short: str, long: str) -> bool:
    size = math.ceil(_MIN_SHARED * len(short))
    return any(short[start : start + size] in long for start in range(len(short) - size + 1))
