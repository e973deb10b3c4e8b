"""Sections 5.2, 6.4 and 9: signed requests."""

from tests.mutants.mutant import Mutant

FILE = "channels/webhooks/sending/signing.py"
KEYED = 'hmac.new(secret.encode(), b"%d." % timestamp, hashlib.sha256)'
PAIRS = 'pairs = [f"timestamp={timestamp}", f"organisation={organisation_id}"]'
COMPUTE = "signatures.every_signature_is_the_expected_one"


def _mutant(name: str, old: str, new: str, check: str) -> Mutant:
    return Mutant(name, FILE, old, new, check)


MUTANTS = [
    _mutant("no timestamp is signed", KEYED, "hmac.new(secret.encode(), b'', hashlib.sha256)", COMPUTE),
    _mutant("no dot is signed", KEYED, KEYED.replace("%d.", "%d"), COMPUTE),
    _mutant(
        "the key has no prefix",
        KEYED,
        KEYED.replace("secret.encode()", "secret.removeprefix(PREFIX).encode()"),
        COMPUTE,
    ),
    _mutant("the body is cut off", "signature.update(body)", "signature.update(body[:200])", COMPUTE),
    _mutant("another hash", KEYED, KEYED.replace("sha256", "sha512"), "signatures.the_signature_has_256_bits"),
    _mutant(
        "a signature in upper case",
        "return signature.hexdigest()",
        "return signature.hexdigest().upper()",
        "signatures.every_request_of_another_receiver_is_signed_with_its_secret",
    ),
    _mutant(
        "a signature over parsed JSON",
        "signature.update(body)",
        'signature.update(__import__("json").dumps(__import__("json").loads(body)).encode())',
        "signatures.the_signature_is_over_the_raw_bytes",
    ),
    _mutant(
        "the organisation comes first",
        PAIRS,
        'pairs = [f"organisation={organisation_id}", f"timestamp={timestamp}"]',
        "signatures.the_header_has_its_format",
    ),
    _mutant(
        "pairs with a semicolon",
        'return ",".join(pairs)',
        'return ";".join(pairs)',
        "signatures.the_header_has_its_format",
    ),
    _mutant(
        "no timestamp in the header",
        PAIRS,
        'pairs = [f"t={timestamp}", f"organisation={organisation_id}"]',
        "signatures.each_part_of_the_header_is_there.timestamp",
    ),
    _mutant(
        "no organisation in the header",
        PAIRS,
        'pairs = [f"timestamp={timestamp}", f"org={organisation_id}"]',
        "signatures.each_part_of_the_header_is_there.organisation",
    ),
    _mutant(
        "another organisation",
        PAIRS,
        'pairs = [f"timestamp={timestamp}", "organisation=org_1"]',
        "signatures.the_organisation_is_the_one_of_the_account",
    ),
    _mutant("v2", 'f"v1={sign(', 'f"v2={sign(', "signatures.the_scheme_of_the_signature_is_v1"),
    _mutant("no v1", 'f"v1={sign(', 'f"sha256={sign(', "signatures.each_part_of_the_header_is_there.v1"),
    Mutant(
        "a timestamp in milliseconds",
        "channels/webhooks/delivery/send_batch.py",
        "timestamp=int(self._wall_clock()),",
        "timestamp=int(self._wall_clock() * 1000),",
        "signatures.the_timestamp_is_in_seconds",
    ),
    Mutant(
        "a timestamp of the day before",
        "channels/webhooks/delivery/send_batch.py",
        "timestamp=int(self._wall_clock()),",
        "timestamp=int(self._wall_clock()) - 86_400,",
        "signatures.the_timestamp_is_when_the_request_was_sent",
    ),
]
