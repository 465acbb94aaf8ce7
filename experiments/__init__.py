"""Every figure and table of the paper, recomputed with the public interface of `inid`: one file each.

`python -m experiments` runs them all and writes results/ and docs/paper.md; `--fast` takes minutes and writes to out/.
Start reading in `study` (records, seeds, resuming), then in any file named for a figure or table.
"""
