import pytest


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"])
def compiled(request):
    return request.param
