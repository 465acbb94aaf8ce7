"""How the statistical tests know: the constants, and what they cost.

Every sample here comes from a seeded source, so a test that passes once passes always. The seeds are arbitrary: none
was tried and dropped. Had the source not been seeded, each assertion "the right law is accepted" would fail by chance
with probability `REJECT_BELOW`, less than one in a million; there are about 200 of them.

"The wrong law is rejected" uses the same bar. The sample sizes are such that the statistic of a scale wrong by 1 % lies
far beyond it: with n draws the noncentrality is n * 0.01**2 * I, where I is Fisher's information about the logarithm of
the scale (1 for Laplace, 2 for the Gaussian): 400 and 800 for 4 million draws, against about 100 degrees of freedom.
"""

# A p-value below this rejects a law.
REJECT_BELOW = 1e-7

# Draws per case; more with short words, where every rare path is common and worth a closer look.
DRAWS = 4_000_000
SHORT_WORD_DRAWS = 10_000_000
# One at a time, in Python: a scale wrong by 3 % then has the noncentrality 360 (Laplace) or 720, by 5 % in an eighth of
# the draws 125 or 250, on a grid as coarse as the scale somewhat less.
PREPARED_DRAWS = 400_000

# A correlation of independent, centred variables over n pairs is about normal with standard deviation 1 / sqrt(n):
# 5.5 standard deviations are exceeded with probability 4e-8.
CORRELATION_SIGMAS = 5.5

# Audits: the bound may exceed the truth with at most this probability, each.
AUDIT_CONFIDENCE = 1 - 1e-7
