"""The loss of a private step: a function of one row's outputs and targets. Start reading in `row_loss`.

row_loss       the contract, and how a loss is taken row by row
frozen_module  a teacher, whose outputs may be targets
"""
