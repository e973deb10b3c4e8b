from tonne.platform.values.errors import Kind, TonneError


class LogNotPublished(TonneError, kind=Kind.CONFLICT, code="log_not_published"):
    message = "No checkpoint of this log was published, so there is nothing to reopen: its entries can still change."


class LogHeadInvalid(TonneError, kind=Kind.CONFLICT, code="log_head_invalid"):
    message = "The file with the last signed checkpoint cannot be read. Restore it, then try again."
