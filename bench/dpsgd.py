"""Private training on a CPU beside the non-private step and Opacus: ResNet-20, a small transformer, linear layers.

Writes results/bench/training-*.md. One thread each, and the CPU time of the process rather than the clock's,
since other work on the machine would show in the latter; repetitions are interleaved, and medians compared. Opacus
lives in an environment of its own: set INID_BENCH_PYTHON to an interpreter that can import it. It runs in the same
rounds, in a process that waits for its turn, and its ratio is to the non-private step of its own process.
"""

import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench._result_table import ResultTable

ROUNDS, BATCH, CLASSES = 15, 64, 10
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "cifar10.py"

# What both processes need: a network, the same batch, and a step that is not private. The example imports inid, which
# the peers' environment does not have: only the two classes are taken from it.
NETWORKS = {
    "resnet": """
import ast, sys, time
from pathlib import Path
import torch
from torch import nn
from torch.nn import functional
torch.set_num_threads(1)
tree = ast.parse(Path(sys.argv[1]).read_text())
tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in ("Block", "ResNet20")]
exec(compile(tree, sys.argv[1], "exec"))
torch.manual_seed(0)
x, y = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
network = ResNet20
def losses(output, y):
    return functional.cross_entropy(output, y, reduction="none")
""",
    "transformer": """
import sys, time
import torch
torch.set_num_threads(1)
sys.path.insert(0, ".")
from bench._transformer import Transformer, losses
torch.manual_seed(0)
tokens = torch.randint(0, 1000, (32, 65))
x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
def network():
    return Transformer(tokens=1000, width=128, layers=2, heads=4, length=64)
""",
    "mlp": """
import sys, time
import torch
from torch import nn
from torch.nn import functional
torch.set_num_threads(1)
torch.manual_seed(0)
x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
def network():
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 350), nn.ReLU(), nn.Linear(350, 10)
    )
def losses(output, y):
    return functional.cross_entropy(output, y, reduction="none")
""",
}
SMALL = """
import sys, time
import torch
from torch.nn import functional
torch.set_num_threads(1)
sys.path.insert(0, ".")
from bench._small_networks import LAYERS, Adapted, Recurrent, convolutional
torch.manual_seed(0)
x, network = {made}
y = torch.randint(0, 4, (len(x),))
def losses(output, y):
    return functional.cross_entropy(output, y, reduction="none")
"""
MADE = {
    "lstm": 'torch.randint(0, 1000, (32, 64)), lambda: Recurrent("LSTM")',
    "gru": 'torch.randint(0, 1000, (32, 64)), lambda: Recurrent("GRU")',
    "lora": "torch.randint(0, 1000, (32, 64)), Adapted",
    "cnn": "torch.randn(128, 1, 28, 28), convolutional",
}
NETWORKS |= {name: SMALL.format(made=made) for name, made in MADE.items()}

COMMON = """
def plain():
    model = network()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    def step():
        optimizer.zero_grad()
        losses(model(x), y).mean().backward()
        optimizer.step()
    return step
def serve(cases):
    for name, step in list(cases.items()):
        try:
            step()
        except Exception as error:
            print(name, "fails:", type(error).__name__, error, file=sys.stderr)
            cases[name] = lambda: time.sleep(0)
    for line in sys.stdin:
        start = time.process_time()
        cases[line.strip()]()
        print(time.process_time() - start, flush=True)
"""

OURS = (
    COMMON
    + """
from torch.utils.data import DataLoader, TensorDataset
from inid import dpsgd
def private(forwards=2, **options):
    model = network()
    training = dpsgd.make_private(
        module=model, optimizer=torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1),
        noise_multiplier=1.0, data_loader=DataLoader(TensorDataset(x, y), batch_size=len(x)), **options,
    )
    def step():
        runs = training.optimizer.gradients._runs
        for key in runs:  # the third forward has no look, the first and the fourth have
            runs[key] = forwards
        for batch in training.data_loader:  # the rate is 1: one batch of all
            training.optimizer.zero_grad()
            training.backward(functional.cross_entropy, model(batch[0]), batch[1])
            training.optimizer.step()
    return step
serve({
    "plain": plain(),
    "global": private(clipping="global"),
    "per_layer": private(clipping="per_layer"),
    "adaptive": private(clipping=dpsgd.Clipping(kind="per_layer", thresholds="adaptive")),
    "elementwise": private(clipping="elementwise"),
    "exact": private(clipping="per_layer", noise="exact"),
    "looked at": private(forwards=3, clipping="global"),
    "looked at first": private(forwards=0, clipping="global"),
})
"""
)

