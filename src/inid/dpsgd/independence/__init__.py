"""That a model keeps examples apart, bit for bit: it is checked on made-up ones before training. Start in `check`.

validation          modules that mix examples, known by name
made_up             made-up batches, of which some examples stay and the others change
layout              where examples lie in what layers are called with
selected_rows       tensors whose entries were selected by the examples' values
check               what layers see of the examples that stay is equal to the bit
digests             what tells two tensors apart in 128 bits, made where they lie
attribute_snapshot  what a model keeps from one forward to the next
"""

from inid.dpsgd.independence.check import Independence
from inid.dpsgd.independence.validation import check_module, fix, validate
