"""Every figure and table of the paper, recomputed with the public interface of `inid`: one file each.

`python -m experiments` runs them all and writes results/ with results/verdicts.md; `--fast` takes minutes, into out/.
Start reading in `study` (records, seeds, resuming), then in any file named for a figure or table.
"""
