"""A plan of 30 columns by 20 cells on the page, from a key press to the new chart, beside `inid plan` itself."""

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_COLUMNS = [f"column_{at}" for at in range(30)]
_KEYS = [f"k{at}" for at in range(20)]
_PRESSES = 25


def job(folder: Path) -> str:
    """A table and a job on it, as a TOML file."""
    rows = (f"k{at % 20}," + ",".join(str((7 * at + k) % 100) for k in range(30)) for at in range(2000))
    (folder / "table.csv").write_text("\n".join([",".join(["key", *_COLUMNS]), *rows]) + "\n", encoding="utf-8")
    lines = ['table = "table.csv"', f"mean = {_COLUMNS}", "rows = 2000", "epsilon = 1", "delta = 1e-6", "[by]"]
    lines += [f"key = {_KEYS}", "[bounds]", *(f"{name} = [0, {100 + at}]" for at, name in enumerate(_COLUMNS))]
    lines += ["[tolerance]", *(f"{name} = {1 + at}" for at, name in enumerate(_COLUMNS))]
    (folder / "job.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return "job.toml"


def in_the_browser(folder: Path, browser: str) -> list[float]:
    """Milliseconds from each press of an arrow key on the slider to the new chart on the screen."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-u", "-m", "inid.cli", "studio", "--no-browser", "--config", "job.toml"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        found = None
        while found is None and server.stdout is not None:
            found = re.search(r"http://\S+", server.stdout.readline())
        with sync_playwright() as play, play.chromium.launch(executable_path=browser, args=["--no-sandbox"]) as made:
            page = made.new_page()
            page.goto(found[0] if found else "")
            page.wait_for_selector("body[data-state=planned]")
            page.wait_for_selector("#curve-part svg")
            page.focus("#size")
            page.evaluate("performance.clearMeasures()")
            for at in range(_PRESSES):
                page.keyboard.press("ArrowRight" if at % 8 < 4 else "ArrowLeft")
                page.wait_for_selector("body[data-state=planned]")
            return [
                float(took) for took in page.evaluate("performance.getEntriesByName('plan').map((e) => e.duration)")
            ]
    finally:
        server.terminate()
        server.wait()


def by_the_library(folder: Path) -> list[float]:
    """Milliseconds of the same plans in this process, the table opened anew each time as `inid plan` does."""
    from inid.jobs import Job, plan_job, read_toml

    values = read_toml(folder / "job.toml") | {"table": str(folder / "table.csv")}
    times = []
    for at in range(8):
        start = time.perf_counter()
        plan_job(Job.from_dict(values | {"epsilon": 1 + at / 50})).summary.to_dict()
        times.append(1e3 * (time.perf_counter() - start))
    return times[1:]


def main() -> None:
    browser = shutil.which("chromium")
    if browser is None:
        print("Chromium is missing: install chromium and put it on the PATH")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job(folder)
        plain = statistics.median(by_the_library(folder))
        shown = in_the_browser(folder, browser)
    median, slow = statistics.median(shown), sorted(shown)[int(0.9 * len(shown))]
    print(
        f"plan of 30 columns by 20 cells in the browser: median {median:.0f} ms (at most 200), 90 % within {slow:.0f}"
    )
    print(f"  {len(shown)} changes; inid plan, with every comparison: median {plain:.0f} ms on the same machine")


if __name__ == "__main__":
    main()
