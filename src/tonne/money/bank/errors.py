from tonne.platform.values.errors import Kind, TonneError


class TransferNotUnresolved(TonneError, kind=Kind.NOT_FOUND, code="transfer_not_unresolved"):
    """On the command line: a transfer is resolved that does not exist, matched an invoice, or is resolved already.

    Run `tonne transfer list` to see all.
    """

    message = "There is no unresolved transfer with this id. Run `tonne transfer list` to see all."


class TransferNotFound(TonneError, kind=Kind.NOT_FOUND, code="transfer_not_found"):
    """On the command line: there is no transfer with this id.

    Run `tonne transfer list --state all`.
    """

    message = "There is no such transfer. Run `tonne transfer list` to see those that wait for you."


class ReturnNotFound(TonneError, kind=Kind.NOT_FOUND, code="return_not_found"):
    """On the command line: there is no return or batch with this id.

    Run `tonne transfer returns`.
    """

    message = "There is no such return. Run `tonne transfer returns` to see all that are open."


class ReturnInvalid(TonneError, kind=Kind.CONFLICT, code="return_invalid"):
    """On the command line: more is to go back than is left, or the return is not in a state that allows it.

    Run `tonne transfer show` and follow the message.
    """

    message = "The money cannot be returned like this."
