"""Per-sample gradients of a model's layers, and how they are clipped and added.

`layers` has the formula of every layer, `ghost_clipping` gradients that are never written down, `clipped_sums` the
clipping. Recurrent layers, and any layer without a formula, are in `recurrent_layers` and `vmap_gradients`.
"""

from inid.dpsgd.grad_sample.call_plan import Unit, units_of
from inid.dpsgd.grad_sample.clipped_sums import MARGIN, Rule, Sums
from inid.dpsgd.grad_sample.elementwise_clipping import elementwise_clipped_sum
from inid.dpsgd.grad_sample.ghost_clipping import (
    LookupGrads,
    PositionGrads,
    TiedGrads,
    ghost_grads,
    sum_of_uses,
    typical_loss,
)
from inid.dpsgd.grad_sample.grad_samples import (
    DenseGrads,
    EmbeddingGrads,
    GradSampler,
    OuterGrads,
    SlicedGrads,
    raised,
    truncated_,
)
from inid.dpsgd.grad_sample.layers import (
    check_rule,
    convolution,
    convolution_grad_samples,
    grad_sampler_of,
    register_layer,
    scaling_norm_sampler,
)
from inid.dpsgd.grad_sample.module_snapshot import ModuleSnapshot
from inid.dpsgd.grad_sample.stacked_layers import JointStack, SeparateStack
from inid.dpsgd.grad_sample.vmap_gradients import plain_attention
