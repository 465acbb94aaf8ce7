"""Numbers that decide: exact sums, enclosures in integers, ends on the safe side, and the rounding model."""
