"""The tensors that were there before a first batch: views, changes and numbers that are given again are told apart."""

import gc

import torch

from inid.dpsgd.loss import PreexistingTensors


def test_what_was_there_is_found_as_long_as_it_is_the_same():
    kept, changed, gone = torch.ones(3), torch.ones(3), torch.ones(3)
    earlier = PreexistingTensors()
    changed.add_(1)
    del gone
    others = [torch.ones(3) for _ in range(50)]  # one of them may have the place of the one that is gone
    assert kept in earlier
    assert kept[:2] in earlier
    assert changed not in earlier
    assert not any(each in earlier for each in others)


def test_a_second_look_leaves_the_collector_next_to_nothing_to_go_through():
    """Every training looks, and one that is broken off stays: pairs would add up to the square of their number."""
    tensors = [torch.ones(1) for _ in range(2000)]
    first = PreexistingTensors()
    gc.collect()
    before = len(gc.get_objects())
    second = PreexistingTensors()
    more = len(gc.get_objects()) - before
    assert tensors[0] in first
    assert tensors[0] in second
    assert more < 200, more
