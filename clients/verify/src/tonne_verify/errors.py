"""The error of this package."""


class NotProven(Exception):
    """Something could not be read, or does not prove what it should. The text is for people."""


class NotFetched(NotProven):
    """A server could not be reached, or answered with an error: nothing is known about the document."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
