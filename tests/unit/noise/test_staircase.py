"""The box staircase on integers: its privacy by brute force over all neighbours, and its exact draws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from inid.errors import GuaranteeError
from inid.noise import BlockLaw, RandomSource, StepTable, draw_blocks, step_table, uniform_within
from inid.testing import unsafe_seed
from inid.testing.laws import chi_square

HALF = Fraction(1, 2)
LAWS = [
    BlockLaw((1,), (0,), HALF),
    BlockLaw((1, 1), (0, 0), Fraction(2, 3)),
    BlockLaw((3,), (2,), HALF),
    BlockLaw((1, 4), (0, 2), Fraction(3, 5)),
    BlockLaw((2, 3), (1, 0), Fraction(1, 3)),
    BlockLaw((2, 1, 3), (1, 0, 2), HALF),
]


class SeededBits:
    """Random bits for the scalar draws."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def bits(self, count):
        return int.from_bytes(self.rng.bytes(-(-count // 8)), "little") & ((1 << count) - 1)


def steps(law, noise):
    """m(t) by its definition: the first k whose box holds t."""
    return next(
        k
        for k in itertools.count()
        if all(abs(t) <= a * k + c for t, a, c in zip(noise, law.reaches, law.offsets, strict=True))
    )


def worst_ratio(law, moves, cells=2):
    """The largest P(t) / P(t + d), exactly, over the points of the first boxes and the moves d: P is rho^m."""
    box = [range(-a * cells - c, a * cells + c + 1) for a, c in zip(law.reaches, law.offsets, strict=True)]
    most = Fraction(0)
    for point in itertools.product(*box):
        at = law.rho ** steps(law, point)
        for move in moves:
            most = max(most, at / law.rho ** steps(law, tuple(map(sum, zip(point, move, strict=True)))))
    return most


@pytest.mark.parametrize("law", LAWS)
def test_no_neighbour_in_the_box_is_told_apart_by_more_than_one_step(law):
    """J1: the ratio of probabilities is at most 1 / rho for all moves in the box, and attains it."""
    inside = list(itertools.product(*(range(-a, a + 1) for a in law.reaches)))
    assert worst_ratio(law, inside) == 1 / law.rho
    beyond = [(law.reaches[0] + 1, *law.reaches[1:])]
    assert worst_ratio(law, beyond) > 1 / law.rho  # a twin whose sensitivity is too small


@pytest.mark.parametrize("law", LAWS)
def test_the_first_box_that_holds_a_point_is_found_by_division(law):
    points = itertools.product(*(range(-3 * a, 3 * a + 1) for a in law.reaches))
    assert all(law.steps_to(point) == steps(law, point) for point in points)


def joint_ratio(blocks, moves):
    """The largest ratio of independent blocks whose moves are tied together: `moves` lists what one person may do."""
    return max(math.prod(worst_ratio(law, [move]) for law, move in zip(blocks, parts, strict=True)) for parts in moves)


def test_a_row_in_each_of_two_cells_costs_two_steps():
    """J4: for two rows of one person, steps of one row are worth eps/2 each; steps of two rows at eps are not."""
    promise = 1 / HALF
    one_row, root = BlockLaw((1, 2), (0, 1), HALF), Fraction(71, 100)
    assert 1 / root**2 <= promise
    right = BlockLaw((1, 2), (0, 1), root)
    moves = [((1, 2), (1, 2)), ((2, 4), (0, 0)), ((-1, 2), (1, -2)), ((2, 0), (0, 0))]
    assert joint_ratio([right, right], moves) <= promise
    doubled = BlockLaw((2, 4), (0, 2), HALF)  # the wrong form: twice the sensitivity, whole epsilon
    assert joint_ratio([doubled, doubled], moves) == promise**2
    assert joint_ratio([one_row, one_row], moves[:1]) == promise**2


def test_a_replaced_row_leaves_one_cell_and_enters_another():
    """J4: out of one cell and into another is a step in each, so each is worth eps/2."""
    promise, root = 1 / HALF, Fraction(71, 100)
    moves = [((-1, a), (1, b)) for a in (-2, 0, 2) for b in (-2, 1, 2)] + [((0, 4), (0, 0)), ((0, -4), (0, 0))]
    right, wrong = BlockLaw((1, 2), (0, 1), root), BlockLaw((1, 2), (0, 1), HALF)
    assert joint_ratio([right, right], moves) <= promise
    assert joint_ratio([wrong, wrong], moves) == promise**2


def test_norms_per_statistic_let_a_count_and_a_sum_move_in_different_cells():
    """J4: l1 groups per statistic are not enough for blocks by cell: they allow a step in two cells."""
    law = BlockLaw((1, 2), (0, 1), HALF)
    one_cell = [((1, 2), (0, 0)), ((0, 0), (-1, 2)), ((0, 2), (0, 0))]
    by_statistic = [((1, 0), (0, 2))]  # the count in one cell and the sum in another: allowed by l1 <= 1 and l1 <= 2
    assert joint_ratio([law, law], one_cell) <= 1 / HALF
    assert joint_ratio([law, law], by_statistic) == (1 / HALF) ** 2


def test_a_matrix_that_is_not_unimodular_leaves_parity_bare():
    """J4: noise 2 t on an answer that moves by 1 has disjoint supports, though 1 lies in 2 [-1, 1]."""
    law = BlockLaw((1,), (0,), HALF)
    support = {2 * t for t in range(-50, 51)}
    assert not support & {1 + t for t in support}
    assert worst_ratio(law, [(1,)]) == 2


def test_epsilon_of_parts_of_a_block_is_that_of_the_whole():
    """A step is all or nothing: any move at all may cost 1 / rho, so parts of a block have no shares."""
    law = BlockLaw((4, 4), (2, 2), HALF)
    assert worst_ratio(law, [(1, 0)]) == worst_ratio(law, [(4, 4)]) == 2


def test_malformed_laws_are_refused():
    for reaches, offsets, rho in [
        ((), (), HALF), ((0,), (0,), HALF), ((2,), (2,), HALF), ((2,), (-1,), HALF), ((1.0,), (0,), HALF),
        ((1,), (0,), Fraction(1)), ((1,), (0,), Fraction(0)),
    ]:  # fmt: skip
        with pytest.raises(GuaranteeError):
            BlockLaw(reaches, offsets, rho)


def weights(law, count):
    w = [Fraction(law.volume(k)) * law.rho**k for k in range(count)]
    return w, sum(w)


@pytest.mark.parametrize("law", [*LAWS, BlockLaw((5,) * 40, (2,) * 40, Fraction(9, 10))])
def test_ratios_and_hat_enclose_the_weights(law):
    m, width = law.hat
    w, _ = weights(law, m + 3 * width + 2)
    assert w[m] == max(w)
    assert 2 * w[m + width] <= w[m]
    assert m < width or 2 * w[m - width] <= w[m]
    for k in range(len(w)):
        low, high = law.ratio(k, m, 512)
        assert Fraction(low, 2**512) <= w[k] / w[m] <= Fraction(high, 2**512)
        assert high - low < 2**416


def test_the_extremes_of_epsilon_have_a_hat_and_are_drawn():
    for rho in (1 - Fraction(1, 2**40), Fraction(1, 2**140)):
        law = BlockLaw((1, 7), (0, 3), rho)
        assert all(type(number) is int for number in law.draw(SeededBits(1)))
    assert BlockLaw((1,), (0,), Fraction(1, 2**1500)).rate == pytest.approx(1500 * math.log(2))


@pytest.mark.parametrize("rho", [Fraction(1, 2**180), Fraction(1, 2**700)])
def test_long_blocks_at_a_large_epsilon_have_a_hat(rho):
    """rho is below the precision and the ratio of volumes above its inverse: bounds of either alone say nothing."""
    law = BlockLaw((2**30,) * 150, (1,) * 150, rho)
    w, _ = weights(law, 8)
    assert w[1] == max(w)
    for k in range(8):
        low, high = law.ratio(k, 1)
        assert Fraction(low, 2**160) <= w[k] / w[1] <= Fraction(high, 2**160)
        assert high - low < 2**32
    assert law.hat == (1, 1)
    assert np.abs(draw_blocks(law, 100, RandomSource()).astype(float)).max() < 2**33


def noise_probabilities(law, count):
    """P(K = k) for k < count, and the rest."""
    w, total = weights(law, 400)
    p = np.array([float(x / total) for x in w[:count]])
    return np.append(p, 1 - p.sum())


@pytest.mark.parametrize("law", LAWS[2:4])
def test_scalar_draws_follow_the_law(law):
    bits = SeededBits(7)
    drawn = np.minimum([law.draw_step(bits) for _ in range(12_000)], 12)
    p = noise_probabilities(law, 12)
    assert chi_square(np.bincount(drawn, minlength=13), p) > 1e-6
    wrong = noise_probabilities(BlockLaw(law.reaches, law.offsets, law.rho * Fraction(95, 100)), 12)
    assert chi_square(np.bincount(drawn, minlength=13), wrong) < 1e-6


@pytest.mark.parametrize("word", [64, 6])
def test_table_draws_follow_the_law_also_where_words_decide_little(word):
    law = BlockLaw((1, 4), (0, 2), Fraction(3, 5))
    table = step_table(law, word)
    assert isinstance(table, StepTable)
    with unsafe_seed(3) as source:
        drawn = np.minimum(table.draw(40_000 if word == 64 else 600, source), 12)
    assert chi_square(np.bincount(drawn, minlength=13), noise_probabilities(law, 12)) > 1e-6


def chances_of_first_boxes(law):
    """P(m(t) = k) for k < 12, and the rest."""
    volumes = [law.volume(k) - (law.volume(k - 1) if k else 0) for k in range(300)]
    p = [Fraction(v) * law.rho**k for k, v in enumerate(volumes)]
    p = np.array([float(x / sum(p)) for x in p[:12]])
    return np.append(p, 1 - p.sum())


@pytest.mark.parametrize(
    "law", [LAWS[3], LAWS[5], BlockLaw((2**33, 5), (2**32, 1), HALF), BlockLaw((2**61,), (9,), HALF)]
)
def test_blocks_of_one_law_are_drawn_together(law, compiled):
    """J7: the first box that holds a point, against the exact law; a ratio 5 % off is rejected."""
    with unsafe_seed(5) as source:
        drawn = draw_blocks(law, 20_000, source, compiled=compiled)
    assert drawn.shape == (20_000, law.size)
    held = np.bincount(np.minimum([law.steps_to(tuple(row)) for row in drawn.tolist()], 12), minlength=13)
    assert chi_square(held, chances_of_first_boxes(law)) > 1e-6
    for off in (95, 105):
        wrong = BlockLaw(law.reaches, law.offsets, law.rho * Fraction(off, 100))
        assert chi_square(held, chances_of_first_boxes(wrong)) < 1e-6


@pytest.mark.parametrize("reach", [1, 2**20, 2**40])
def test_both_ways_of_drawing_give_the_same_numbers_for_the_same_words(reach):
    law = BlockLaw((reach,) * 3, (reach // 2,) * 3, Fraction(9, 10))
    for count in (1, 70, 6_001):
        drawn = []
        for compiled in (False, True):
            with unsafe_seed(count) as source:
                drawn.append(draw_blocks(law, count, source, compiled=compiled))
        np.testing.assert_array_equal(*drawn)


def test_variances_are_those_of_fractions(compiled):
    """J2: Var T_i = E[r_i (r_i + 1)] / 3, in fractions, against draws; 5 % off is rejected."""
    law = BlockLaw((1, 4, 9), (0, 2, 8), Fraction(7, 10))
    w, total = weights(law, 200)
    with unsafe_seed(2) as source:
        drawn = draw_blocks(law, 100_000, source, compiled=compiled).astype(float)
    for at, (a, c) in enumerate(zip(law.reaches, law.offsets, strict=True)):
        exact = sum(x * (a * k + c) * (a * k + c + 1) for k, x in enumerate(w)) / total / 3
        squares = drawn[:, at] ** 2
        error = squares.std() / math.sqrt(len(squares))
        assert abs(squares.mean() - float(exact)) < 5 * error < 0.04 * float(exact)


@pytest.mark.parametrize("radius", [0, 1, 3, 2**31 - 1, 2**40 + 5])
def test_uniform_numbers_fill_their_interval(radius):
    source = RandomSource()
    drawn = uniform_within(np.full(30_000, radius), source)
    assert (abs(drawn) <= radius).all()
    classes = min(2 * radius + 1, 50)
    counts = np.bincount((drawn + radius) * classes // (2 * radius + 1), minlength=classes)
    if 2 * radius + 1 == classes or radius > 2**20:
        assert chi_square(counts, np.full(classes, 1 / classes)) > 1e-9


@pytest.mark.parametrize("radius", [2**31 - 1, 2**31, 2**37 - 1, 2**37, 2**40 + 7, 2**61, 2**62 - 1])
def test_products_of_words_and_widths_are_those_of_whole_numbers(radius, compiled):
    class Known(RandomSource):
        def words(self, count):
            return np.random.default_rng(count).integers(0, 2**64, count, np.uint64)

    size, width = 1_000, 2 * radius + 1
    drawn = uniform_within(np.full(size, radius), Known(), compiled=compiled).tolist()
    words, bits = Known().words(size), 64
    if width < 2**32:
        words, bits = Known().words(size // 2).view(np.uint32), 32
    elif width < 2**38:
        words, bits = words >> np.uint64(12), 52
    kept = [w * width >> bits for w in words.tolist()]
    fine = [w * width % 2**bits >= 2**bits % width for w in words.tolist()]
    assert [t for t, f in zip(drawn, fine, strict=True) if f] == [
        h - radius for h, f in zip(kept, fine, strict=True) if f
    ]
    assert sum(fine) > 0.4 * size


@pytest.mark.parametrize(("radius", "next_one"), [(1, 0), (2**32, 1), (2**40, 256)])
def test_doubtful_words_are_drawn_anew(radius, next_one, compiled):
    """Lemire's product is uniform only without products whose rest is below B mod w: the first word here is such."""

    class Scripted(RandomSource):
        def __init__(self):
            super().__init__()
            self.asked = []

        def words(self, count):
            self.asked.append(count)
            return np.zeros(count, np.uint64) if len(self.asked) == 1 else np.full(count, 2**63 + 2**31, np.uint64)

    source = Scripted()
    assert uniform_within(np.array([radius]), source, compiled=compiled).tolist() == [next_one]
    assert source.asked == [1, 1]
