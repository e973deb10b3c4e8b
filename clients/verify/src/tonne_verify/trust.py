"""The policy file that `tonne-verify trust add` writes, and that counts if no other is given."""

import os
from pathlib import Path

from tonne_verify.errors import NotProven
from tonne_verify.files import write_text
from tonne_verify.notes import SignatureType, VerifierKey
from tonne_verify.policy import NONE, Policy

GROUP = "trusted"
HEADER = (
    "# Logs and witnesses that you trust (c2sp.org/tlog-policy). `tonne-verify trust add` writes the last lines anew."
)


def own_policy() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "tonne-verify" / "policy"


def load_policy(path: Path | None, *, accept_no_witness: bool = False) -> Policy:
    """The policy in the file; without one your own, if you have trusted somebody, or the built-in one."""
    policy = Policy()
    if path is not None or own_policy().exists():
        found = path or own_policy()
        policy = Policy.parse(_read(found), str(found))
    return policy.accepting_no_witness() if accept_no_witness else policy


def add_trust(kind: str, vkey: str, url: str | None, path: Path) -> list[str]:
    """Adds a log or a witness. Returns what is now trusted, in words."""
    key = VerifierKey.parse(vkey)
    content = _read(path).decode("utf-8", "surrogateescape") if path.exists() else HEADER
    policy = Policy.parse(content.encode("utf-8", "surrogateescape"), str(path)) if path.exists() else Policy()
    if policy.quorum not in {NONE, GROUP}:
        raise NotProven(f"{path} has a quorum of its own. Add the line and the member of the group by hand.")
    lines = [line for line in content.rstrip("\n").split("\n") if line.split()[:2] not in _written()]
    name = [key.name] if kind == "witness" else []
    lines.append(" ".join([kind, *name, key.vkey, *([url] if url else [])]))
    witnesses = [*policy.witnesses, *name]
    lines += [f"group {GROUP} any {' '.join(witnesses)}", f"quorum {GROUP}"] if witnesses else [f"quorum {NONE}"]
    text = "\n".join(lines) + "\n"
    Policy.parse(text.encode("utf-8", "surrogateescape"), str(path))
    write_text(path, text)
    return [
        f"Trusted as a {kind} from now on: {key.name}",
        f"  key id   {key.id.hex()}",
        f"  key      {key.public.hex()[:64]} ({_KINDS[key.kind]})",
        f"  written  {path}",
        f"Compare the key with what {key.name} publishes in another place than the seller's website.",
    ]


_KINDS = {
    SignatureType.ED25519: "Ed25519, signs notes",
    SignatureType.COSIGNATURE: "Ed25519, cosigns",
    SignatureType.ML_DSA_44: "ML-DSA-44, cosigns",
}


def _written() -> list[list[str]]:
    return [["group", GROUP], ["quorum", GROUP], ["quorum", NONE]]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotProven(f"{path} cannot be read: {error.strerror}.") from None
