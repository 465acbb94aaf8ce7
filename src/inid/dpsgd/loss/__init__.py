"""That a training loop keeps examples apart, from a model's outputs to its loss. Start reading in `graph`.

graph             which losses keep rows apart, seen in the graph of autograd
nodes             what nodes of autograd are called and keep
by_rows           a loss taken row by row, which cannot mix rows
per_example_loss  losses that keep examples apart
followed_outputs  what a loop does with outputs, seen at some forwards
loop_checks       what a loop does to the first batches
outside_hooks     hooks that a loop puts on what lies between
backward_calls    backwards are announced before they begin
earlier_tensors   which tensors were there before a batch
"""
