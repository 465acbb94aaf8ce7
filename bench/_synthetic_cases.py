"""The tables of the benchmark of synthetic rows: public levels, parts for training and for tests, and their scores.

Bins are stated from the documentation of the tables. Settings of the fit were chosen on seeds 1 and 2 of these tables.
Titanic is the smallest, 1,316 passengers in 24 cells, and stands here whole: R's package COUNT has it. All its rows are
for training and for tests.
"""

import os
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench._public_facts import ADULT_CATEGORIES

DATA = Path(os.environ.get("INID_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def even(low: float, high: float, bins: int) -> list[float]:
    return np.linspace(low, high, bins + 1).tolist()


@dataclass(frozen=True)
class Case:
    """One table.

    Attributes:
        file: The name of its file.
        bins: The edges of the bins of numbers.
        keys: The public keys of other columns.
        target: The column that models predict: 1 from this level on, else 0.
        level: That level.
        counts: How many rows each combination of keys has, the last column's keys first; for a table without a file.
    """

    file: str
    bins: dict[str, list[float]]
    keys: dict[str, list[Any]]
    target: str
    level: int = 1
    counts: tuple[int, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(edges) - 1 for name, edges in self.bins.items()} | {n: len(k) for n, k in self.keys.items()}

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rows for training, and rows for tests."""
        if self.counts:
            cells = pd.MultiIndex.from_product(self.keys.values(), names=list(self.keys)).to_frame(index=False)
            frame = cells.loc[cells.index.repeat(self.counts)].reset_index(drop=True)
            return frame, frame
        frame = pd.read_csv(DATA / f"{self.file}.csv.gz")
        if "split" in frame:
            first = (frame["split"] == "train").to_numpy()
        else:
            first = np.random.default_rng(0).random(len(frame)) < 0.8
        frame = frame[list(self.sizes)]
        return frame[first].reset_index(drop=True), frame[~first].reset_index(drop=True)

    def coded(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The level of each value."""
        found = {}
        for name in self.sizes:
            if name in self.bins:
                found[name] = np.digitize(frame[name].to_numpy(dtype=float), self.bins[name][1:-1])
            else:
                found[name] = frame[name].map({key: at for at, key in enumerate(self.keys[name])}).to_numpy()
        return pd.DataFrame(found).astype(np.int64)

    def scores(self, made: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
        """Of made-up levels: mean total variation over two-way and three-way tables, AUC of boosting on real rows."""
        auc = self.auc(made, test)
        return {"two_way": self.distance(made, train, 2), "three_way": self.distance(made, train, 3), "auc": auc}

    def distance(self, one: pd.DataFrame, two: pd.DataFrame, width: int) -> float:
        found = []
        for names in combinations(self.sizes, width):
            shape = [self.sizes[name] for name in names]
            shares = []
            for own in (one, two):
                cells = np.ravel_multi_index([own[name].to_numpy() for name in names], shape)
                shares.append(np.bincount(cells, minlength=int(np.prod(shape))) / len(own))
            found.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
        return float(np.mean(found))

    def auc(self, made: pd.DataFrame, test: pd.DataFrame) -> float:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import roc_auc_score

        truth, found = (own[self.target].to_numpy() >= self.level for own in (test, made))
        if found.all() or not found.any():
            return 0.5
        model = HistGradientBoostingClassifier(random_state=0).fit(made.drop(columns=self.target), found)
        return float(roc_auc_score(truth, model.predict_proba(test.drop(columns=self.target))[:, 1]))


CASES = {
    "adult": Case(
        "adult",
        {
            "age": even(15, 95, 16),
            "education_num": [at + 0.5 for at in range(17)],
            "capital_gain": [0, 1, 2000, 4000, 6000, 8000, 12_000, 20_000, 50_000, 99_999, 100_000],
            "capital_loss": [0, 1, 500, 1000, 1500, 1750, 2000, 2250, 2500, 3000, 5000],
            "hours_per_week": even(0, 100, 20),
        },
        {**ADULT_CATEGORIES, "income": ["<=50K", ">50K"]},
        "income",
    ),
    "nhanes": Case(
        "nhanes1",
        {
            "age": even(25, 75, 10),
            "diastolic_bp": even(40, 140, 10),
            "poverty_index": even(0, 1000, 10),
            "sedimentation_rate": even(0, 60, 10),
            "serum_albumin": even(3, 5.5, 10),
            "serum_cholesterol": even(100, 400, 10),
            "serum_iron": even(0, 250, 10),
            "serum_magnesium": even(1, 2.5, 10),
            "serum_protein": even(5, 10, 10),
            "systolic_bp": even(80, 240, 10),
            "tibc": even(200, 600, 10),
            "ts": even(0, 70, 10),
            "white_blood_cells": even(2, 20, 10),
            "bmi": even(14, 50, 10),
            "pulse_pressure": even(10, 130, 10),
            "years_followed": even(0, 22.5, 10),
        },
        {"race": [1, 2, 3], "sex": [1, 2], "died": [0, 1]},
        "died",
    ),
    "electricity": Case(
        "electricity",
        {
            "date": even(0, 1, 16),
            "period": even(0, 1.0001, 24),
            "nswprice": even(0, 0.2, 20),
            "nswdemand": even(0, 1, 20),
            "vicprice": even(0, 0.02, 20),
            "vicdemand": even(0, 1, 20),
            "transfer": even(0, 1, 20),
        },
        {"day": [1, 2, 3, 4, 5, 6, 7], "class": ["DOWN", "UP"]},
        "class",
    ),
    "california": Case(
        "california_housing",
        {
            "MedInc": even(0, 15, 20),
            "HouseAge": even(0, 52, 13),
            "AveRooms": even(0, 10, 20),
            "AveBedrms": even(0.5, 2, 15),
            "Population": even(0, 5000, 20),
            "AveOccup": even(1, 6, 20),
            "Latitude": even(32, 42, 20),
            "Longitude": even(-125, -114, 22),
            "MedHouseVal": even(0, 5, 20),
        },
        {},
        "MedHouseVal",
        8,  # 200,000 USD and more
    ),
    "titanic": Case(
        "",
        {},
        {"class": ["1st", "2nd", "3rd"], "age": ["adult", "child"], "sex": ["man", "woman"], "survived": ["no", "yes"]},
        "survived",
        counts=(118, 57, 4, 140, 0, 5, 0, 1, 154, 14, 13, 80, 0, 11, 0, 13, 387, 75, 89, 76, 35, 13, 17, 14),
    ),
}
