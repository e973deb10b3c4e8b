"""Inclusion proofs in the format c2sp.org/tlog-proof."""

import re
from dataclasses import dataclass
from typing import Self

from tonne_verify.base64_strict import decode_base64, encode_base64
from tonne_verify.errors import NotProven

HEADER = "c2sp.org/tlog-proof@v1"
MAX_PROOF_LENGTH = 1_000_000
MAX_HASHES = 64


@dataclass(frozen=True, slots=True)
class TlogProof:
    index: int
    hashes: tuple[bytes, ...]
    checkpoint: str  # the whole signed note
    extra: bytes | None = None

    def format(self) -> str:
        extra = [] if self.extra is None else [f"extra {encode_base64(self.extra)}"]
        lines = [HEADER, *extra, f"index {self.index}", *map(encode_base64, self.hashes), ""]
        return "\n".join(lines) + "\n" + self.checkpoint

    @classmethod
    def parse(cls, text: str) -> Self:
        head, gap, checkpoint = text.partition("\n\n")
        lines = head.split("\n")
        if len(text) > MAX_PROOF_LENGTH or not gap or lines.pop(0) != HEADER:
            raise NotProven(f"This is not an inclusion proof: it does not start with `{HEADER}`.")
        extra = None
        if lines and lines[0].startswith("extra "):
            extra = decode_base64(lines.pop(0).removeprefix("extra "))
        index = re.fullmatch(r"index (0|[1-9][0-9]{0,18})", lines.pop(0) if lines else "")
        if index is None or len(lines) > MAX_HASHES:
            raise NotProven("The inclusion proof does not say which entry it is for, or has too many hashes.")
        return cls(int(index[1]), tuple(decode_base64(line) for line in lines), checkpoint, extra)
