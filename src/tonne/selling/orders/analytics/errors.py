from tonne.platform.values.errors import Kind, TonneError


class GroupingInvalid(TonneError, kind=Kind.INVALID, code="analytics_grouping_invalid"):
    message = (
        "Group by month, account, bundle, project or metadata[key]. metadata[key] cannot be combined with bundle or "
        "project, nor with another key."
    )


class MetadataKeyUnknown(TonneError, kind=Kind.INVALID, code="analytics_metadata_key_unknown"):
    message = "The account has not named this metadata key. Name it with PUT /v1/analytics/metadata-keys."


class MetadataKeyNotReady(TonneError, kind=Kind.CONFLICT, code="analytics_metadata_key_not_ready"):
    message = "Earlier orders are still being counted for this metadata key. Try again in a minute."


class TooManyGroups(TonneError, kind=Kind.INVALID, code="analytics_too_many_groups"):
    message = "The result has more than 5,000 rows. Choose a shorter time or fewer groups."
