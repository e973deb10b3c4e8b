"""Whom an auditor trusts: logs, witnesses, and which of them must have cosigned (c2sp.org/tlog-policy)."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from tonne_verify.errors import NotProven
from tonne_verify.notes import SignatureType, VerifierKey

BUILT_IN = "the built-in policy"
NONE = "none"
MAX_LINES = 1000


@dataclass(frozen=True, slots=True)
class Trusted:
    """A log or a witness."""

    key: VerifierKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    needed: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """Without a file: no log is excluded, and no witness is known."""

    name: str = BUILT_IN
    logs: tuple[Trusted, ...] = ()
    witnesses: Mapping[str, Trusted] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    quorum: str = NONE
    accept_no_witness: bool = False

    @classmethod
    def parse(cls, content: bytes, name: str) -> Self:
        """Raises NotProven, which says what is wrong in which line."""
        # Names are octets for the specification: others than UTF-8 are kept as they are.
        text = content.decode("utf-8", "surrogateescape")
        lines = text.split("\n")
        if len(lines) > MAX_LINES or re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
            raise NotProven(f"{name} is not a policy: it is too long, or has control characters.")
        reader = _Reader()
        for number, line in enumerate(lines, start=1):
            words = [word for word in re.split(r"[ \t]+", line) if word]
            if words and not words[0].startswith("#"):
                try:
                    reader.read(words)
                except NotProven as error:
                    raise NotProven(f"{name}, line {number}: {error}") from None
        if reader.quorum is None:
            raise NotProven(f"{name} has no line `quorum`.")
        return cls(name, tuple(reader.logs), reader.witnesses, reader.groups, reader.quorum)

    def accepting_no_witness(self) -> Self:
        return replace(self, accept_no_witness=True)

    @property
    def witness_keys(self) -> list[VerifierKey]:
        return [each.key for each in self.witnesses.values()]

    def trusts_log(self, keys: Iterable[VerifierKey], origin: str, *, is_final: bool = False) -> bool:
        """Whether it lists one of these keys. The last checkpoint of a closed log may have lost its signature."""
        listed = {each.key for each in self.logs}
        named = is_final and origin in {each.name for each in listed}
        return not listed or named or not listed.isdisjoint(keys)

    def has_quorum(self, cosigners: Collection[VerifierKey]) -> bool:
        return self.quorum == NONE or self._is_witnessed(self.quorum, cosigners)

    def _is_witnessed(self, name: str, cosigners: Collection[VerifierKey]) -> bool:
        if name in self.witnesses:
            return self.witnesses[name].key in cosigners
        group = self.groups[name]
        return sum(self._is_witnessed(each, cosigners) for each in group.members) >= group.needed

    def describe(self, name: str | None = None) -> str:
        """The quorum in words: `2 of (a, b, any of (c, d))`."""
        name = name or self.quorum
        if name not in self.groups:
            return name
        group = self.groups[name]
        members = ", ".join(self.describe(each) for each in group.members)
        return members if len(group.members) == 1 else f"{group.needed} of ({members})"


class _Reader:
    def __init__(self) -> None:
        self.logs: list[Trusted] = []
        self.witnesses: dict[str, Trusted] = {}
        self.groups: dict[str, Group] = {}
        self.quorum: str | None = None
        self._members: set[str] = set()

    def read(self, words: list[str]) -> None:
        match words:
            case ["log", vkey, *url] if len(url) <= 1:
                key = self._new_key(vkey, [each.key for each in self.logs], {SignatureType.ED25519})
                self.logs.append(Trusted(key, *url))
            case ["witness", name, vkey, *url] if len(url) <= 1:
                self._check_new(name)
                known = [each.key for each in self.witnesses.values()]
                self.witnesses[name] = Trusted(self._new_key(vkey, known, SignatureType.of_witnesses()), *url)
            case ["group", name, needed, *members] if members:
                self._check_new(name)
                for each in members:
                    self._check_defined(each)
                    if each in self._members:
                        raise NotProven(f"`{each}` is the member of a group already.")
                    self._members.add(each)
                self.groups[name] = Group(_needed(needed, len(members)), tuple(members))
            case ["quorum", name]:
                if self.quorum is not None:
                    raise NotProven("There is a second line `quorum`.")
                if name != NONE:
                    self._check_defined(name)
                self.quorum = name
            case _:
                raise NotProven(f"`{' '.join(words)[:80]}` is not a line of a policy.")

    def _new_key(self, vkey: str, known: list[VerifierKey], kinds: Collection[SignatureType]) -> VerifierKey:
        key = VerifierKey.parse(vkey)
        if key.kind not in kinds:
            raise NotProven(f"The key {key.name} is not one of those that sign such lines.")
        if key.public in {each.public for each in known}:
            raise NotProven(f"The key of {key.name} is listed twice.")
        return key

    def _check_new(self, name: str) -> None:
        if name == NONE or name in self.witnesses or name in self.groups:
            raise NotProven(f"The name `{name}` is used already.")

    def _check_defined(self, name: str) -> None:
        if name not in self.witnesses and name not in self.groups:
            raise NotProven(f"`{name}` is not defined before this line.")


def _needed(text: str, members: int) -> int:
    if text in {"any", "all"}:
        return 1 if text == "any" else members
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text) or int(text) > members:
        raise NotProven(f"`{text[:20]}` is not any, all, or a number of members.")
    return int(text)
