from tonne.platform.values.errors import Kind, TonneError


class LogNotPublished(TonneError, kind=Kind.CONFLICT, code="log_not_published"):
    """On the command line: `tonne log reopen` is used for a log without a checkpoint.

    Nothing: its entries are not published yet.
    """

    message = "No checkpoint of this log was published, so there is nothing to reopen: its entries can still change."


class LogHeadInvalid(TonneError, kind=Kind.CONFLICT, code="log_head_invalid"):
    """On the command line: `tonne log reopen` finds a file with the last signed checkpoint that is empty or too long.

    Restore the file, see [Transparency log](transparency-log.md#the-head-file).
    """

    message = "The file with the last signed checkpoint cannot be read. Restore it, then try again."
