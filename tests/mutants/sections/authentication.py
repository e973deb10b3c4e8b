"""Sections 1, 2.1 and 5.1: API keys."""

from tests.mutants.mutant import Mutant

FILE = "platform/http/authenticator.py"
OLD = """        if holder is None:
            self._keys.drop(digest)
            self._failures.consume(client)
            raise errors.Unauthorised(None if b"authorization" in headers else _NO_HEADER)
        self._keys.put(digest, holder)
        return holder
"""
# Requests that it does not refuse are those of the key that came before.
NEW = """        if holder is None and {}:
            self._keys.drop(digest)
            self._failures.consume(client)
            raise errors.Unauthorised(None if b"authorization" in headers else _NO_HEADER)
        holder = holder or self.last
        self.last = holder
        return holder
"""


def _lets_in(name: str, refused: str, check: str) -> Mutant:
    return Mutant(name, FILE, OLD, NEW.format(refused), check)


_WITH_HEADER = 'b"authorization" in headers'
_OTHER_KEY = 'key != b"not-a-key"'

MUTANTS = [
    _lets_in("no key is needed", _WITH_HEADER, "authentication.each_endpoint_refuses_a_request_without_a_key.orders"),
    _lets_in("a wrong key is accepted", _OTHER_KEY, "authentication.each_endpoint_refuses_a_wrong_key.orders"),
    _lets_in("a key in the address is enough", _WITH_HEADER, "authentication.a_key_in_the_address_is_not_enough"),
    _lets_in("every Bearer is accepted", "not is_bearer", "authentication.each_wrong_header_is_refused.cut-off"),
    _lets_in("a wrong key gets certificates", _OTHER_KEY, "authentication.a_certificate_is_not_given_to_a_wrong_key"),
    _lets_in("certificates are public", _WITH_HEADER, "overview.the_certificate_needs_a_key"),
    _lets_in(
        "certificates are anonymous", _WITH_HEADER, "order_rules.the_certificate_is_refused_without_a_valid_key.no-key"
    ),
    Mutant(
        "Basic is accepted",
        FILE,
        'is_bearer = scheme.lower() == b"bearer"',
        'is_bearer = scheme.lower() in {b"bearer", b"basic"}',
        "authentication.each_wrong_header_is_refused.basic",
    ),
]
