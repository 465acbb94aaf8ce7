"""Numbers in print: as many digits as the noise leaves any meaning to."""

from inid.report import rounded_interval


def test_numbers_are_shown_to_the_digits_that_the_noise_leaves():
    assert rounded_interval(0.09746913, 0.0880197, 0.106919) == ("0.0975", "0.0880", "0.1069")
    assert rounded_interval(5.0, 5.0, 5.0) == ("5", "5", "5")
    assert rounded_interval(None, None, None) == ("-", "-", "-")
