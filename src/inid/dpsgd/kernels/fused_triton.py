# mypy: ignore-errors
"""What a GPU runs for `fused_kernels`, in Triton's own language; the names are None where Triton is not installed."""

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

__all__ = ["bound_kernel", "direct_kernel", "fold_kernel", "gram_kernel", "pair_kernel", "whole_kernel"]

gram_kernel: Any = None
bound_kernel: Any = None
fold_kernel: Any = None
pair_kernel: Any = None
direct_kernel: Any = None
whole_kernel: Any = None

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
    def bound_kernel(squares, wholes, out, count, of_squares, of_wholes, kappa, slack, TILE: tl.constexpr):
        """One program: one example; its bound and its S from the parts of both that other programs made."""
        example = tl.program_id(0).to(tl.int64)
        square = tl.zeros((TILE,), dtype=tl.float64)
        for start in range(0, of_squares, TILE):
            part = start + tl.arange(0, TILE)
            square += tl.load(squares + example * of_squares + part, mask=part < of_squares, other=0.0)
        whole = tl.zeros((TILE,), dtype=tl.float64)
        for start in range(0, of_wholes, TILE):
            part = start + tl.arange(0, TILE)
            whole += tl.load(wholes + example * of_wholes + part, mask=part < of_wholes, other=0.0)
        square = tl.sum(square, 0)
        whole = tl.sum(whole, 0) * slack
        bound = (tl.where(square > 0.0, square, 0.0) + kappa * whole * whole) * slack
        usable = (whole < float("inf")) & (square < float("inf")) & (bound < float("inf"))
        tl.store(out + example, tl.where(usable, bound, float("inf")))
        tl.store(out + count + example, tl.where(usable, whole, float("inf")))

    @triton.jit
    def _fold(
        x, factors, out, tile, rows, positions, size, line,
        SCALED: tl.constexpr, ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(1).to(tl.int64) * ROW_TILE + tl.arange(0, ROW_TILE)
        column = tile * TILE + tl.arange(0, TILE)
        known = (row[:, None] < rows) & (column[None, :] < size)
        factor = tl.load(factors + row // positions, mask=row < rows, other=0.0)[:, None]
        value = tl.load(x + row[:, None] * size + column[None, :], mask=known, other=0.0).to(tl.float32)
        if SCALED:
            value = value * factor
        value = tl.where(factor != 0.0, value, 0.0)
        tl.store(out + row[:, None] * line + column[None, :], value.to(out.dtype.element_ty), mask=known)

    @triton.jit
    def fold_kernel(
        x, factors, out, rows, positions, size, line,
        SCALED: tl.constexpr, ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """Each row times its example's factor, or as it is; zero where the factor is, whatever stood there."""
        _fold(x, factors, out, tl.program_id(0), rows, positions, size, line, SCALED, ROW_TILE, TILE)

    @triton.jit
    def pair_kernel(
        g, a, factors, out_g, out_a, rows, positions, size_g, size_a, line_g, line_a, tiles,
        ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """What `fold_kernel` does to two arrays: the first, of so many tiles, is scaled; the second is not."""
        tile = tl.program_id(0)
        if tile < tiles:
            _fold(g, factors, out_g, tile, rows, positions, size_g, line_g, True, ROW_TILE, TILE)
        else:
            _fold(a, factors, out_a, tile - tiles, rows, positions, size_a, line_a, False, ROW_TILE, TILE)

    @triton.jit
    def direct_kernel(
        a, g, out, positions, size_a, size_g,
        TILE: tl.constexpr, STEP: tl.constexpr, TOGETHER: tl.constexpr,
    ):  # fmt: skip
        """One program: one example, a tile of the product sum_t g_t a_t^T; the sum of its squares."""
        example = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(size_a, TILE)
        down = tl.cdiv(size_g, TILE)
        # Programs that run at the same time take tiles near each other, which read the same lines.
        band = tl.program_id(0) // (TOGETHER * across)
        high = tl.minimum(down - band * TOGETHER, TOGETHER)
        within = tl.program_id(0) % (TOGETHER * across)
        o = (band * TOGETHER + within % high) * TILE + tl.arange(0, TILE)
        i = (within // high) * TILE + tl.arange(0, TILE)
        a += example * positions * size_a
        g += example * positions * size_g
        total = tl.zeros((TILE, TILE), dtype=tl.float32)
        for start in range(0, positions, STEP):
            t = start + tl.arange(0, STEP)
            left = tl.load(
                g + t[:, None] * size_g + o[None, :], mask=(t[:, None] < positions) & (o[None, :] < size_g), other=0.0
            )
            right = tl.load(
                a + t[:, None] * size_a + i[None, :], mask=(t[:, None] < positions) & (i[None, :] < size_a), other=0.0
            )
            total = tl.dot(tl.trans(left), right, total)
        wide = total.to(tl.float64)
        tl.store(out + example * tl.num_programs(0) + tl.program_id(0), tl.sum(tl.sum(wide * wide, 1), 0))

    @triton.jit
    def _long(x, t, positions, size, slack, floor, most, ROW_TILE: tl.constexpr, TILE: tl.constexpr):
        """Upper bounds on the lengths of some positions; infinite where one is not to be used."""
        total = tl.zeros((ROW_TILE, TILE), dtype=tl.float32)
        for start in range(0, size, TILE):
            column = start + tl.arange(0, TILE)
            own = tl.load(
                x + t[:, None] * size + column[None, :],
                mask=(t[:, None] < positions) & (column[None, :] < size),
                other=0.0,
            ).to(tl.float32)
            total += own * own
        norms = tl.sqrt(tl.sum(total, 1).to(tl.float64)) * slack + floor
        return tl.where(norms <= most, norms, float("inf"))

    @triton.jit
    def whole_kernel(
        a, g, out, positions, size_a, size_g, slack_a, slack_g, floor_a, floor_g, most,
        ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: one example, some of its positions; the sum of |g_t| |a_t|, with lengths rounded up."""
        example = tl.program_id(1).to(tl.int64)
        t = tl.program_id(0) * ROW_TILE + tl.arange(0, ROW_TILE)
        met = _long(a + example * positions * size_a, t, positions, size_a, slack_a, floor_a, most, ROW_TILE, TILE)
        back = _long(g + example * positions * size_g, t, positions, size_g, slack_g, floor_g, most, ROW_TILE, TILE)
        whole = tl.sum(tl.where(t < positions, met * back, 0.0), 0)
        tl.store(out + example * tl.num_programs(0) + tl.program_id(0), whole)
