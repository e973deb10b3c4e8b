"""Faults on purpose, in real processes, and a checker that reads the records afterwards. See docs/chaos.md."""
