from tonne.base.errors import Kind, TonneError


class OffsetLinkNotFound(TonneError):
    """Also for a link of another account, organisation or mode: the answers are identical."""

    kind = Kind.NOT_FOUND
    code = "offset_link_not_found"
    message = "There is no such offset link."


class OffsetLinkAmountInvalid(TonneError):
    kind = Kind.INVALID
    code = "offset_link_amount_invalid"
    message = "The presets and bounds of an offset link must fit each other and the account's currency."


class OffsetLinkExpiryInvalid(TonneError):
    kind = Kind.INVALID
    code = "offset_link_expiry_invalid"
    message = "The link would have expired already: give an expires_at to come, or leave it out."


class RedirectRefused(TonneError):
    kind = Kind.INVALID
    code = "redirect_url_refused"
    message = "The redirect_url must be an https address on one of the hosts that the organisation allows."
