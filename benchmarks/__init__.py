"""Measurements of what the package promises, on real data and networks; run with `python -m benchmarks`."""