THEIRS = (
    COMMON
    + """
import warnings
warnings.simplefilter("ignore")
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer
from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
def private(kind, bound, wrap=GradSampleModule):
    if "LAYERS" in globals():
        from opacus.layers import DPGRU, DPLSTM
        LAYERS.update(LSTM=DPLSTM, GRU=DPGRU)
    model = wrap(network())
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = kind(
        torch.optim.SGD(trained, lr=0.1), noise_multiplier=1.0, max_grad_norm=bound(trained),
        expected_batch_size=len(x), loss_reduction="mean",
    )
    def step():
        optimizer.zero_grad()
        each = losses(model(x), y)
        if wrap is GradSampleModule:
            each.mean().backward()
        else:
            DPTensorFastGradientClipping(model, optimizer, each, "mean").backward()
        optimizer.step()
    return step
serve({
    "plain": plain(),
    "flat": private(DPOptimizer, lambda trained: 1.0),
    "per_layer": private(DPPerLayerOptimizer, lambda trained: [0.1 for _ in trained]),
    "ghost": private(DPOptimizerFastGradientClipping, lambda trained: 1.0, GradSampleModuleFastGradientClipping),
})
"""
)

CASES = ("plain", "global", "per_layer", "adaptive", "elementwise", "exact", "looked at", "looked at first")
FEW = ("plain", "global", "per_layer", "looked at", "looked at first")  # of small networks
LOOKS, STEPS = 8, 200  # a run of so many steps has looks at 1, 2, 4, ..., 128
PEERS = ("plain", "flat", "per_layer", "ghost")
WORDS = {
    "resnet": f"ResNet-20 with GroupNorm, batch {BATCH}",
    "transformer": "A transformer of two layers, 128 wide, 1,000 tokens, 32 sequences of 64",
    "mlp": f"Linear layers of 784, 512, 350 and 10, batch {BATCH}",
}
WORDS |= {
    "lstm": "An LSTM, 128 wide, 1,000 tokens, 32 sequences of 64",
    "gru": "A GRU, 128 wide, 1,000 tokens, 32 sequences of 64",
    "lora": "A frozen transformer of two layers, 128 wide, adapted by LoRA of rank 8, 32 sequences of 64",
    "cnn": "Two convolutions and two linear layers, 128 images of 28 x 28",
}
TARGETS = {"resnet": 1.6, "transformer": 1.6, "mlp": 5.0, "lstm": 4.0, "gru": 4.0, "lora": 1.15, "cnn": 1.4}


