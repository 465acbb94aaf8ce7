"""Mutations of lines that privacy depends on, each with a test that must fail because of it: `make mutants`.

A mutation is one changed line of the library: a bound that is too small, a charge that is too cheap, a check that is
left out. It is applied to a copy of `src`, which the tests then import. A mutation that no test sees *survives*, and
that is a gap in the tests. `python tests/mutants.py accounting k_means` tries those whose file names hold a word.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LONGEST = 1800  # seconds for all tests, or for that of one mutation, which may make a loop that never ends
_PASSED, _FAILED = 0, 1  # exit codes of pytest; anything else says that no test ran to its end


@dataclass(frozen=True)
class Mutation:
    """One line that is changed: `old` stands once in the file of `src/inid`; the test must fail with `new` instead."""

    file: str
    old: str
    new: str
    test: str

    def applied_to(self, text):
        """The text of the file with the mutation."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} must hold this text once, and does {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


_PERSON = "tests/audit/test_tables.py::test_one_person_moves_an_answer_as_far_as_was_charged"
_RESIDUALS = (
    "tests/attack/test_synthetic_steps.py::test_every_difference_lies_in_the_set_which_is_no_larger_than_it_must_be"
)
_FIT = "tests/audit/test_estimators.py::test_one_person_moves_a_fit_as_far_as_was_charged"
_ADDITIVE = "tests/attack/test_learn_additive.py::test_no_neighbour_moves_the_sums_of_a_part_further_than_was_planned"
_CHOICE = "tests/unit/tables/prefix_sums/test_choice.py"

