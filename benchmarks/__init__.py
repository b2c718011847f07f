"""One harness, small cases: `python -m benchmarks --help`."""