class Child:
    """A process that takes a step of the case it is told, and says how much CPU time it took."""

    def __init__(self, python: str, code: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", code, str(EXAMPLE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def step(self, case: str) -> float:
        self._process.stdin.write(f"{case}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def measured(network: str, ours: Child, theirs: Child | None) -> dict[tuple[str, str], float]:
    """Median milliseconds per step, all cases in turn, round after round."""
    names = FEW if network in MADE else CASES
    cases: list[tuple[str, str, Callable[[str], float]]] = [("inid", name, ours.step) for name in names]
    if theirs is not None:
        cases += [("Opacus 1.6", name, theirs.step) for name in PEERS]
    times: dict[tuple[str, str], list[float]] = {(who, name): [] for who, name, _ in cases}
    for _ in range(ROUNDS):
        for who, name, step in cases:
            times[who, name].append(1000 * step(name))
    return {key: statistics.median(values) for key, values in times.items()}


def tiny() -> None:
    """What Python and torch's own overhead cost: images of 4 by 4, where there is almost nothing to compute."""
    import torch
    from torch.nn import functional
    from torch.utils.data import DataLoader, TensorDataset

    from inid import dpsgd

    sys.path.insert(0, str(EXAMPLE.parent))  # it imports what lies beside it
    spec = importlib.util.spec_from_file_location("cifar10_example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    torch.set_num_threads(1)
    x, y = torch.randn(8, 3, 4, 4), torch.randint(0, CLASSES, (8,))
    steps = {}
    for name in ("plain", "per_layer"):
        model = example.ResNet20()
        optimizer, batches = torch.optim.SGD(model.parameters(), lr=0.1), [(x, y)]
        if name == "per_layer":
            private = dpsgd.make_private(
                module=model,
                optimizer=optimizer,
                data_loader=DataLoader(TensorDataset(x, y), batch_size=8),
                noise_multiplier=1.0,
                clipping="per_layer",
            )
            optimizer, batches = private.optimizer, private.data_loader

        def step(
            model: torch.nn.Module = model,
            optimizer: object = optimizer,
            batches: object = batches,
            private: dpsgd.PrivateTraining | None = private if name == "per_layer" else None,
        ) -> None:
            for images, labels in batches:
                optimizer.zero_grad()
                if private is None:
                    functional.cross_entropy(model(images), labels).backward()
                else:
                    private.backward(functional.cross_entropy, model(images), labels)
                optimizer.step()

        steps[name] = step
    times: dict[str, list[float]] = {name: [] for name in steps}
    for at in range(40):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if at >= 10:
                times[name].append(1000 * (time.process_time() - start))
    plain, private = (statistics.median(times[name]) for name in ("plain", "per_layer"))
    print(f"\nImages of 4 x 4, batch 8: {private:.1f} ms private, {plain:.1f} ms non-private")


def compared(network: str, python: str | None) -> None:
    """The table of one network."""
    ours = Child(sys.executable, NETWORKS[network] + OURS)
    theirs = None if python is None else Child(python, NETWORKS[network] + THEIRS)
    found = measured(network, ours, theirs)
    with ResultTable(
        f"training-{network}",
        f"One training step, one thread, CPU time, medians of {ROUNDS} interleaved rounds: {WORDS[network]}",
        ("", "ms per step", "ratio to the non-private step"),
        peers="the non-private step of the same process" + ("" if theirs is None else "; Opacus 1.6"),
        command=f"python -m bench.dpsgd {network}",
    ) as table:
        for (who, name), milliseconds in found.items():
            table.add(f"{who}, {name}", f"{milliseconds:.0f}", f"{milliseconds / found[who, 'plain']:.2f}")
    for name in ("per_layer", "global"):
        ratio = found["inid", name] / found["inid", "plain"]
        print(f"\n{name}: {ratio:.2f} times the non-private step (target {TARGETS[network]})")
    look, first = (found["inid", name] - found["inid", "global"] for name in ("looked at", "looked at first"))
    every = first + (LOOKS - 1) * look
    share, plain = every / (STEPS * found["inid", "global"] + every), found["inid", "plain"]
    print(f"a look: {look / plain:.2f} non-private steps, the first {first / plain:.2f}", end="; ")
    print(f"{share:.1%} of {STEPS} steps (target 5 %)")
    if theirs is not None:
        for name in PEERS[1:]:
            beside = found["Opacus 1.6", name] / found["inid", "per_layer"]
            print(f"Opacus' step ({name}) takes {beside:.2f} times as long as ours per layer (target: more than 1)")
        theirs.close()
    ours.close()


def main() -> None:
    python = os.environ.get("INID_BENCH_PYTHON")
    known = python and subprocess.run([python, "-c", "import opacus"], capture_output=True, check=False).returncode == 0
    if not known:
        print("Opacus: skipped, INID_BENCH_PYTHON names no interpreter that has it.")
    for network in sys.argv[1:] or NETWORKS:
        compared(network, python if known else None)
    tiny()


if __name__ == "__main__":
    main()
