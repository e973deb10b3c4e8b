from tonne.platform.values.errors import Kind, TonneError


class StatusListNotFound(TonneError, kind=Kind.NOT_FOUND, code="status_list_not_found"):
    """There is no [status list](credentials.md#status) with this name.

    Use `credentialStatus.statusListCredential` of the credential.
    """

    message = "There is no such status list. `credentialStatus.statusListCredential` of a credential names its list."
