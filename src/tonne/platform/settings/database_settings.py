"""Which combinations of the URLs of the database are valid."""

from tonne.platform.values.urls import is_database_url


def find_fault(url: str, direct_url: str, replica_url: str, *, pooling: str) -> str | None:
    """What is wrong with the settings, and what to do. The URLs are not repeated: they contain passwords."""
    urls = {
        "TONNE_DATABASE_URL": url,
        "TONNE_DATABASE_DIRECT_URL": direct_url,
        "TONNE_DATABASE_REPLICA_URL": replica_url,
    }
    for name, value in urls.items():
        if value and not is_database_url(value):
            return f"{name} must be a URL that starts with postgresql://."
        if value and not url:
            return f"{name} is set without TONNE_DATABASE_URL: the embedded database does not use it. Set both or none."
    if pooling == "transaction" and not direct_url:
        return (
            "TONNE_DATABASE_POOLING is transaction, so TONNE_DATABASE_DIRECT_URL must be set to the URL of PostgreSQL "
            "itself: notifications and migrations do not work through such a pooler."
        )
    return None