MUTATIONS = (
    # Promises, and the mathematics of one release.
    Mutation(
        "fixed_point.py",
        "return 0 if bits <= _EXACT else 2 ** (bits - _EXACT)",
        "return 0",
        "tests/unit/test_fixed_point.py::test_whole_numbers_lie_no_further_apart_as_floats_than_the_slack_says",
    ),
    Mutation(
        "mechanisms/gaussian.py",
        "low, high = one - weight[1] * (high_a + high_b), one - weight[0] * (low_a + low_b)",
        "low, high = one - weight[1] * (high_a + high_b), one - weight[0] * (low_a + 2 * low_b)",
        "tests/unit/numbers/test_enclosures.py::test_the_privacy_profile_lies_in_its_bounds",
    ),
    Mutation(
        "mechanisms/gaussian.py",
        "if high <= delta:",
        "if low <= delta:",
        "tests/oracle/test_calibration.py::test_mu_is_right_to_thirteen_digits_and_safe_on_a_grid",
    ),
    Mutation(
        "mechanisms/laplace.py",
        "return (1 - delta) * high <= 1 << bits",
        "return (1 - 2 * delta) * high <= 1 << bits",
        "tests/oracle/test_calibration.py::test_laplace_noise_under_approximate_dp_spends_epsilon_minus_two_log",
    ),
    Mutation(
        "mechanisms/laplace.py",
        "return 2 * tail * growth <= 1 << bits",
        "return tail * growth <= 1 << bits",
        "tests/unit/accounting/test_costs.py::test_laplace_noise_as_gaussian_is_never_below_the_exact_root",
    ),
    Mutation(
        "mechanisms/laplace.py",
        "return tail * ((1 << bits) + growth) <= 1 << bits",
        "return tail * growth <= 1 << bits",
        "tests/oracle/test_calibration.py::test_pure_to_gaussian_covers_randomised_response_and_no_more",
    ),
    Mutation(
        "mechanisms/laplace.py",
        "_ROOT_TWO_OVER_PI = Fraction(7978845608, 10**10)",
        "_ROOT_TWO_OVER_PI = Fraction(7978845609, 10**10)",
        "tests/oracle/test_laplace_rules.py::test_one_ratio_is_root_half_pi_gdp",
    ),
    Mutation(
        "numbers/sums.py",
        "return Fraction(math.isqrt(scaled - 1) + 1, 1 << shift)",
        "return Fraction(math.isqrt(scaled), 1 << shift)",
        "tests/unit/numbers/test_sums.py::test_square_roots_are_rounded_up_and_rational_ones_are_exact",
    ),
    Mutation(
        "numbers/sums.py",
        "slack = 2.0**_DIGIT * (1.0 + _SLACK if up else 1.0 - _SLACK)",
        "slack = 2.0**_DIGIT",
        "tests/unit/numbers/test_sums.py::test_many_terms_are_bounded_on_the_side_asked_for",
    ),
    Mutation(
        "numbers/sums.py",
        "return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)",
        "return nearest",
        "tests/unit/numbers/test_sums.py::test_floats_lie_on_the_side_asked_for_and_next_to_the_rational",
    ),
    Mutation(
        "promises.py",
        'return ZCDP(decimal_up(decimal_fraction(self.mu) ** 2 / 2, "rho"))',
        'return ZCDP(decimal_up(decimal_fraction(self.mu) ** 2 / 4, "rho"))',
        "tests/oracle/test_calibration.py::test_zcdp_of_pure_and_gaussian_is_half_the_square",
    ),
    Mutation(
        "promises.py",
        "return 2 * decimal_fraction(self.rho)",
        "return 4 * decimal_fraction(self.rho)",
        "tests/unit/test_promises.py::test_a_promise_is_the_decimal_that_was_written",
    ),
    Mutation(
        "promises.py",
        "return 2 * decimal_fraction(self.divergence) / self.order",
        "return 2 * decimal_fraction(self.divergence)",
        "tests/oracle/test_renyi_promise.py::test_the_largest_gaussian_noise_is_at_the_root",
    ),
    Mutation(
        "promises.py",
        "-math.log1p(1 / less), -(math.log(delta) + math.log1p(less)) / less)",
        "-math.log1p(1 / less), -(math.log(delta) + 2 * math.log1p(less)) / less)",
        "tests/oracle/test_renyi_promise.py::test_the_epsilon_is_that_of_the_formula",
    ),
    Mutation(
        "promises.py",
        "return spent <= decimal_fraction(self.epsilon)",
        "return spent <= 2 * decimal_fraction(self.epsilon)",
        "tests/unit/planning/test_certificate.py::test_a_plan_passes_and_a_plan_with_a_little_less_noise_fails",
    ),
    Mutation(
        "promises.py",
        'return spent <= self.mu_squared if mechanism == "gaussian" else spent**2 <= 2 * rho or spent <= rho',
        'return spent <= self.mu_squared if mechanism == "gaussian" else spent**2 <= 4 * rho or spent <= rho',
        "tests/oracle/test_laplace_rules.py::test_the_sum_of_ratios_that_zcdp_affords_diverges_by_no_more",
    ),
    # Noise.
    Mutation(
        "noise/exact_draws.py",
        "half = 1 << (unit + step_bits - 1)",
        "half = 0",
        "tests/unit/noise/test_exact_draws.py::test_round_sum_is_rational_arithmetic",
    ),
    Mutation(
        "noise/grid_noise.py",
        "return np.where(np.asarray(scales) == 0, 0.0, np.ldexp(1.0, exponents - bits))",
        "return np.where(np.asarray(scales) == 0, 0.0, np.ldexp(1.0, exponents - bits - 8))",
        "tests/unit/noise/test_grid_noise.py::test_grid_is_a_power_of_two_just_below_a_4096th_of_the_scale",
    ),
    Mutation(
        "noise/grid_noise.py",
        "steps.append(nearest_steps(value, scale, draw(table, source), GRID_BITS))",
        "steps.append(nearest_steps(value, scale / 2, draw(table, source), GRID_BITS))",
        "tests/unit/noise/test_long_noise.py::test_whole_steps_shift_the_result_and_nothing_else",
    ),
    Mutation(
        "noise/vector_draws.py",
        "np.less(scaled, 0.5 - margin(table), out=mask)",
        "np.less(scaled, 0.5, out=mask)",
        "tests/unit/noise/test_grid_noise.py::test_the_vector_path_uses_the_exact_path_for_ties",
    ),
    # Sensitivity sets.
    Mutation(
        "sets/caps.py",
        "return total + room * room",
        "return total",
        "tests/unit/sets/test_suprema.py::test_the_greatest_square_sum_fills_the_largest_first",
    ),
    Mutation(
        "sets/caps.py",
        "value += nu_2 * (squares - quotient_sum(chosen, 1.0, times, power=2, up=False))",
        "value -= nu_2 * quotient_sum(chosen, 1.0, times, power=2, up=False)",
        "tests/unit/sets/test_suprema.py::test_never_below_the_truth_and_equal_to_it_but_for_two_caps",
    ),
    Mutation(
        "sets/caps.py",
        "value += squares / (2 * tau)",
        "value += squares / (4 * tau)",
        "tests/unit/sets/test_suprema.py::test_never_below_the_truth_and_equal_to_it_but_for_two_caps",
    ),
    Mutation(
        "sets/ellipsoid.py",
        "return sqrt_up(quotient_sum(radii, scales, counts, power=2))",
        "return max(quotient_sum(r, s) for r, s in zip(radii, scales, strict=True))",
        "tests/unit/sets/test_suprema.py::test_never_below_the_truth_and_equal_to_it_but_for_two_caps",
    ),
    Mutation(
        "sets/ellipsoid.py",
        "return max(quotient_sum(pairs[0, i], pairs[1, i], power=2) for i in range(pairs.shape[1]))",
        "return min(quotient_sum(r, s, power=2) for r, s in zip(radii, scales, strict=True))",
        "tests/unit/sets/test_suprema.py::test_never_below_the_truth_and_equal_to_it_but_for_two_caps",
    ),
    Mutation(
        "sets/envelopes.py",
        "first = weights[cells] / (np.sqrt(start + weights[cells]) + np.sqrt(start))",
        "first = weights[cells] / (2 * np.sqrt(start + weights[cells]))",
        "tests/oracle/test_plan_curves.py::test_ratio_vectors_majorize_every_difference_of_the_set",
    ),
    Mutation(
        "sets/groups.py",
        "combined[g] = float_down(1 / sqrt_up(quotient_sum(1.0, scales[cell], counts[cell], power=2)))",
        "combined[g] = scales[cell].min()",
        "tests/unit/sets/test_suprema.py::test_never_below_the_truth_and_equal_to_it_but_for_two_caps",
    ),
    Mutation(
        "sets/moments.py",
        "shape = np.where(i == j, square, 1 / np.sqrt(one * two))",
        "shape = np.where(i == j, square, 0.9 / np.sqrt(one * two))",
        "tests/unit/sets/test_moments.py::test_every_replacement_lies_in_the_ellipsoid",
    ),
    # Privacy curves.
    Mutation(
        "curves/renyi.py",
        "return _Up.exp(square * k * (k - 1) / 2)",
        "return _Up.exp(square * k / 2)",
        "tests/oracle/test_renyi.py::test_subsampled_gaussian_bounds_both_directions_and_is_tight_for_removal",
    ),
    Mutation(
        "curves/renyi.py",
        "grows.times(_Up.of(k, 2 * k - 1)).plus(falls",
        "grows.times(_Up.of(k - 1, 2 * k - 1)).plus(falls",
        "tests/oracle/test_renyi.py::test_subsampled_laplace_bounds_both_directions_and_is_tight_for_removal",
    ),
    Mutation(
        "curves/subsampling.py",
        "mass, error = (1 - rate) * q + rate * p, (1 - rate) * q_error + rate * p_error",
        "mass, error = q, q_error",
        "tests/unit/curves/test_subsampling.py::test_a_dropped_tail_would_make_the_bound_wrong",
    ),
    # Plans, certificates, releases.
    Mutation(
        "planning/certificate.py",
        "if not holds:",
        "if False:",
        "tests/unit/planning/test_certificate.py::test_a_plan_passes_and_a_plan_with_a_little_less_noise_fails",
    ),
    Mutation(
        "planning/certificate.py",
        "holds = divergence < math.inf and Fraction(divergence) <= decimal_fraction(budget.divergence)",
        "holds = divergence < math.inf",
        "tests/oracle/test_renyi_promise.py::test_a_changed_plan_does_not_verify",
    ),
    Mutation(
        "planning/certificate.py",
        "return Fraction(reached) <= decimal_fraction(budget.delta), statement, _BY_CURVE",
        "return Fraction(reached) <= 2 * decimal_fraction(budget.delta), statement, _BY_CURVE",
        "tests/oracle/test_plan_curves.py::test_a_plan_on_the_curve_breaks_when_its_scales_shrink",
    ),
    # Accounting.
    Mutation(
        "accounting/admission.py",
        "return promise.epsilon <= total.epsilon and delta + charge.taken <= decimal_fraction(total.delta)",
        "return promise.epsilon <= total.epsilon and charge.taken <= decimal_fraction(total.delta)",
        "tests/unit/accounting/test_reserve.py::test_a_ledger_without_a_reserve_takes_it_as_its_whole_promise_only",
    ),
    Mutation(
        "accounting/admission.py",
        "if not covered(settings.neighbours, charge.neighbours):",
        "if False and not covered(settings.neighbours, charge.neighbours):",
        "tests/unit/accounting/test_ledger.py::test_other_neighbours_are_refused",
    ),
    Mutation(
        "accounting/composition.py",
        'if pair.neighbours == "replace":',
        'if pair.neighbours == "nobody":',
        "tests/oracle/test_plan_curves.py::test_what_cannot_be_composed_is_refused",
    ),
    Mutation(
        "accounting/composition.py",
        "_ = part.certificate  # a plan that breaks its promise has no place in an account",
        "pass",
        "tests/unit/accounting/test_compositions.py::test_a_plan_that_breaks_its_promise_is_not_composed",
    ),
    Mutation(
        "accounting/costs.py",
        "return times * (variance / 2 + min(squares / 2, epsilon))",
        "return times * (variance / 2 + min(squares / 4, epsilon))",
        "tests/unit/accounting/test_compositions.py::test_pure_steps_on_samples_are_amplified",
    ),
    Mutation(
        "accounting/costs.py",
        "return min(epsilon**2 / 2, epsilon)  # a divergence",
        "return min(epsilon**2 / 4, epsilon)  # a divergence",
        "tests/unit/accounting/test_costs.py::test_laplace_costs_follow_from_the_supremum",
    ),
    Mutation(
        "accounting/costs.py",
        'return mu_squared / 2 if currency == "rho" else _known(order) * mu_squared / 2',
        'return mu_squared / 2 if currency == "rho" else mu_squared / 2',
        "tests/unit/accounting/test_costs.py::test_gaussian_costs_follow_from_the_supremum",
    ),
    Mutation(
        "accounting/costs.py",
        "log(1 + _rational(rate) * (growth - 1), _LOG_BITS)",
        "log(1 + _rational(rate) ** 2 * (growth - 1), _LOG_BITS)",
        "tests/unit/accounting/test_compositions.py::test_pure_steps_on_samples_are_amplified",
    ),
    Mutation(
        "accounting/costs.py",
        "return None if variance else times * _amplified(epsilon, rate)",
        "return times * _amplified(epsilon, rate)",
        "tests/unit/accounting/test_compositions.py::test_a_training_run_is_charged_as_a_whole_and_its_record_proves_it",
    ),
    Mutation(
        "accounting/costs.py",
        "return None if mu_squared else Fraction(0)",
        "return Fraction(0)",
        "tests/unit/accounting/test_costs.py::test_gaussian_costs_follow_from_the_supremum",
    ),
    Mutation(
        "accounting/costs.py",
        "return Fraction(-(-scaled.numerator // scaled.denominator)) / Fraction(2) ** shift",
        "return Fraction(scaled.numerator // scaled.denominator) / Fraction(2) ** shift",
        "tests/unit/accounting/test_costs.py::test_many_coordinates_make_short_amounts",
    ),
    Mutation(
        "accounting/costs.py",
        'amounts |= {"epsilon": epsilon, "rho": min(epsilon**2 / 2, epsilon)}',
        'amounts |= {"epsilon": epsilon, "rho": min(epsilon**2 / 4, epsilon)}',
        "tests/unit/accounting/test_costs.py::test_a_pure_promise_costs_no_less_than_randomised_response_diverges",
    ),
    Mutation(
        "accounting/costs.py",
        "laplace_mu_squared(epsilon) if epsilon else",
        "epsilon * epsilon * 5 / 4 if epsilon else",
        "tests/oracle/test_subsampled_charges.py::test_sampled_laplace_steps_cost_a_mu_whose_gaussian_is_as_far_apart",
    ),
    Mutation(
        "accounting/rules.py",
        "tail = 2 / (_delta_of_rules(total, reserve) * order)",
        "tail = 1 / (_delta_of_rules(total, reserve) * order)",
        "tests/unit/accounting/test_rules.py::test_the_renyi_limit_is_below_its_formula_and_near",
    ),
    Mutation(
        "accounting/rules.py",
        "return any(spent is not None and spent <= limit for spent, limit in totals)",
        "return any(spent is None or spent <= limit for spent, limit in totals)",
        "tests/unit/accounting/test_rules.py::test_one_rule_is_enough_and_none_absorbs",
    ),
    Mutation(
        "accounting/rules.py",
        "return decimal_fraction(total.delta) - (0 if reserve",
        "return decimal_fraction(total.delta) + (0 if reserve",
        "tests/unit/accounting/test_reserve.py::test_the_rules_have_what_is_left_of_delta",
    ),
    Mutation(
        "accounting/rules.py",
        "not (taken is not None and taken <= terms.reserve)",
        "not (taken is not None and taken <= 2 * terms.reserve)",
        "tests/unit/accounting/test_reserve.py::test_takings_add_up_exactly_to_the_reserve",
    ),
    # Tables.
    # Texts longer than the server compares, texts by a collation that folds, and dates that it takes for null.
    Mutation(
        "tables/engines/sql/mariadb.py",
        '"max_sort_length": "4194304",',
        '"max_sort_length": "1024",',
        "tests/attack/test_mariadb.py::test_long_texts_are_compared_to_their_last_letter",
    ),
    Mutation(
        "tables/engines/sql/mariadb.py",
        'return f"CAST(CONVERT({letters} USING utf8mb4) AS BINARY)"',
        'return f"CONVERT({letters} USING utf8mb4)"',
        "tests/attack/test_mariadb.py::test_texts_are_told_apart_by_their_letters",
    ),
    Mutation(
        "tables/engines/sql/mariadb.py",
        'return f"CASE WHEN {there} THEN {name} END", self._DATES[words[0]]',
        "return name, self._DATES[words[0]]",
        "tests/attack/test_mariadb.py::test_dates_with_a_part_of_zero_are_missing",
    ),
    Mutation(
        "tables/questions/largest_group.py",
        'return 2 * once if self.neighbours == "replace" else once',
        "return once",
        "tests/unit/tables/test_largest_group.py::test_the_range_of_the_counts_is_attained_and_never_exceeded",
    ),
    Mutation(
        "tables/questions/marginals/sensitivity.py",
        "pairs.add(tuple((u * u + v * v, 2 * u * v) for u, v in zip(one, two, strict=True)))",
        "pairs.add(tuple((u * u + v * v, 0 * u * v) for u, v in zip(one, two, strict=True)))",
        "tests/unit/tables/marginals/test_sensitivity.py::test_nobody_leaves_the_ellipsoid_and_somebody_reaches_it",
    ),
    Mutation(
        "tables/questions/marginals/sensitivity.py",
        'if neighbours != "replace" or vanishing:',
        'if neighbours != "replace":',
        "tests/unit/tables/marginals/test_sensitivity.py::test_radii_that_are_cut_do_not_pass",
    ),
    Mutation(
        "tables/questions/marginals/sensitivity.py",
        "radii = self.radii if self.rows == 1 else np.nextafter(self.radii * float(self.rows), np.inf)",
        "radii = self.radii",
        f"{_PERSON}[marginals of people-gaussian-add_remove]",
    ),
    Mutation(
        "tables/questions/partition_selection.py",
        "square = twice * (self.most_keys if self.people else self.rows**2)",
        "square = twice * (self.most_keys if self.people else self.rows)",
        "tests/unit/tables/partition_selection/test_selection.py::test_one_person_moves_the_counts_as_far_as_stated_and_no_further",
    ),
    Mutation(
        "tables/questions/prefix_sums/question.py",
        "bounds.append(reach * rows if whole else math.nextafter(reach * rows, math.inf))",
        "bounds.append(reach)",
        "tests/unit/tables/prefix_sums/test_strategy.py::test_no_person_leaves_the_set",
    ),
    Mutation(
        "tables/questions/prefix_sums/choice.py",
        "2 * most if cells > 1 else 0",
        "0",
        f"{_CHOICE}::test_no_replaced_row_moves_the_choices_farther_than_the_radius[asked2-1]",
    ),
    Mutation(
        "tables/questions/prefix_sums/choice.py",
        "return int(self.ranges[at] * self.probabilities[at].denominator)",
        "return self.probabilities[at].denominator",
        f"{_CHOICE}::test_all_choices_together_cost_what_is_planned",
    ),
    Mutation(
        "releasing.py",
        "EXPONENTIAL_SCALE = Fraction(626_657_069, 10**9)",
        "EXPONENTIAL_SCALE = Fraction(313_328_535, 10**9)",
        f"{_CHOICE}::test_a_choice_is_dominated_by_gaussian_noise_and_by_no_less",
    ),
    Mutation(
        "tables/questions/prefix_sums/strategy.py",
        "return float(2 * most if replace else most)",
        "return float(most)",
        "tests/unit/tables/prefix_sums/test_strategy.py::test_the_radius_holds_every_neighbour_and_is_attained",
    ),
    Mutation(
        "tables/questions/statistics/sensitivity.py",
        "return _value(2 * rows * item.size + slack, item.step)",
        "return _value(rows * item.size + slack, item.step)",
        "tests/unit/tables/test_sensitivities.py::test_cells_of_groups_are_one_group_per_statistic",
    ),
    Mutation(
        "tables/questions/statistics/sensitivity.py",
        "diagonal = math.nextafter(math.sqrt(2.0) * _value(rows * item.size, 1.0), math.inf)",
        "diagonal = 0.0",
        "tests/unit/tables/test_sensitivities.py::test_cells_of_groups_are_one_group_per_statistic",
    ),
    Mutation(
        "tables/questions/statistics/sensitivity.py",
        "return max(self.most, 0) - min(self.least, 0)",
        "return self.most",
        "tests/unit/tables/test_sensitivities.py::test_counts_and_means_are_a_box",
    ),
    Mutation(
        "tables/questions/statistics/sensitivity.py",
        'return self.place(Item("product", columns, present, low - shift, high - shift, step, shift))',
        'return self.place(Item("product", columns, present, low - shift, (high - shift) // 2, step, shift))',
        "tests/unit/tables/test_sensitivities.py::test_squares_are_centred_once_more_and_products_reach_their_corners",
    ),
    Mutation(
        "tables/streams/strategies.py",
        "return Fraction(contributes * longest, 2**self.bits)",
        "return Fraction(longest, 2**self.bits)",
        "tests/unit/tables/streams/test_strategies.py::test_laplace_noise_spends_no_more_than_is_proved",
    ),
    Mutation(
        "tables/streams/strategies.py",
        "return bits, math.isqrt(4**bits // total)",
        "return bits, math.isqrt(4**bits // total) + 1",
        "tests/unit/tables/streams/test_strategies.py::test_gaussian_noise_spends_no_more_than_is_proved",
    ),
    Mutation(
        "tables/questions/synthetic/three_steps.py",
        "np.full(number, float(self.most_moved))",
        "np.full(number, 1.0)",
        "tests/attack/test_synthetic_steps.py::"
        "test_scores_are_exact_and_move_as_their_box_says_whatever_the_reference[replace-2]",
    ),
    Mutation(
        "tables/questions/synthetic/blocks.py",
        "= 2 * self.own_part(block) * (1 - g)",
        "= self.own_part(block) * (1 - g)",
        f"{_RESIDUALS}[sizes5-members5-1-False-replace]",
    ),
    Mutation(
        "tables/questions/synthetic/blocks.py",
        "return self.spent(rates) <= 1",
        "return True",
        "tests/attack/test_synthetic_steps.py::"
        "test_a_set_with_smaller_radii_or_of_other_blocks_is_refused[sizes6-members6-add_remove]",
    ),
    Mutation(
        "tables/questions/synthetic/values_in_bins.py",
        "of_sums, of_counts = 2.0 if replaced else 1.0,",
        "of_sums, of_counts = sqrt(2.0) if replaced else 1.0,",
        "tests/unit/tables/test_synthetic_values.py::"
        "test_the_set_of_values_holds_every_difference_and_a_twin_does_not[1-replace]",
    ),
    # Estimators.
    Mutation(
        "learn/additive/backfitting_plan.py",
        "return one * (2 if replaced else 1) *",
        "return one * (math.sqrt(2) if replaced else 1) *",
        "tests/attack/test_learn_additive.py"
        "::test_a_sum_in_one_cell_moves_by_twice_a_residual_and_not_by_the_root_of_two[gaussian]",
    ),
    Mutation(
        "learn/additive/backfitting_plan.py",
        "moved = tables * (2 if replaced else 1)",
        "moved = tables",
        f"{_ADDITIVE}[number-replace-gaussian]",
    ),
    Mutation(
        "learn/additive/backfitting.py",
        "return np.trunc(np.clip(z, -1.0, 1.0) * _GRID)",
        "return np.trunc(z * _GRID)",
        f"{_ADDITIVE}[number-add_remove-laplace]",
    ),
    Mutation(
        "learn/descent/clipped_gradients.py",
        "buffer.clip(ends[0], ends[1], out=buffer)",
        "buffer.clip(2 * ends[0], 2 * ends[1], out=buffer)",
        "tests/property/test_learn.py::test_a_clipped_sum_is_exact_and_each_record_is_bounded",
    ),
    Mutation(
        "learn/descent/clipped_gradients.py",
        "one = -bound if one < -bound else one",
        "one = -bound if one < -1e300 else one",
        "tests/property/test_learn.py::test_a_clipped_sum_is_exact_and_each_record_is_bounded",
    ),
    Mutation(
        "learn/descent/clipped_gradients.py",
        "near = (near + grid) - grid",
        "near = near",
        "tests/property/test_learn.py::test_the_compiled_loop_computes_what_the_table_lists_bit_by_bit",
    ),
    Mutation(
        "learn/descent/descent_plan.py",
        "norm = 1.0 if not replaced else 2.0 if pure else",
        "norm = 1.0 if not replaced else 1.0 if pure else",
        "tests/attack/test_learn_target_cells.py::test_no_neighbour_moves_the_cells_further_than_the_plan_states",
    ),
    Mutation(
        "learn/descent/descent_plan.py",
        "reach = steps.bounds * (2 if replaced else 1)",
        "reach = steps.bounds",
        f"{_FIT}[coordinate descent-replace-approx]",
    ),
    Mutation(
        "learn/descent/descent_plan.py",
        "norms.append(most * passes if pure else most * math.sqrt(passes) * _UP)",
        "norms.append(most)",
        "tests/attack/test_learn_target_cells.py::test_every_pass_over_the_columns_is_paid_for",
    ),
    Mutation(
        "learn/k_means.py",
        "size = math.sqrt(rounds * (max(2.0, apart) if replaced else 1.0)) * _UP",
        "size = math.sqrt(max(2.0, apart) if replaced else 1.0) * _UP",
        f"{_FIT}[k-means-replace-approx]",
    ),
    Mutation(
        "learn/moments/second_moments.py",
        "return np.where(i == j, (size[i] ** 2 - squares[i]) * _UP, widest)",
        "return np.where(i == j, (size[i] ** 2 - squares[i]) / 2, widest)",
        "tests/property/test_learn.py::test_both_sets_for_replacement_hold_every_change",
    ),
    Mutation(
        "learn/moments/second_moments.py",
        "parts = [i.size - count]",
        "parts = []",
        "tests/unit/learn/test_second_moments.py::"
        "test_staircase_noise_takes_a_fifth_of_the_squared_error_of_laplace_noise",
    ),
    Mutation(
        "planning/staircase_plan.py",
        "elif ((starts[places] < end) & (ends[places] > start)).any():",
        "elif False:",
        "tests/property/test_narrower_bounds.py::"
        "test_a_plan_whose_blocks_span_the_first_look_and_the_moments_is_refused_before_the_charge",
    ),
    Mutation(
        "tables/intervals.py",
        "cut = beyond(distance, np.maximum(np.abs(here), np.abs(far)))",
        "cut = beyond(distance, here)",
        "tests/unit/tables/test_joint_noise.py::"
        "test_ends_of_ratios_cover_every_ratio_that_is_not_rejected_also_where_these_are_no_interval",
    ),
    Mutation(
        "planning/staircase_plan.py",
        "once = law.rho if moves == 1 else staircase_law.power_below(law.rho, moves)",
        "once = law.rho",
        "tests/unit/sets/test_partitions.py::test_wrong_forms_are_refused_and_would_break_the_promise",
    ),
    Mutation(
        "planning/staircase_plan.py",
        "if len(set(boxes.partition[list(numbers)].tolist())) != 1:",
        "if False:",
        "tests/unit/sets/test_partitions.py::test_wrong_forms_are_refused_and_would_break_the_promise",
    ),
    Mutation(
        "tables/questions/statistics/sensitivity.py",
        "moves.append(1 if size == 1 else touched)",
        "moves.append(1)",
        "tests/unit/tables/test_joint_noise.py::test_no_neighbour_costs_more_steps_than_the_promise"
        "[cells and bins-replace-None-None]",
    ),
    Mutation(
        "noise/staircase.py",
        "again = doubtful[rest < least]",
        "again = doubtful[:0]",
        "tests/unit/noise/test_staircase.py::test_doubtful_words_are_drawn_anew",
    ),
    Mutation(
        "learn/naive_bayes.py",
        'factor, plain = 2.0 if neighbours == "replace" else 1.0,',
        'factor, plain = 1.0 if neighbours == "replace" else 1.0,',
        f"{_FIT}[naive Bayes-replace-pure]",
    ),
    Mutation(
        "learn/naive_bayes.py",
        "free &= ~here",
        "pass",
        "tests/property/test_learn_blocks.py::test_a_row_counts_in_one_class_whatever_its_label_claims",
    ),
    Mutation(
        "learn/pca.py",
        "shrink = np.where(lengths > self.most, self.most / lengths, 1.0)",
        "shrink = np.ones_like(lengths)",
        f"{_FIT}[PCA-replace-approx]",
    ),
    Mutation(
        "learn/pca.py",
        "* self.norm**2 * (math.sqrt(2) if replaced else 1.0)",
        "* self.norm**2",
        "tests/property/test_learn.py::test_rows_at_and_beyond_the_norm_stay_within_the_set_of_pca_and_attain_it",
    ),
    Mutation(
        "learn/public_units.py",
        'return np.repeat([2.0 if neighbours == "replace" else 1.0, 1.0], width)',
        "return np.repeat([1.0, 1.0], width)",
        f"{_FIT}[standard scaler-replace-approx]",
    ),
    # Evidence: a bound from guesses, and the checker without dependencies, which lies beside the library.
    Mutation(
        "testing/auditing.py",
        "more = canaries * delta *",
        "more = delta *",
        "tests/unit/testing/test_training_audit.py::"
        "test_no_mechanism_guesses_more_than_is_stated_and_one_guesses_as_much",
    ),
    Mutation(
        "../inid_check.py",
        "moves = moved[lists[0][0]][2]",
        "moves = 1",
        "tests/unit/test_inid_check.py::test_staircase_noise_that_covers_less_than_its_cells_is_not_accepted",
    ),
    Mutation(
        "../inid_check.py",
        "        _covers(stated, amounts |",
        "        _covers({}, amounts |",
        "tests/unit/test_inid_check.py::test_forged_ledgers_are_rejected",
    ),
    Mutation(
        "../inid_check.py",
        "tail = tail_bounds(mu / 2, bits)[1]",
        "tail = tail_bounds(mu / 2, bits)[1] / 2",
        "tests/unit/test_inid_check.py::test_laplace_and_pure_noise_are_gaussian_from_their_exact_limits_on",
    ),
    # Training.
    Mutation(
        "accounting/training_runs.py",
        'step = plan(alone, GaussianDP(mu=1 / self.noise_multiplier), mechanism="gaussian")',
        'step = plan(alone, GaussianDP(mu=0.5 / self.noise_multiplier), mechanism="gaussian")',
        "tests/unit/dpsgd/test_accountant.py::test_epsilon_agrees_with_dp_accounting",
    ),
    Mutation(
        "accounting/training_runs.py",
        "return subsample(step, rate=self.sample_rate, steps=self.steps)",
        "return subsample(step, rate=self.sample_rate, steps=1)",
        "tests/unit/dpsgd/test_accountant.py::test_one_more_step_costs_more",
    ),
    Mutation(
        "dpsgd/accountant.py",
        "self._history[-1] = replace(more, steps=self._history[-1].steps + steps)",
        "self._history[-1] = more",
        "tests/unit/dpsgd/test_accountant.py::test_segments_keep_their_order_and_add_up",
    ),
    Mutation(
        "dpsgd/grad_sample/clipped_sums.py",
        "return torch.threshold(norms.clamp(min=least).reciprocal_(), 1 / (_LONGEST * least), 0.0)",
        "return torch.threshold(norms.clamp(min=2 * least).reciprocal_() * 2, 1 / (_LONGEST * least), 0.0)",
        "tests/audit/test_training.py::test_one_example_moves_a_step_as_far_as_it_covers[global]",
    ),
    Mutation(
        "dpsgd/grad_sample/clipped_sums.py",
        "return shares if padding is None else shares.masked_fill_(padding, 0.0)",
        "return shares",
        "tests/attack/test_padded_batches.py::test_one_example_more_moves_the_sum_of_a_transformer_by_one_threshold",
    ),
    Mutation(
        "dpsgd/grad_sample/clipped_sums.py",
        "norms = total if norm == 1 else total.sqrt()",
        "norms = total.sqrt()",
        "tests/unit/dpsgd/grad_sample/test_clipped_sums.py::test_every_way_of_clipping",
    ),
    Mutation(
        "dpsgd/grad_sample/clipped_sums.py",
        "length = raised(torch.linalg.vector_norm(parts, ord=rule.norm, dim=0), len(parts))",
        "length = parts[0]",
        "tests/unit/dpsgd/grad_sample/test_clipped_sums.py::test_every_way_of_clipping",
    ),
    Mutation(
        "dpsgd/sampling/poisson_draw.py",
        "limit = math.floor(rate * 2**64)",
        "limit = math.floor(rate * 2**64 * 1.25)",
        "tests/unit/dpsgd/sampling/test_poisson_loader.py::test_the_probability_is_never_above_the_rate",
    ),
)


