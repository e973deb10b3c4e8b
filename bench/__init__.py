"""Benchmarks, reported as ratios against a limit measured in the same run. See docs/benchmarks.md."""
