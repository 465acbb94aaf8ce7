# mypy: ignore-errors
"""What a GPU runs, in Triton's own language; the names are None where Triton is not installed."""

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

convolution_kernel: Any = None
group_norm_kernel: Any = None
layer_norm_kernel: Any = None
sum_kernel: Any = None
square_kernel: Any = None
share_kernel: Any = None
mixed_kernel: Any = None
gram_kernel: Any = None
bound_kernel: Any = None
fold_kernel: Any = None
pair_kernel: Any = None
direct_kernel: Any = None
absolute_kernel: Any = None

if triton is not None:

    @triton.jit
    def convolution_kernel(
        x, g, out, squares, channels, outputs, length, width, plane, line, kernel_width, entries,
        stride_h, stride_w, dilation_h, dilation_w,
        PRECISION: tl.constexpr, O_TILE: tl.constexpr, E_TILE: tl.constexpr, T_TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: one example, a tile of output channels, and a tile of the kernel entries that each of them has.

        Entries lie side by side in the weight, input channel by input channel, so that rows are written in one stretch.
        """
        size = channels * entries
        block = tl.program_id(0)
        example = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(size, E_TILE)
        o = (block // across) * O_TILE + tl.arange(0, O_TILE)
        e = (block % across) * E_TILE + tl.arange(0, E_TILE)
        entry = e % entries
        shift = (
            (e // entries) * plane + (entry // kernel_width) * dilation_h * line + (entry % kernel_width) * dilation_w
        )
        x += example * channels * plane
        g += example * outputs * length
        total = tl.zeros((O_TILE, E_TILE), dtype=tl.float32)
        for start in range(0, length, T_TILE):
            t = start + tl.arange(0, T_TILE)
            corner = (t // width) * stride_h * line + (t % width) * stride_w
            left = tl.load(
                g + o[:, None] * length + t[None, :], mask=(o[:, None] < outputs) & (t[None, :] < length), other=0.0
            )
            right = tl.load(
                x + corner[:, None] + shift[None, :], mask=(t[:, None] < length) & (e[None, :] < size), other=0.0
            )
            total += tl.dot(left, right, input_precision=PRECISION)
        total = tl.where(tl.abs(total) < float("inf"), total, 0.0)
        place = (example * outputs + o[:, None]) * size + e[None, :]
        tl.store(out + place, total, mask=(o[:, None] < outputs) & (e[None, :] < size))
        wide = total.to(tl.float64)
        tl.store(squares + example * tl.num_programs(0) + block, tl.sum(tl.sum(wide * wide, 1), 0))

    @triton.jit
    def sum_kernel(
        grads, factors, out, count, size, share, scale, bound,
        CLIPPED: tl.constexpr, ADDED: tl.constexpr, ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: a tile of columns, a share of the gradients: entries clipped, or gradients times factors.

        What is not finite counts as 0 in a product. If ADDED, `scale` times the sum is added to `out`.
        """
        column = tl.program_id(0) * TILE + tl.arange(0, TILE)
        first = tl.program_id(1) * share
        last = tl.minimum(first + share, count)
        total = tl.zeros((ROW_TILE, TILE), dtype=tl.float32)
        for start in range(first, last, ROW_TILE):
            row = start + tl.arange(0, ROW_TILE)
            known = (row[:, None] < last) & (column[None, :] < size)
            place = row[:, None].to(tl.int64) * size + column[None, :]
            values = tl.load(grads + place, mask=known, other=0.0).to(tl.float32)
            if CLIPPED:
                total += tl.minimum(tl.maximum(values * scale, -bound), bound)
            else:
                values = tl.where(tl.abs(values) < float("inf"), values, 0.0)
                total += values * tl.load(factors + row, mask=row < last, other=0.0)[:, None]
        added = tl.sum(total, 0)
        out += tl.program_id(1).to(tl.int64) * size + column
        if ADDED:
            added = tl.load(out, mask=column < size, other=0.0) + scale * added
        tl.store(out, added, mask=column < size)

    @triton.jit
    def mixed_kernel(fresh, history, weights, size, scale, place, STEPS: tl.constexpr, TILE: tl.constexpr):
        """One program: a tile of columns; `scale` times fresh and the weighted history, over fresh and a step of it."""
        column = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
        known = column < size
        total = tl.load(fresh + column, mask=known, other=0.0) * scale
        start = column
        for step in tl.static_range(STEPS):
            total += tl.load(history + start, mask=known, other=0.0) * tl.load(weights + step)
            start += size
        tl.store(fresh + column, total, mask=known)
        tl.store(history + column + tl.cast(place, tl.int64) * size, total, mask=known)

    @triton.jit
    def square_kernel(grads, out, size, share, TILE: tl.constexpr):
        """One program: one example, a share of its entries; the sum of their squares, 0 for what is not finite."""
        example = tl.program_id(1).to(tl.int64)
        first = tl.program_id(0) * share
        last = tl.minimum(first + share, size)
        total = tl.zeros((TILE,), dtype=tl.float64)
        for start in range(first, last, TILE):
            column = start + tl.arange(0, TILE)
            values = tl.load(grads + example * size + column, mask=column < last, other=0.0).to(tl.float32)
            wide = tl.where(tl.abs(values) < float("inf"), values, 0.0).to(tl.float64)
            total += wide * wide
        tl.store(out + example * tl.num_programs(0) + tl.program_id(0), tl.sum(total, 0))

    @triton.jit
    def share_kernel(
        first, second, absolute, padding, norms, shares, of_first, of_second, part, least, cut,
        SECOND: tl.constexpr, ABSOLUTE: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: one example; its norm from sums of squares and an allowance, and its share."""
        example = tl.program_id(0).to(tl.int64)
        total = tl.zeros((TILE,), dtype=tl.float64)
        for start in range(0, of_first, TILE):
            column = start + tl.arange(0, TILE)
            total += tl.load(first + example * of_first + column, mask=column < of_first, other=0.0)
        if SECOND:
            for start in range(0, of_second, TILE):
                column = start + tl.arange(0, TILE)
                total += tl.load(second + example * of_second + column, mask=column < of_second, other=0.0)
        norm = tl.sqrt(tl.sum(total, 0))
        if ABSOLUTE:
            norm += tl.load(absolute + example) * part
        tl.store(norms + example, norm)
        share = 1.0 / tl.maximum(norm, least)
        usable = (share > cut) & (norm < float("inf"))
        if PADDED:
            usable = usable & (tl.load(padding + example) == 0)
        tl.store(shares + example, tl.where(usable, share, 0.0).to(tl.float32))

    @triton.jit
    def group_norm_kernel(x, g, weight, bias, channels, length, together, eps, TILE: tl.constexpr):
        """One program: one example, one group of channels."""
        example = tl.program_id(1).to(tl.int64)
        first = example * channels + tl.program_id(0) * together
        x += first * length
        g += first * length
        size = together * length
        total = tl.zeros((TILE,), dtype=tl.float32)
        for start in range(0, size, TILE):
            t = start + tl.arange(0, TILE)
            total += tl.load(x + t, mask=t < size, other=0.0).to(tl.float32)
        mean = tl.sum(total, 0) / size
        total = tl.zeros((TILE,), dtype=tl.float32)
        for start in range(0, size, TILE):
            t = start + tl.arange(0, TILE)
            away = tl.load(x + t, mask=t < size, other=0.0).to(tl.float32) - mean
            total += tl.where(t < size, away * away, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(total, 0) / size + eps)
        for channel in range(together):
            by_input = tl.zeros((TILE,), dtype=tl.float32)
            alone = tl.zeros((TILE,), dtype=tl.float32)
            for start in range(0, length, TILE):
                t = start + tl.arange(0, TILE)
                back = tl.load(g + channel * length + t, mask=t < length, other=0.0).to(tl.float32)
                inputs = tl.load(x + channel * length + t, mask=t < length, other=0.0).to(tl.float32) - mean
                by_input += back * tl.where(t < length, inputs, 0.0)
                alone += back
            tl.store(weight + first + channel, tl.sum(by_input, 0) * scale)
            tl.store(bias + first + channel, tl.sum(alone, 0))

    @triton.jit
    def layer_norm_kernel(
        x, g, weight, bias, positions, size, share, eps, ROW_TILE: tl.constexpr, TILE: tl.constexpr
    ):  # fmt: skip
        """One program: one example, a share of its positions."""
        example = tl.program_id(1).to(tl.int64)
        first = tl.program_id(0) * share
        last = tl.minimum(first + share, positions)
        column = tl.arange(0, TILE)
        x += example * positions * size
        g += example * positions * size
        by_input = tl.zeros((ROW_TILE, TILE), dtype=tl.float32)
        alone = tl.zeros((ROW_TILE, TILE), dtype=tl.float32)
        for start in range(first, last, ROW_TILE):
            t = start + tl.arange(0, ROW_TILE)
            known = (t[:, None] < last) & (column[None, :] < size)
            place = t[:, None].to(tl.int64) * size + column[None, :]
            inputs = tl.load(x + place, mask=known, other=0.0).to(tl.float32)
            inputs = tl.where(known, inputs - (tl.sum(inputs, 1) / size)[:, None], 0.0)
            scale = 1.0 / tl.sqrt(tl.sum(inputs * inputs, 1) / size + eps)
            back = tl.load(g + place, mask=known, other=0.0).to(tl.float32)
            by_input += back * inputs * scale[:, None]
            alone += back
        place = (example * tl.num_programs(0) + tl.program_id(0)) * size + column
        tl.store(weight + place, tl.sum(by_input, 0), mask=column < size)
        tl.store(bias + place, tl.sum(alone, 0), mask=column < size)

    @triton.jit
    def _dots(
        x, first, second, positions, size,
        TILE: tl.constexpr, STEP: tl.constexpr, CHUNK: tl.constexpr,
    ):  # fmt: skip
        """Dot products between two tiles of positions; a chunk of columns has an accumulator of its own."""
        lines = first * TILE + tl.arange(0, TILE)
        others = second * TILE + tl.arange(0, TILE)
        total = tl.zeros((TILE, TILE), dtype=tl.float32)
        for start in range(0, size, CHUNK):
            part = tl.zeros((TILE, TILE), dtype=tl.float32)
            for step in tl.static_range(CHUNK // STEP):
                column = start + step * STEP + tl.arange(0, STEP)
                left = tl.load(
                    x + lines[:, None] * size + column[None, :],
                    mask=(lines[:, None] < positions) & (column[None, :] < size),
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
        inputs = _dots(a + example * positions * size_a, first, second, positions, size_a, TILE, STEP, CHUNK)
        back = _dots(g + example * positions * size_g, first, second, positions, size_g, TILE, STEP, CHUNK)
        product = inputs.to(tl.float64) * back.to(tl.float64)
        square = tl.sum(tl.sum(product, 1), 0)
        absolute = tl.zeros((), dtype=tl.float64)
        if first == second:
            known = first * TILE + tl.arange(0, TILE) < positions
            long = _lengths(inputs, slack_a, floor_a, most, TILE) * _lengths(back, slack_g, floor_g, most, TILE)
            absolute = tl.sum(tl.where(known, long, 0.0), 0)
        else:
            square = square * 2
        place = example * tl.num_programs(0) + pair
        tl.store(out + place, square)
        tl.store(out + tl.num_programs(1).to(tl.int64) * tl.num_programs(0) + place, absolute)

    @triton.jit
    def bound_kernel(squares, absolutes, out, count, of_squares, of_absolutes, kappa, slack, TILE: tl.constexpr):
        """One program: one example; its bound and its S from the parts of both that other programs made."""
        example = tl.program_id(0).to(tl.int64)
        square = tl.zeros((TILE,), dtype=tl.float64)
        for start in range(0, of_squares, TILE):
            part = start + tl.arange(0, TILE)
            square += tl.load(squares + example * of_squares + part, mask=part < of_squares, other=0.0)
        absolute = tl.zeros((TILE,), dtype=tl.float64)
        for start in range(0, of_absolutes, TILE):
            part = start + tl.arange(0, TILE)
            absolute += tl.load(absolutes + example * of_absolutes + part, mask=part < of_absolutes, other=0.0)
        square = tl.sum(square, 0)
        absolute = tl.sum(absolute, 0) * slack
        bound = (tl.where(square > 0.0, square, 0.0) + kappa * absolute * absolute) * slack
        usable = (absolute < float("inf")) & (square < float("inf")) & (bound < float("inf"))
        tl.store(out + example, tl.where(usable, bound, float("inf")))
        tl.store(out + count + example, tl.where(usable, absolute, float("inf")))

    @triton.jit
    def _fold(
        x, factors, out, tile, height, positions, size, line,
        SCALED: tl.constexpr, ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(1).to(tl.int64) * ROW_TILE + tl.arange(0, ROW_TILE)
        column = tile * TILE + tl.arange(0, TILE)
        known = (row[:, None] < height) & (column[None, :] < size)
        factor = tl.load(factors + row // positions, mask=row < height, other=0.0)[:, None]
        value = tl.load(x + row[:, None] * size + column[None, :], mask=known, other=0.0).to(tl.float32)
        if SCALED:
            value = value * factor
        value = tl.where(factor != 0.0, value, 0.0)
        tl.store(out + row[:, None] * line + column[None, :], value.to(out.dtype.element_ty), mask=known)

    @triton.jit
    def fold_kernel(
        x, factors, out, height, positions, size, line,
        SCALED: tl.constexpr, ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """Each row times its example's factor, or as it is; zero where the factor is, whatever stood there."""
        _fold(x, factors, out, tl.program_id(0), height, positions, size, line, SCALED, ROW_TILE, TILE)

    @triton.jit
    def pair_kernel(
        g, a, factors, out_g, out_a, height, positions, size_g, size_a, line_g, line_a, tiles,
        ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """What `fold_kernel` does to two arrays: the first, of so many tiles, is scaled; the second is not."""
        tile = tl.program_id(0)
        if tile < tiles:
            _fold(g, factors, out_g, tile, height, positions, size_g, line_g, True, ROW_TILE, TILE)
        else:
            _fold(a, factors, out_a, tile - tiles, height, positions, size_a, line_a, False, ROW_TILE, TILE)

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
            values = tl.load(
                x + t[:, None] * size + column[None, :],
                mask=(t[:, None] < positions) & (column[None, :] < size),
                other=0.0,
            ).to(tl.float32)
            total += values * values
        norms = tl.sqrt(tl.sum(total, 1).to(tl.float64)) * slack + floor
        return tl.where(norms <= most, norms, float("inf"))

    @triton.jit
    def absolute_kernel(
        a, g, out, positions, size_a, size_g, slack_a, slack_g, floor_a, floor_g, most,
        ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: one example, some of its positions; the sum of |g_t| |a_t|, with lengths rounded up."""
        example = tl.program_id(1).to(tl.int64)
        t = tl.program_id(0) * ROW_TILE + tl.arange(0, ROW_TILE)
        inputs = _long(a + example * positions * size_a, t, positions, size_a, slack_a, floor_a, most, ROW_TILE, TILE)
        back = _long(g + example * positions * size_g, t, positions, size_g, slack_g, floor_g, most, ROW_TILE, TILE)
        absolute = tl.sum(tl.where(t < positions, inputs * back, 0.0), 0)
        tl.store(out + example * tl.num_programs(0) + tl.program_id(0), absolute)
