"""Evidence: an opening with the proof that its entry is in the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tonne_verify.errors import NotProven
from tonne_verify.issuer import Issuer, IssuerLog
from tonne_verify.merkle import check_inclusion, leaf_hash
from tonne_verify.notes import Checkpoint, NoteSignature, split_note
from tonne_verify.openings import Opening, StatementKind
from tonne_verify.policy import Policy
from tonne_verify.proofs import TlogProof

EVIDENCE_TYPE = "TransparencyLogEntry"


@dataclass(frozen=True, slots=True)
class ProvenEntry:
    """A statement that is in the log. `signatures` are those of its checkpoint that were verified."""

    opening: Opening
    log: IssuerLog
    checkpoint: Checkpoint
    proof: TlogProof
    signatures: tuple[NoteSignature, ...]

    @property
    def index(self) -> int:
        return self.proof.index

    @property
    def leaf(self) -> bytes:
        return leaf_hash(self.opening.commitment())

    @property
    def signature_lines(self) -> list[str]:
        """All lines below the checkpoint, most of them not verified."""
        return split_note(self.proof.checkpoint)[1]

    @property
    def kind(self) -> StatementKind:
        return StatementKind(self.opening.statement["kind"])

    @property
    def subject(self) -> str:
        return str(self.opening.statement["subject"])

    @property
    def facts(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self.opening.statement["facts"]
        return facts


def check_evidence(evidence: Any, issuer: Issuer, policy: Policy) -> ProvenEntry:
    """Raises NotProven unless the statement is in a log of the issuer, by a checkpoint that the log has signed."""
    opening = Opening.from_json(evidence)
    opening.check()
    if not isinstance(evidence.get("proof"), str):
        raise NotProven("The entry has no inclusion proof.")
    return check_proof(TlogProof.parse(evidence["proof"]), opening, issuer, policy)


def check_proof(proof: TlogProof, opening: Opening, issuer: Issuer, policy: Policy) -> ProvenEntry:
    log = issuer.log(Checkpoint.parse(split_note(proof.checkpoint)[0]).origin)
    note = log.open_checkpoint(proof.checkpoint, policy.witness_keys)
    if opening.statement["mode"] != log.mode:
        raise NotProven(f"The statement is of the mode {opening.statement['mode']!r}, the log of the mode {log.mode}.")
    checkpoint = Checkpoint.parse(note.text)
    leaf = leaf_hash(opening.commitment())
    check_inclusion(leaf, proof.index, checkpoint.size, proof.hashes, checkpoint.root)
    return ProvenEntry(opening, log, checkpoint, proof, note.signatures)
