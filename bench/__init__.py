"""Benchmarks: each module prints ratios against a named peer, measured in the same run. Run them by `make bench`."""
