"""Norms and sums by few products or launches, with bounds on what they round.

fused_norms     norms of gradients that are never written down, rounded upwards
fused_sums      their weighted sums
fused_rounding  what rounding can do to a product of matrices
fused_kernels   the same on a GPU; `fused_triton` is what it runs
row_kernels     rows of a layer in one kernel; `row_triton` is what it runs
gpu_clipping    norms and shares of a group in few launches
stacked_layers  like layers taken together
"""