def outcome(copy, tests):
    """What pytest says of some tests with the library of a folder: its exit code, None where it does not end."""
    names = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "INID_EXAMPLES"))}
    names.pop("PYTHONDONTWRITEBYTECODE", None)  # all but one file of the copy is the same for every mutation
    names["PYTHONPATH"] = os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH")]))
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
    try:
        return subprocess.run(
            [*pytest, *tests], cwd=ROOT, env=names, capture_output=True, timeout=_LONGEST, check=False
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        return None


def verdict(copy, mutation, number):
    """Apply a mutation to the copy, run its tests, and take it back."""
    original, changed = ROOT / "src" / "inid" / mutation.file, copy / "inid" / mutation.file
    changed.write_text(mutation.applied_to(original.read_text(encoding="utf-8")), encoding="utf-8")
    os.utime(changed, (number, number))  # bytecode is taken for that of another text by time and size alone
    code = outcome(copy, [mutation.test])
    shutil.copy2(original, changed)
    return {_PASSED: "survived", _FAILED: "killed"}.get(code, "broken")


def main(words=(), mutations=MUTATIONS, write=print):
    """Try the mutations whose file names hold one of the words; 0 if all are killed."""
    chosen = [one for one in mutations if not words or any(word in one.file for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        if outcome(copy, sorted({one.test for one in chosen})) != _PASSED:
            write("the tests do not pass without any mutation, or there are none to run")
            return 1
        found = []
        for number, one in enumerate(chosen, start=1):
            found.append(verdict(copy, one, number))
            write(f"{found[-1]:<8}  {one.file}: {one.old}")
    killed = found.count("killed")
    write(f"{killed} of {len(found)} killed, {found.count('survived')} survived, {found.count('broken')} ran no test")
    return 0 if killed == len(found) else 1


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("words", nargs="*", help="words of which a mutated file's name must hold one")
    sys.exit(main(reader.parse_args().words))
