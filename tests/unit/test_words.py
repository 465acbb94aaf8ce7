"""Words that only this library used are kept out of its names; the field has words for what they meant."""

import ast
from pathlib import Path

import inid

SOURCE = Path(inid.__file__).parent
# A retired name, and the field's word for it.
RETIRED = {
    "followed_outputs": "output_tracking",
    "earlier_tensors": "preexisting_tensors",
    "is_everybodys": "broadcasts_batch",
    "held_sums": "elementwise_clipping",
    "gathered_rows": "grad_accumulator",
    "walked_model": "module_snapshot",
    "kept_memory": "malloc_retention",
    "described_settings": "module_fingerprint",
    "watched_settings": "module_fingerprint",
    "plain_state": "attribute_snapshot",
    "dealt_positions": "random_partition",
    "tables_inside": "submarginals",
    "released_numbers": "measurements",
    "lost_in_noise": "significance",
    "found_out": "infer_call_plan",
    "fused_positions": "ghost_clipping",
    "fused_layers": "ghost_clipping",
    "layerrule": "GradSampler",
    "unspent": "preserve_rng",
    "walkedmodel": "ModuleSnapshot",
    "gatheredrows": "GradAccumulator",
    "looked": "PreliminaryRelease",
    "descended": "DescentResult",
}


def names(path: Path) -> set[str]:
    """The names that a file gives: its own, and those of classes, functions, arguments, variables and attributes."""
    found = {path.stem, path.parent.name}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return {name.strip("_").lower() for name in found}


def test_retired_words_are_in_no_name():
    used = {
        f"{path.relative_to(SOURCE)}: {name}, say {RETIRED[name]}"
        for path in SOURCE.rglob("*.py")
        for name in names(path) & RETIRED.keys()
    }
    assert sorted(used) == []


def test_a_retired_word_is_noticed_as_a_file_a_class_a_function_and_a_variable(tmp_path):
    path = tmp_path / "held_sums.py"
    path.write_text(
        "class LayerRule:\n    def found_out(self, lost_in_noise):\n        self._plain_state = kept_memory = 1\n"
    )
    assert names(path) >= {"held_sums", "layerrule", "found_out", "lost_in_noise", "plain_state", "kept_memory"}
