import pytest


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"])
def compiled(request):
    if request.param:
        pytest.importorskip("numba", reason="the compiled loops need numba: pip install 'inid[fast]'")
    return request.param
