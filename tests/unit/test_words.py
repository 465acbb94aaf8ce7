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
    "rowloss": "PerSampleLoss",
    "whole_sum": "exact_sum",
    "add_apart": "add_separately",
    "found_charge": "matching_charge",
    "kind_named": "kind_by_name",
}
# Words that say how a value came about, not what it is.
PARTICIPLES = {"found", "made", "own", "held", "wanted", "seen", "kept", "told", "said", "met", "whole", "beside"}
ROOMS_OF_NOUNS = (  # no variable in these has such a name
    *(
        "accounting",
        "cli",
        "curves",
        "jobs",
        "learn/descent",
        "learn/moments",
        "mechanisms",
        "noise",
        "numbers",
        "planning",
        "report",
    ),
    *("schema", "sets", "studio", "testing", "dpsgd/grad_sample", "dpsgd/integrations", "dpsgd/kernels", "dpsgd/noise"),
    *("dpsgd/sampling", "tables/engines/sql", "tables/questions/marginals", "tables/streams"),
)


def names(path: Path) -> set[str]:
    """The names that a file gives: its own, and those of classes, functions, arguments, variables and attributes."""
    names = {path.stem, path.parent.name} | variables(path)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return {name.strip("_").lower() for name in names}


def variables(path: Path) -> set[str]:
    """The variables and arguments of a file."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)} | {
        node.arg for node in nodes if isinstance(node, ast.arg)
    }


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


def test_variables_are_nouns():
    assert all((SOURCE / room).is_dir() for room in ROOMS_OF_NOUNS)
    files = [path for room in ROOMS_OF_NOUNS for path in (SOURCE / room).rglob("*.py")]
    files += (SOURCE / "dpsgd").glob("*.py")
    assert [
        f"{path.relative_to(SOURCE)}: {sorted(bad)}" for path in files if (bad := variables(path) & PARTICIPLES)
    ] == []


def test_a_participle_is_noticed_as_a_variable_an_argument_and_a_loop(tmp_path):
    path = tmp_path / "file.py"
    path.write_text(
        "def f(held):\n    for own in held:\n        found = own.made\n    return [kept for kept in found]\n"
    )
    assert variables(path) & PARTICIPLES == {"held", "own", "found", "kept"}
