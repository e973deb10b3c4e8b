from tonne.platform.values.errors import Kind, TonneError


class StatusListNotFound(TonneError, kind=Kind.NOT_FOUND, code="status_list_not_found"):
    message = "There is no such status list. `credentialStatus.statusListCredential` of a credential names its list."
