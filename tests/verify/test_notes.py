"""Signed notes, checkpoints, cosignatures and tlog-proofs."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tonne_verify.errors import NotProven
from tonne_verify.notes import Checkpoint, NoteKey, SignatureType, VerifierKey, open_note
from tonne_verify.proofs import TlogProof

# Published with Go's package golang.org/x/mod/sumdb/note.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
QUOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
LOG = NoteKey("offsets.example.com/log", Ed25519PrivateKey.from_private_bytes(bytes(32)))
WITNESS = NoteKey("witness.example.com/w1", Ed25519PrivateKey.from_private_bytes(b"w" * 32), SignatureType.COSIGNATURE)
CHECKPOINT = Checkpoint("offsets.example.com/log", 7, bytes(range(32)))


def signed(checkpoint: Checkpoint = CHECKPOINT) -> str:
    return f"{checkpoint.text}\n{LOG.sign(checkpoint.text)}"


def test_a_published_note() -> None:
    key = VerifierKey.parse(PETER)
    assert key.vkey == PETER
    note = open_note(QUOTE, [key])
    assert note.text.startswith("If you think")
    assert [each.key for each in note.signatures] == [key]
    with pytest.raises(NotProven, match="PeterNeumann is wrong"):
        open_note(QUOTE.replace("answer", "Answer"), [key])
    with pytest.raises(NotProven, match="None of the known keys"):
        open_note(QUOTE, [LOG.public])


def test_signing_a_checkpoint() -> None:
    note = open_note(signed(), [VerifierKey.parse(LOG.vkey)])
    assert Checkpoint.parse(note.text) == CHECKPOINT
    assert note.is_signed_by([LOG.public])
    assert not note.is_signed_by([WITNESS.public])


def test_a_witness_cosigns() -> None:
    note = signed() + WITNESS.cosign(CHECKPOINT.text, 1_790_000_000)
    opened = open_note(note, [LOG.public, VerifierKey.parse(WITNESS.vkey)])
    assert [(each.key.name, each.at) for each in opened.signatures] == [
        (LOG.name, None),
        (WITNESS.name, 1_790_000_000),
    ]
    other = signed() + WITNESS.cosign(Checkpoint(CHECKPOINT.origin, 8, CHECKPOINT.root).text, 1_790_000_000)
    with pytest.raises(NotProven, match=r"witness\.example\.com/w1 is wrong"):
        open_note(other, [LOG.public, WITNESS.public])
    # A client that does not know the witness is not concerned.
    assert len(open_note(other, [LOG.public]).signatures) == 1


def test_a_cosignature_of_an_unknown_key_is_ignored() -> None:
    """The name is that of a known witness, the key is not. The example of c2sp.org/tlog-cosignature."""
    line = (
        "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5n"
        "No0xUe+mbIUBkBIfZ+qnA==\n"
    )
    note = f"{CHECKPOINT.text}\n{LOG.sign(CHECKPOINT.text)}{line}"
    assert len(open_note(note, [LOG.public, WITNESS.public]).signatures) == 1


@pytest.mark.parametrize(
    "note",
    [
        "",
        "text\n",
        "text\n\n",
        signed()[:-1],
        signed().replace("\n\n", "\n"),
        signed().replace("— ", "- "),
        signed().replace("\n7\n", "\n7\r\n"),
        signed() + "junk\n",
        signed() + LOG.sign("x\n") * 100,
        signed().replace("=\n", "\n"),
    ],
)
def test_what_is_no_note(note: str) -> None:
    with pytest.raises(NotProven):
        open_note(note, [LOG.public])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n1\n",
        f"a\n01\n{'A' * 43}=\n",
        f"a\n-1\n{'A' * 43}=\n",
        "a\n1\nAAAA\n",
        f"a\n1\n{'A' * 43}=\n\nb\n",
        f"\n1\n{'A' * 43}=\n",
        f"a\n1\n{'A' * 43}=",
    ],
)
def test_what_is_no_checkpoint(text: str) -> None:
    with pytest.raises(NotProven):
        Checkpoint.parse(text)


@pytest.mark.parametrize(
    "vkey",
    [
        "",
        "name",
        "name+00000000+AQ==",
        PETER.replace("c74f20a3", "c74f20a4"),
        PETER.replace("+AR", "+Ag"),
        "a b" + PETER,
    ],
)
def test_what_is_no_public_key(vkey: str) -> None:
    with pytest.raises(NotProven):
        VerifierKey.parse(vkey)


def test_a_proof_is_text() -> None:
    proof = TlogProof(5, (bytes(32), bytes(range(32))), signed(), b"extra")
    text = proof.format()
    assert text.startswith("c2sp.org/tlog-proof@v1\nextra ZXh0cmE=\nindex 5\nAAAA")
    assert text.endswith("\n\n" + signed())
    assert TlogProof.parse(text) == proof
    alone = TlogProof(0, (), signed())
    assert TlogProof.parse(alone.format()) == alone
    for broken in (
        text.replace("index 5", "index 05"),
        text.replace("@v1", "@v2"),
        text.replace("AAAA", "!AAA", 1),
        "",
    ):
        with pytest.raises(NotProven):
            TlogProof.parse(broken)
