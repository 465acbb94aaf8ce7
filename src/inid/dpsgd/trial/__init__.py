"""That a model keeps examples apart: it is tried on made-up ones before it sees others. Start reading in `runs`.

validation        modules that mix examples, known by name
examples          three made-up examples of the form of a batch
runs              the model on them: together and alone, and twice where chance decides
full_batch        the same three among many
state             whether the model keeps what it saw
trace             what happened in one run
rule_check        whether a layer's formula gives what autograd gives
agreement         whether numbers agree within rounding
call_plan         which layers are called, and how examples lie in what they get: the answer of a trial
selected_rows     tensors whose entries were selected by the examples' values
fixed_randomness  runs in which nothing random depends on the number of examples
plain_state       what a model keeps as plain attributes
watched_settings  what may change how a model computes, so that it is tried again
described_settings  the same in a form that can be compared
model_outputs     the tensors that a model returns, in objects of any kind
"""
