"""A release as configuration: read, checked, planned, released. The command and other front ends share it.

Start reading in `job` (the configuration) and `questions` (what is asked). `planned_job` and `released_job` do the
work, with `ledgers` for the budget; `export` writes a job as TOML, as a shell command and as a Python script.

>>> from inid.jobs import Job, plan_job
>>> job = Job.from_dict({"sensitivity": [1, 3, 40], "epsilon": 1, "delta": 1e-6})
>>> plan_job(job).summary.noise.dimension
3
"""

from inid.jobs.demonstration import COLUMNS, demonstration_csv
from inid.jobs.export import job_as_command, job_as_python, job_as_toml
from inid.jobs.job import Job, LedgerChoice, NoiseChoice, job_keys, read_budget, read_toml
from inid.jobs.ledgers import UnansweredError, make_ledger, open_existing, preview, stored_settings
from inid.jobs.outputs import (
    FOR_SPREADSHEETS,
    Outputs,
    UnwritableError,
    as_csv,
    check_distinct_files,
    check_writable,
    display_names,
    read_combination,
    write_atomically,
)
from inid.jobs.planned_job import PlannedJob, accuracy_of_job, advice, plan_job
from inid.jobs.questions import StatedQuestion, TableQuestion
from inid.jobs.released_job import ReleasedJob, read_published, release_job
from inid.jobs.streams import STREAM_KEYS, stream_as_command
from inid.schema.error_messages import sentence_of

__all__ = [
    "Job",
    "LedgerChoice",
    "NoiseChoice",
    "Outputs",
    "PlannedJob",
    "ReleasedJob",
    "StatedQuestion",
    "TableQuestion",
    "accuracy_of_job",
    "job_keys",
    "plan_job",
    "read_budget",
    "read_toml",
    "release_job",
]
