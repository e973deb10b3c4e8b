"""Builds the documentation: pages of `docs`, a reference of the API, and the files of the repository they link to."""
