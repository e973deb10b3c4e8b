from collections.abc import Sequence

from tonne.platform.values.errors import Kind, TonneError

# As many reasons as a message names.
_NAMED = 10


class PersonInvalid(TonneError, kind=Kind.INVALID, code="person_invalid"):
    """A person is exported or erased by neither or both of `email` and `name`, or by an invalid one.

    Send one of them.
    """

    message = "Give the e-mail address of the person, or else the name on the certificate."


class PersonsNotAllowed(TonneError, kind=Kind.FORBIDDEN, code="persons_not_allowed"):
    """The data of a person is exported or erased with an API key that may not do that.

    Use a live key that was created with `tonne key create --allow persons`.
    """

    message = (
        "This API key may not export or erase the data of persons. Ask the seller for a live key with this right "
        "(`tonne key create --allow persons`)."
    )


class PersonInUse(TonneError, kind=Kind.CONFLICT, code="person_in_use"):
    """A person is erased while an order, refund, checkout or mail still needs the address or the name, or while an
    organisation uses the address.

    Wait until what the message names is finished, then repeat the request.
    """

    message = "The person cannot be erased yet."

    def __init__(self, reasons: Sequence[str]) -> None:
        more = f" And {len(reasons) - _NAMED} more." if len(reasons) > _NAMED else ""
        super().__init__(f"The person cannot be erased yet. {' '.join(reasons[:_NAMED])}{more}")
        self.reasons = reasons


class ErasureListInvalid(TonneError, kind=Kind.INVALID, code="erasure_list_invalid"):
    """On the command line: the file given to `tonne person repeat` is no list of erasures.

    Give what `tonne person list --json` printed.
    """

    message = "The file is not a list of erasures. Give what `tonne person list --json` printed."
