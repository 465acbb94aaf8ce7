# mypy: ignore-errors
"""What a GPU runs for `fused_kernels`, in Triton's own language; the names are None where Triton is not installed."""

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

__all__ = ["bound_kernel", "fold_kernel", "gram_kernel"]

gram_kernel: Any = None
bound_kernel: Any = None
fold_kernel: Any = None

if triton is not None:

    @triton.jit
    def _dots(
        x, first, second, positions, size,
        TILE: tl.constexpr, STEP: tl.constexpr, CHUNK: tl.constexpr,
    ):  # fmt: skip
        """Dot products between two tiles of positions; a chunk of columns has an accumulator of its own."""
        rows = first * TILE + tl.arange(0, TILE)
        others = second * TILE + tl.arange(0, TILE)
        total = tl.zeros((TILE, TILE), dtype=tl.float32)
        for start in range(0, size, CHUNK):
            part = tl.zeros((TILE, TILE), dtype=tl.float32)
            for step in tl.static_range(CHUNK // STEP):
                column = start + step * STEP + tl.arange(0, STEP)
                left = tl.load(
                    x + rows[:, None] * size + column[None, :],
                    mask=(rows[:, None] < positions) & (column[None, :] < size),
                    other=0.0,
                )
                right = tl.load(
                    x + others[None, :] * size + column[:, None],
                    mask=(others[None, :] < positions) & (column[:, None] < size),
                    other=0.0,
                )
                part = tl.dot(left, right, part)
            total += part
        return total

    @triton.jit
    def _lengths(dots, slack, floor, most, TILE: tl.constexpr):
        """Upper bounds on the lengths of the positions of a tile, from the dot products with themselves."""
        line = tl.arange(0, TILE)
        squares = tl.sum(tl.where(line[:, None] == line[None, :], dots, 0.0), 1).to(tl.float64)
        norms = tl.sqrt(squares) * slack + floor
        return tl.where(norms <= most, norms, float("inf"))

    @triton.jit
    def gram_kernel(
        a, g, out, positions, size_a, size_g, slack_a, slack_g, floor_a, floor_g, most,
        TILE: tl.constexpr, STEP: tl.constexpr, CHUNK: tl.constexpr,
    ):  # fmt: skip
        """One program: one example and two tiles of its positions; sums of (a_t . a_s) (g_t . g_s), and their S."""
        pair = tl.program_id(0)
        example = tl.program_id(1).to(tl.int64)
        # Pairs (second <= first) are counted line by line: (0, 0), (1, 0), (1, 1), (2, 0), ...
        first = 0
        start = 0
        while start + first + 1 <= pair:
            start += first + 1
            first += 1
        second = pair - start
        met = _dots(a + example * positions * size_a, first, second, positions, size_a, TILE, STEP, CHUNK)
        back = _dots(g + example * positions * size_g, first, second, positions, size_g, TILE, STEP, CHUNK)
        product = met.to(tl.float64) * back.to(tl.float64)
        square = tl.sum(tl.sum(product, 1), 0)
        whole = tl.zeros((), dtype=tl.float64)
        if first == second:
            known = first * TILE + tl.arange(0, TILE) < positions
            long = _lengths(met, slack_a, floor_a, most, TILE) * _lengths(back, slack_g, floor_g, most, TILE)
            whole = tl.sum(tl.where(known, long, 0.0), 0)
        else:
            square = square * 2
        place = example * tl.num_programs(0) + pair
        tl.store(out + place, square)
        tl.store(out + tl.num_programs(1).to(tl.int64) * tl.num_programs(0) + place, whole)

    @triton.jit
    def bound_kernel(parts, out, count, pairs, kappa, slack, TILE: tl.constexpr):
        """The sums of `gram_kernel` over pairs of tiles, and the bound that follows, for a tile of examples."""
        example = tl.program_id(0) * TILE + tl.arange(0, TILE)
        known = example < count
        square = tl.zeros((TILE,), dtype=tl.float64)
        whole = tl.zeros((TILE,), dtype=tl.float64)
        for pair in range(pairs):
            square += tl.load(parts + example * pairs + pair, mask=known, other=0.0)
            whole += tl.load(parts + (count + example) * pairs + pair, mask=known, other=0.0)
        whole = whole * slack
        bound = (tl.where(square > 0.0, square, 0.0) + kappa * whole * whole) * slack
        usable = (whole < float("inf")) & (square < float("inf")) & (bound < float("inf"))
        tl.store(out + example, tl.where(usable, bound, float("inf")), mask=known)
        tl.store(out + count + example, tl.where(usable, whole, float("inf")), mask=known)

    @triton.jit
    def fold_kernel(
        x, factors, out, rows, positions, size, line,
        SCALED: tl.constexpr, ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """Each row times its example's factor, or as it is; zero where the factor is, whatever stood there."""
        row = tl.program_id(1).to(tl.int64) * ROW_TILE + tl.arange(0, ROW_TILE)
        column = tl.program_id(0) * TILE + tl.arange(0, TILE)
        known = (row[:, None] < rows) & (column[None, :] < size)
        factor = tl.load(factors + row // positions, mask=row < rows, other=0.0)[:, None]
        value = tl.load(x + row[:, None] * size + column[None, :], mask=known, other=0.0).to(tl.float32)
        if SCALED:
            value = value * factor
        value = tl.where(factor != 0.0, value, 0.0)
        tl.store(out + row[:, None] * line + column[None, :], value.to(out.dtype.element_ty), mask=known)
