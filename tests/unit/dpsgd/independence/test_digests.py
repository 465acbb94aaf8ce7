"""Digests tell tensors apart by a single bit, by the CPU's way and by the sums that a GPU makes."""

import pytest
import torch

from internals import module_with

digests = module_with("inid.dpsgd.independence", "digest_of")


def by_sums(tensor):
    return tuple(digests.folded(tensor.contiguous().reshape(-1).view(torch.uint8))[0].tolist())


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 1024 * 4096 + 5])
def test_one_bit_changes_a_digest_and_nothing_else_does(size):
    x = torch.randn(size, generator=torch.Generator().manual_seed(0))
    for digest in (digests.digest_of, by_sums):
        before = digest(x)
        assert digest(x.clone()) == before
        for at in {0, size // 2, size - 1}:
            for bit in (0, 15, 31):
                other = x.clone()
                other.view(torch.int32)[at] ^= 1 << bit if bit < 31 else -(2**31)
                assert digest(other) != before


def test_numbers_that_change_places_change_a_digest():
    x = torch.randn(5000, generator=torch.Generator().manual_seed(0))
    assert by_sums(x) != by_sums(x.flip(0))
    assert by_sums(x) != by_sums(torch.cat([x[4096:], x[:4096]]))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool, torch.uint8])
def test_every_type_has_a_digest_of_all_its_bytes(kind):
    ones, others = torch.ones(7, dtype=kind), torch.ones(7, dtype=kind)
    others[3] = 0
    for digest in (digests.digest_of, by_sums):
        assert digest(ones) == digest(ones.clone())
        assert digest(ones) != digest(others)


def test_the_shape_counts_and_the_length_is_kept():
    assert digests.digest_of(torch.zeros(2, 3)) != digests.digest_of(torch.zeros(3, 2))
    assert digests.digest_of(torch.zeros(0)) != digests.digest_of(torch.zeros(1))
    assert digests.digest_of(torch.tensor([3.0, 4.0])).length == 5.0
    assert digests.digest_of(torch.tensor([3, 4])).length == 5.0
