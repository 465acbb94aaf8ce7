"""Private steps of Hugging Face's models beside plain ones, in turns: on a host whose speed changes by the minute.

    python -m bench.interleaved_steps --jobs 'bert;vit;gpt2'

`bench.dpsgd_gpu` times one case after another. Here all cases of a model are set up first, and take a step each in
turn, so that a slow spell meets all of them; the fastest and the median steps are compared. Looks at the model are left
out: rounds lie between those at steps 32 and 64.
"""

import argparse
import statistics
import time
import warnings

import torch

from bench._hugging_face import HuggingFaceJob
from bench._result_table import ResultTable, this_machine
from bench.dpsgd_gpu import plain, private, wait_for

ROUNDS, BEFORE = 30, 33


def compared(job: HuggingFaceJob) -> None:
    cases = {
        "non-private": plain(job),
        "inid per layer": private(job, "per_layer"),
        "inid global": private(job, "global"),
    }
    took: dict[str, list[float]] = {name: [] for name in cases}
    for at in range(BEFORE + ROUNDS):
        for name, case in cases.items():
            case.prepare()
            wait_for(job)
            start = time.perf_counter()
            case.step()
            wait_for(job)
            if at >= BEFORE:
                took[name].append(1000 * (time.perf_counter() - start))
    base = took["non-private"]
    with ResultTable(
        f"training-interleaved-{job.name}",
        f"Training steps of {job.name} on {job.device}: {ROUNDS} rounds in turns",
        ("", "fastest, ms", "ratio", "median, ms", "ratio", "median of ratios, round by round"),
        peers="the non-private step, in turns",
        command=f"python -m bench.interleaved_steps --jobs {job.name}",
        machine=this_machine(torch.cuda.get_device_name() if job.device == "cuda" else ""),
    ) as table:
        for name, own in took.items():
            middle = statistics.median(own)
            each = statistics.median(one / other for one, other in zip(own, base, strict=True))
            cells = (min(own), min(own) / min(base), middle, middle / statistics.median(base), each)
            table.add(name, *(f"{cell:.2f}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="small models")
    parser.add_argument("--jobs", default="bert;vit;gpt2", help="with ; between")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("No GPU here: nothing was measured. --device cpu --small shows that it runs.")
        return
    warnings.simplefilter("ignore")
    for name in given.jobs.split(";"):
        compared(HuggingFaceJob(name, given.device, given.small, ROUNDS))


if __name__ == "__main__":
    main()
