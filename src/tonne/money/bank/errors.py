from tonne.platform.values.errors import Kind, TonneError


class TransferNotUnresolved(TonneError, kind=Kind.NOT_FOUND, code="transfer_not_unresolved"):
    message = "There is no unresolved transfer with this id. Run `tonne transfer list` to see all."


class TransferNotFound(TonneError, kind=Kind.NOT_FOUND, code="transfer_not_found"):
    message = "There is no such transfer. Run `tonne transfer list` to see those that wait for you."


class ReturnNotFound(TonneError, kind=Kind.NOT_FOUND, code="return_not_found"):
    message = "There is no such return. Run `tonne transfer returns` to see all that are open."


class ReturnInvalid(TonneError, kind=Kind.CONFLICT, code="return_invalid"):
    message = "The money cannot be returned like this."


class SecondPersonNeeded(TonneError, kind=Kind.CONFLICT, code="second_person_needed"):
    message = "Another person must approve this return: it goes to another account, or the amount is high."
