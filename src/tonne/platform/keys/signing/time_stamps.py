"""Time stamps (RFC 3161) of signatures, from the operator's time stamp server."""

import hashlib
import secrets
import urllib.error
import urllib.request

from asn1crypto import algos, cms, core, tsp

from tonne.platform.keys.signing.document_key import KeyUnusable

TIMEOUT_S = 10.0
# Far more than a time stamp with its certificates.
MAX_ANSWER_BYTES = 100_000
_GRANTED = {"granted", "granted_with_mods"}


class TimeStampServer:
    """Blocks: call it in a thread."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, signature: bytes) -> cms.ContentInfo:
        """Raises KeyUnusable if the server gives no time stamp of this signature."""
        return self.of_digest(hashlib.sha256(signature).digest())

    def of_digest(self, digest: bytes) -> cms.ContentInfo:
        """Of what has this SHA-256 hash. Raises KeyUnusable."""
        nonce = secrets.randbits(63)
        algorithm = algos.DigestAlgorithm({"algorithm": "sha256"})
        imprint = tsp.MessageImprint({"hash_algorithm": algorithm, "hashed_message": digest})
        asked = tsp.TimeStampReq(
            {"version": 1, "message_imprint": imprint, "nonce": core.Integer(nonce), "cert_req": True}
        )
        answer = self._ask(asked.dump())
        try:
            parsed = tsp.TimeStampResp.load(answer)
            status = parsed["status"]["status"].native
            stamped = parsed["time_stamp_token"]["content"]["encap_content_info"]["content"].parsed
            is_ours = stamped["message_imprint"].dump() == imprint.dump() and stamped["nonce"].native == nonce
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._failed("it did not answer with a time stamp") from error
        if status not in _GRANTED or not is_ours:
            raise self._failed(f"the time stamp is not of what was asked for, or refused ({status})")
        return parsed["time_stamp_token"]

    def _ask(self, asked: bytes) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the settings allow only http and https
            self._url, data=asked, headers={"Content-Type": "application/timestamp-query"}
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
                return bytes(answer.read(MAX_ANSWER_BYTES))
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise self._failed(str(error)) from error

    def _failed(self, reason: str) -> KeyUnusable:
        return KeyUnusable(
            f"The time stamp server {self._url} cannot be used ({reason}). Check TONNE_DOCUMENT_TIME_STAMP_URL."
        )
