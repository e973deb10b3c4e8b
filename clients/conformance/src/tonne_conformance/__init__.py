"""Proves, from outside, that an installation keeps every sentence of its interface."""
