"""The package's version and the format of its records, alone in a file that the build reads without the package."""

__version__ = "0.3.0"

# Of ledgers and of records (plans, compositions, charges of several parts, releases). Any other number is refused: 1
# and 2 were used before, for other contents, and a spent ledger must not be misread.
RECORD_FORMAT = 3
