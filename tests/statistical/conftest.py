import pytest


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"])
def compiled(request):
    """Both paths of the sampler; the set-up of the tests brings numba."""
    return request.param
