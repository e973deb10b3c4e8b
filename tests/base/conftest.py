"""Hypothesis, for the whole run: a slow moment of the machine is no fault of the code."""

from hypothesis import settings

settings.register_profile("tonne", deadline=None)
settings.load_profile("tonne")
