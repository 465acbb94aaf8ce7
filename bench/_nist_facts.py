"""NIST's National excerpt of the American Community Survey 2019: its public facts and rules, from its documentation.

27,253 people, 24 columns. Columns of codes have the values of the excerpt's schema; "N" stands for what does not apply.
Numbers that may be "N" are texts here, of their bin or of "N"; a number of the bin is drawn when rows are written.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

NAME = "national2019"
PUMAS = (
    "01-01301 06-07502 06-08507 08-00803 13-04600 17-03529 17-03531 19-01700 24-01004 26-02702 28-01100 29-01901 "
    "30-00600 32-00405 36-03710 36-04010 38-00100 40-00200 51-01301 51-51255"
)


def _codes(least: int, most: int, *others: str) -> list[str]:
    return [*others, *map(str, range(least, most + 1))]


CODES: dict[str, list[Any]] = {
    "PUMA": PUMAS.split(),
    "SEX": [1, 2],
    "MSP": _codes(1, 6, "N"),
    "HISP": [0, 1, 2, 3, 4],
    "RAC1P": [*range(1, 10)],
    "NOC": _codes(0, 9, "N"),
    "NPF": _codes(2, 12, "N"),
    "HOUSING_TYPE": [1, 2, 3],
    "OWN_RENT": [0, 1, 2],
    "INDP_CAT": _codes(0, 18, "N"),
    "EDU": _codes(1, 12, "N"),
    "PINCP_DECILE": _codes(0, 9, "N"),
    "DVET": _codes(1, 6, "N"),
    "DREM": _codes(1, 2, "N"),
    "DPHY": _codes(1, 2, "N"),
    "DEYE": [1, 2],
    "DEAR": [1, 2],
}
NUMBERS: dict[str, list[float]] = {
    "AGEP": [0, 3, 5, 10, 15, 16, 20, *range(25, 95, 5), 96],
    "DENSITY": [0, 20, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 60_000],
    "PWGTP": [1, 25, 50, 75, 100, 150, 200, 300, 400, 600, 1000, 2500],
    "WGTP": [0, 1, 25, 50, 75, 100, 150, 200, 300, 400, 600, 1000, 2500],
}
NUMBERS_OR_N: dict[str, list[float]] = {
    "PINCP": [
        *(-20_000, 0, 1, 5000, 10_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000, 75_000, 100_000),
        *(150_000, 200_000, 300_000, 1_700_000),
    ],
    "POVPIP": [0, 25, 50, 75, 100, 125, 150, 175, 200, 250, 300, 350, 400, 450, 501, 502],
}
TEN = ("AGEP", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET")


def bin_names(name: str) -> list[str]:
    """The texts of the bins of a number that may be "N"."""
    return ["N", *(f"{low:g} to {high:g}" for low, high in pairwise(NUMBERS_OR_N[name]))]


def coded(frame: pd.DataFrame) -> pd.DataFrame:
    """The excerpt with texts of bins in place of numbers that may be "N", and codes of the types that are stated.

    INDP, of 270 industries that INDP_CAT sums up, is left out: NIST's score of tables leaves it out too.
    """
    found = {}
    for name in frame:
        own = frame[name]
        if name in NUMBERS_OR_N:
            names = np.array(bin_names(name))
            numbers = pd.to_numeric(own, errors="coerce").to_numpy(dtype=float)
            places = np.searchsorted(NUMBERS_OR_N[name][1:-1], numbers, side="right") + 1
            found[name] = names[np.where(np.isnan(numbers), 0, places)]
        elif name in CODES:
            found[name] = own.astype(str if isinstance(CODES[name][0], str) else int)
        elif name in NUMBERS:
            found[name] = own.astype(float)
    return pd.DataFrame(found)


def written(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Rows as the excerpt writes them."""
    found = rows.copy()
    for name in set(NUMBERS_OR_N) & set(rows):
        edges = np.array(NUMBERS_OR_N[name])
        places = rows[name].map({text: at for at, text in enumerate(bin_names(name))}).to_numpy() - 1
        low, high = edges[np.maximum(places, 0)], edges[np.maximum(places, 0) + 1]
        numbers = np.floor(low + (high - low) * rng.random(len(rows))).astype(int)
        found[name] = np.where(places < 0, "N", numbers.astype(str))
    return found


def rules(columns: Mapping[str, Any] | list[str]) -> list[str]:
    """What always holds, by the excerpt's documentation, as rules of the columns that are there."""
    income = [text for text in bin_names("PINCP") if text != "N"]
    stated = {
        ("AGEP", name): f"AGEP < 15 and {name} == 'N' or AGEP >= 15 and {name} != 'N'"
        for name in ("MSP", "PINCP", "PINCP_DECILE")
    }
    stated |= {("AGEP", name): f"AGEP >= 15 or {name} == 'N'" for name in ("DVET", "INDP_CAT")}
    stated |= {
        ("AGEP", name): f"AGEP < 5 and {name} == 'N' or AGEP >= 5 and {name} != 'N'" for name in ("DREM", "DPHY")
    }
    schools = [(3, [*_codes(1, 12)]), (5, [*_codes(5, 12)]), (15, ["12"])]
    early = " and ".join(f"(AGEP >= {age} or not EDU in {codes!r})" for age, codes in schools)
    stated["AGEP", "EDU"] = f"{early} and (AGEP < 3 or EDU != 'N')"
    most = " and ".join(
        f"not (NPF == '{size}' and NOC in {[str(noc) for noc in range(size, 10)]!r})" for size in range(2, 10)
    )
    stated["NOC", "NPF"] = most
    stated["HOUSING_TYPE", "NOC"] = "HOUSING_TYPE == 1 and NOC != 'N' or HOUSING_TYPE > 1 and NOC == 'N'"
    stated["HOUSING_TYPE", "NPF"] = "HOUSING_TYPE == 1 or NPF == 'N'"
    stated["HOUSING_TYPE", "OWN_RENT"] = "HOUSING_TYPE == 1 and OWN_RENT > 0 or HOUSING_TYPE > 1 and OWN_RENT == 0"
    stated["PINCP", "PINCP_DECILE"] = f"not (PINCP == '{income[-1]}' and PINCP_DECILE in ['0', '1'])"
    return [text for names, text in stated.items() if set(names) <= set(columns)]
