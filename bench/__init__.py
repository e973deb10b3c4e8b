"""How fast the service is, as ratios taken within one run. See docs/benchmarks.md."""
