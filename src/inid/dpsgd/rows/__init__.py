"""Gradients of single examples, and how they are clipped and added. Start reading in `per_example_gradients`.

per_example_gradients  where they come from: the forward of a model is wrapped
wrapped_forward        how a forward is wrapped, and its inputs are kept
walked_model           the parts of a model with what they hold
forward_pass           one forward and the backward that belongs to it
graph_hooks            what its graph calls, which does not hold the training
units                  the layers whose parameters get their gradients at once
layer_rule             what a kind of layer has to say of itself
layer_formulas         the formulas of torch's layers
convolution_rows       that of convolutions, by the windows that each position met
gradient_rows          the gradients of one parameter, in the form that is cheapest to clip
fused_layers           which layers need not write them down
fused_positions        gradients that are never written down
bare_parameters        parameters that a module uses beside its layers
layers_with_rule       how layers with a rule are run
layers_without_rule    how layers without a rule are run
recurrent_layers       LSTM, GRU and RNN
recurrences            the gradients of their gates, at all positions
vmap_gradients         gradients of any other layer without a formula
gathered_rows          what a backward gathers, clipped as soon as a group is whole
parameter_groups       which parameters are clipped together
clipped_sums           what an example adds is held to its threshold
adaptive               thresholds that follow private quantiles
"""
