from tonne.platform.values.errors import Kind, TonneError


class GroupingInvalid(TonneError, kind=Kind.INVALID, code="analytics_grouping_invalid"):
    """`group_by` has a word that is unknown or repeated, or words that cannot be combined.

    See [analytics](analytics.md#orders).
    """

    message = (
        "Group by month, account, bundle, project or metadata[key]. metadata[key] cannot be combined with bundle or "
        "project, nor with another key."
    )


class MetadataKeyUnknown(TonneError, kind=Kind.INVALID, code="analytics_metadata_key_unknown"):
    """Analytics are grouped by, or filtered on, a metadata key that the account has not named.

    Name it with `PUT /v1/analytics/metadata-keys`.
    """

    message = "The account has not named this metadata key. Name it with PUT /v1/analytics/metadata-keys."


class MetadataKeyNotReady(TonneError, kind=Kind.CONFLICT, code="analytics_metadata_key_not_ready"):
    """Earlier orders are still being counted for a new metadata key.

    Try again in a minute.
    """

    message = "Earlier orders are still being counted for this metadata key. Try again in a minute."


class TooManyGroups(TonneError, kind=Kind.INVALID, code="analytics_too_many_groups"):
    """The result would have more than 5,000 rows.

    Choose a shorter time or fewer groups.
    """

    message = "The result has more than 5,000 rows. Choose a shorter time or fewer groups."
