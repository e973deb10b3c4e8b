"""What statements claim together: serials are counted in grams, and no tonne may be claimed twice.

The statements may come from several files, or from all entries of a log. Each has a place, which says where it was
found: the name of a file, or the position of an entry.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tonne_verify.agreement import check_shape, grams, key_of, logged_names, show_tonnes, units_of
from tonne_verify.errors import NotProven
from tonne_verify.evidence import ProvenEntry
from tonne_verify.openings import ERASED, Opening, StatementKind
from tonne_verify.serials.units import UnitRange

Json = Mapping[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a statement says of a certificate or a retirement."""

    place: str
    subject: str
    facts: Json
    # Which entry of which log.
    origin: str
    position: int
    names: Json | None = None

    @property
    def revision(self) -> int:
        value = self.facts.get("revision", 1)
        return value if isinstance(value, int) else 1

    @property
    def name(self) -> str:
        return f"{self.subject} ({self.place})"

    @property
    def known_names(self) -> list[Any]:
        """For whom the certificate is. Empty if it was erased; a log that was reopened since then states `erased`."""
        if self.names is None or self.names.get("beneficiary") in (None, ERASED):
            return []
        return [name for place, name in logged_names(self.names) if place != "reason"]


@dataclass(slots=True)
class Ledger:
    """Of one mode. `has_all` says that all retirements are known, so that a certificate without one is noticed."""

    has_all: bool = False
    conflicts: list[str] = field(default_factory=list)
    certificates: dict[str, Claim] = field(default_factory=dict)
    # By the subject, the different statements in the order of their revisions.
    retirements: dict[str, list[Claim]] = field(default_factory=dict)
    # By the number of a certificate, why it does not count any more.
    ended: dict[str, str] = field(default_factory=dict)
    # By the number of a certificate, the statement that says for whom it is, and by the log, the entry that issued it.
    named: dict[str, Claim] = field(default_factory=dict)
    issued: dict[tuple[str, str], Claim] = field(default_factory=dict)

    def add_entry(self, place: str, entry: ProvenEntry) -> None:
        self.add(place, entry.opening, entry.log.origin, entry.index)

    def add(self, place: str, opening: Opening, origin: str, position: int) -> None:
        statement = opening.statement
        claim = Claim(place, str(statement["subject"]), statement["facts"], origin, position, opening.names)
        try:
            self._add(StatementKind(statement["kind"]), claim)
        except NotProven as error:
            self.conflicts.append(f"{claim.name}: {error}")

    def _add(self, kind: StatementKind, claim: Claim) -> None:
        match kind:
            case StatementKind.RETIREMENT:
                self._add_retirement(claim)
            case StatementKind.ISSUED:
                self._add_certificate(claim)
            case StatementKind.REPLACED:
                self.ended.setdefault(claim.subject, f"replaced by {claim.facts.get('replaced_by')}")
            case StatementKind.WITHDRAWN:
                self.ended.setdefault(claim.subject, "withdrawn")

    def _add_retirement(self, claim: Claim) -> None:
        grams(claim.facts.get("quantity"))
        known = self.retirements.setdefault(claim.subject, [])
        if any(_without_alias(each.facts) == _without_alias(claim.facts) for each in known):
            return
        same = next((each for each in known if each.revision == claim.revision), None)
        if same is not None:
            self.conflicts.append(
                f"Retirement {claim.subject} has two statements that differ: in {same.place} and in {claim.place}."
            )
        known.append(claim)
        known.sort(key=lambda each: each.revision)

    def _add_certificate(self, claim: Claim) -> None:
        quantities = [line.get("quantity") for line in check_shape(claim.facts)["lines"]]
        for quantity in (claim.facts.get("total_quantity"), *quantities):
            grams(quantity)
        known = self.certificates.setdefault(claim.subject, claim)
        issued = self.issued.setdefault((claim.origin, claim.subject), claim)
        named = self.named.setdefault(claim.subject, claim) if claim.known_names else claim
        names = zip(named.known_names, claim.known_names, strict=False)
        one, other = next((each for each in names if each[0] != each[1]), (None, None))
        if dict(known.facts) != dict(claim.facts):
            self.conflicts.append(
                f"Certificate {claim.subject} has two statements that differ: in {known.place} and in {claim.place}."
            )
        elif one != other:
            self.conflicts.append(
                f"Certificate {claim.subject} has two names: {one!r} in {named.place}, {other!r} in {claim.place}."
            )
        elif issued.position != claim.position:
            self.conflicts.append(
                f"Certificate {claim.subject} is issued by two entries of {claim.origin}: in {issued.place} and in"
                f" {claim.place}."
            )
        replaces = claim.facts.get("replaces")
        if isinstance(replaces, dict):
            ended = f"replaced by {claim.subject} on {str(claim.facts.get('issued_at'))[:10]}"
            self.ended.setdefault(str(replaces.get("number")), ended)

    @property
    def counted(self) -> list[Claim]:
        """Certificates that were not replaced or withdrawn."""
        return [claim for number, claim in self.certificates.items() if number not in self.ended]

    def find_ended(self) -> list[str]:
        """Certificates that are given although they do not count any more."""
        return [
            f"Certificate {claim.name} was {self.ended[number]}: do not count it."
            for number, claim in self.certificates.items()
            if number in self.ended
        ]

    def find_conflicts(self) -> list[str]:
        return [*self.conflicts, *self._count_claims(), *self._find_overlaps()]

    def _count_claims(self) -> Iterator[str]:
        """Each line has a retirement, and the lines of all certificates together have not more grams than it."""
        retired, older = self._by_key()
        claimed: dict[Key, int] = {}
        claimants: dict[Key, list[Claim]] = {}
        for claim in self.counted:
            for line in claim.facts["lines"]:
                key = key_of(line)
                claimed[key] = claimed.get(key, 0) + grams(line.get("quantity"))
                claimants.setdefault(key, []).append(claim)
        for key, claims in claimants.items():
            names = " and ".join(dict.fromkeys(each.name for each in claims))
            if key not in retired:
                newer = older.get(key)
                if newer is not None:
                    yield (
                        f"Retirement {newer.subject} was revised in {newer.place}, but as it was before, it is stated"
                        f" by {names}."
                    )
                elif self.has_all:
                    yield f"There is no retirement of {key[3]}, which is stated by {names}."
            elif claimed[key] > retired[key]:
                claimed_t, retired_t = show_tonnes(claimed[key]), show_tonnes(retired[key])
                yield (
                    f"{claimed_t} t of {key[3]} are claimed by {names}, but {retired_t} t were retired: a tonne is"
                    " counted twice."
                )

    def _by_key(self) -> tuple[dict[Key, int], dict[Key, Claim]]:
        """The grams by the newest statements, and which newest statement came after an older one."""
        retired: dict[Key, int] = {}
        older: dict[Key, Claim] = {}
        for *before, newest in self.retirements.values():
            key = key_of(newest.facts)
            retired[key] = retired.get(key, 0) + grams(newest.facts.get("quantity"))
            older |= {key_of(each.facts): newest for each in before}
        return retired, older

    def _find_overlaps(self) -> Iterator[str]:
        found: list[tuple[UnitRange, Claim]] = []
        for *_, newest in self.retirements.values():
            try:
                units = units_of(newest.facts)
            except NotProven as error:
                yield f"Retirement {newest.name}: {error}"
                continue
            if units is not None:
                found.append((units, newest))
        found.sort(key=lambda each: (each[0].namespace, each[0].first))
        # The range that reaches furthest so far: it can overlap with others than the next one.
        last: tuple[UnitRange, Claim] | None = None
        for units, claim in found:
            if last is not None and last[0].namespace == units.namespace and units.first <= last[0].last:
                yield (
                    f"The serials {last[0].text} of retirement {last[1].name} and {units.text} of {claim.name}"
                    f"{self._stated_by(last[1], claim)} overlap: a tonne is counted twice."
                )
            if last is None or last[0].namespace != units.namespace or units.last > last[0].last:
                last = (units, claim)

    def _stated_by(self, *retirements: Claim) -> str:
        keys = {key_of(each.facts) for each in retirements}
        names = [each.subject for each in self.counted if keys & {key_of(line) for line in each.facts["lines"]}]
        return f", stated by {' and '.join(names)}," if names else ""

    def totals(self) -> list[str]:
        """The tonnes of each organisation, in words."""
        sums: dict[str, list[int]] = {}
        for claim in self.counted:
            named = self.named.get(claim.subject)
            name = "without a name" if named is None else str(named.known_names[0])
            sums.setdefault(name, []).append(grams(claim.facts.get("total_quantity")))
        return [
            f"{name}: {show_tonnes(sum(each))} t CO2e, certificates: {len(each)}."
            for name, each in sorted(sums.items())
        ]


def _without_alias(facts: Json) -> Json:
    """A seller may correct how the serials name the project."""
    return {name: each for name, each in facts.items() if name != "serial_project"}
