"""Norms and sums by few products or launches, with bounds on what they round.

`rounding` says what rounding can do to a product of matrices; `ghost_norms` has the norms and sums of gradients that
are never written down; `ghost_kernels` and `grad_sample_kernels` launch what `triton_kernels` runs on a GPU.
"""

from inid.dpsgd.kernels.ghost_norms import (
    absolute_sum,
    add_products,
    direct_bound,
    folded,
    gram_bound,
    weighted_product,
)
from inid.dpsgd.kernels.rounding import chunked
