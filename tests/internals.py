"""Where a name of a package is defined, for tests that replace it: no test names the file."""

import ast
import importlib
import pkgutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def _definitions(package):
    """The modules of a package and of those inside it, each with the names that it defines."""
    found = {}
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.ispkg:
            tree = ast.parse(Path(find_spec(module.name).origin).read_text(encoding="utf-8"))
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            found[module.name] = {node.name for node in tree.body if isinstance(node, kinds)}
    return found


def module_with(package, name):
    """The module that defines a function or class of a package; of several the one nearest to the package."""
    homes = [module for module, names in _definitions(package).items() if name in names]
    nearest = min((module.count(".") for module in homes), default=0)
    homes = [module for module in homes if module.count(".") == nearest]
    assert len(homes) == 1, f"{name} is defined in {homes} of {package}"
    return importlib.import_module(homes[0])
