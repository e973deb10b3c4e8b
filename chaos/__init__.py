"""Fault injection into real processes, and a checker that reads the records afterwards. See docs/chaos.md."""
