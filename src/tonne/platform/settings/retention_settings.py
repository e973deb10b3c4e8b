"""Settings of what is archived."""

# Tables with partitions that can be archived and removed.
ARCHIVABLE = ("events", "webhook_attempts", "mails")


def parse_tables(text: str) -> tuple[str, ...]:
    """`events, mails`; raises ValueError if a part is no table that can be archived."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if name not in ARCHIVABLE:
            raise ValueError(f"{name} cannot be archived. Name some of {', '.join(ARCHIVABLE)}, separated by commas")
    return names
