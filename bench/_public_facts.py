"""What is public about the datasets of `learn_defaults`: round bounds, and categories as their data dictionary has."""

ADULT = {
    "age": (0, 100), "fnlwgt": (0, 1_500_000), "education_num": (0, 20), "capital_gain": (0, 100_000),
    "capital_loss": (0, 5_000), "hours_per_week": (0, 100),
}  # fmt: skip
ADULT_CATEGORIES = {
    "workclass": "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay ?",
    "education": "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-acdm Assoc-voc "
    "Bachelors Masters Prof-school Doctorate",
    "marital_status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated "
    "Widowed",
    "occupation": "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
    "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
    "Transport-moving ?",
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "native_country": "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France "
    "Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan "
    "Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South "
    "Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia ?",
}
ADULT_CATEGORIES = {name: words.split() for name, words in ADULT_CATEGORIES.items()}
CALIFORNIA = ([0, 0, 0, 0, 0, 0, 32, -125], [15, 60, 20, 5, 10_000, 10, 42, -114])
NHANES = {
    "age": (0, 100), "diastolic_bp": (0, 200), "poverty_index": (0, 1000), "race": (1, 3),
    "sedimentation_rate": (0, 100), "serum_albumin": (2, 6), "serum_cholesterol": (0, 800), "serum_iron": (0, 400),
    "serum_magnesium": (0, 3), "serum_protein": (4, 12), "sex": (1, 2), "systolic_bp": (0, 300), "tibc": (0, 800),
    "ts": (0, 100), "white_blood_cells": (0, 50), "bmi": (10, 80), "pulse_pressure": (0, 200),
}  # fmt: skip
DIABETES = ([0, 1, 10, 50, 50, 0, 0, 0, 2, 50], [100, 2, 60, 150, 400, 300, 120, 12, 7, 150])
# Ten measures of a nucleus: their mean, standard error and worst.
CANCER = (
    [0] * 30,
    [30, 40, 200, 3000, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1, 3, 5, 25, 600, 0.05, 0.15, 0.4, 0.1, 0.1, 0.05, 40, 50, 300,
     5000, 0.25, 1.5, 1.5, 0.3, 0.7, 0.25],
)  # fmt: skip
WINE = ([10, 0, 1, 10, 50, 0, 0, 0, 0, 0, 0, 1, 200], [16, 6, 4, 30, 200, 5, 6, 1, 5, 15, 2, 5, 2000])
_YES = ["no", "yes"]
# The target, the label that counts or the ends of a number, round bounds and categories of tables of raw columns.
ADDITIVE = {
    "Mroz": {
        "target": "work",
        "positive": "yes",
        "bounds": {
            "child6": (0, 3), "child618": (0, 8), "agew": (30, 60), "educw": (5, 17), "hoursh": (0, 5100),
            "ageh": (30, 60), "educh": (3, 17), "wageh": (0, 45), "income": (0, 100_000), "educwm": (0, 17),
            "educwf": (0, 17), "unemprate": (0, 20), "experience": (0, 45),
        },
        "categories": {"city": _YES},
    },
    "Wages": {
        "target": "lwage",
        "ends": (4, 9),
        "bounds": {"exp": (0, 55), "wks": (0, 52), "ind": (0, 1), "ed": (4, 17)},
        "categories": dict.fromkeys(("bluecol", "south", "smsa", "married", "union", "black"), _YES)
        | {"sex": ["female", "male"]},
    },
    "Computers": {
        "target": "price",
        "ends": (0, 6000),
        "bounds": {
            "speed": (25, 100), "hd": (0, 2200), "ram": (0, 32), "screen": (14, 17), "ads": (0, 400), "trend": (1, 35),
        },
        "categories": dict.fromkeys(("cd", "multi", "premium"), _YES),
    },
    "VietNamI": {
        "target": "pharvis",
        "ends": (0, 30),
        "bounds": {
            "lnhhexp": (0, 6), "age": (0, 5), "married": (0, 1), "educ": (0, 12), "illness": (0, 10), "injury": (0, 1),
            "illdays": (0, 60), "actdays": (0, 30), "insurance": (0, 1), "commune": (1, 194),
        },
        "categories": {"sex": ["female", "male"]},
    },
    "HI": {
        "target": "whrswk",
        "ends": (0, 90),
        "bounds": {
            "experience": (-1, 55), "kidslt6": (0, 6), "kids618": (0, 8), "husby": (0, 200), "wght": (0, 1_200_000),
        },
        "categories": dict.fromkeys(("hhi", "whi", "hhi2", "hispanic"), _YES)
        | {
            "education": ["<9years", "9-11years", "12years", "13-15years", "16years", ">16years"],
            "race": ["white", "black", "other"],
            "region": ["other", "northcentral", "south", "west"],
        },
    },
    "BudgetFood": {
        "target": "wfood",
        "ends": (0, 1),
        "bounds": {"totexp": (0, 12_000_000), "age": (16, 99), "size": (1, 20), "town": (1, 5)},
        "categories": {"sex": ["man", "woman"]},
    },
    "california": {
        "target": "MedHouseVal",
        "ends": (0, 5),
        "bounds": {
            "MedInc": (0, 15), "HouseAge": (0, 60), "AveRooms": (0, 20), "AveBedrms": (0, 5), "Population": (0, 10_000),
            "AveOccup": (0, 10), "Latitude": (32, 42), "Longitude": (-125, -114),
        },
    },
    "electricity": {
        "target": "class",
        "positive": "UP",
        "bounds": {"day": (1, 7)} | dict.fromkeys(
            ("date", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"), (0, 1)
        ),
    },
    "adult": {
        "target": "income",
        "positive": ">50K",
        "bounds": {
            "age": (0, 100), "education_num": (0, 20), "capital_gain": (0, 100_000), "capital_loss": (0, 5_000),
            "hours_per_week": (0, 100),
        },
        "categories": ADULT_CATEGORIES,
    },
    "diamonds": {
        "target": "price",
        "ends": (0, 20_000),
        "bounds": {
            "carat": (0, 5), "depth": (40, 80), "table": (40, 100), "x": (0, 12), "y": (0, 60), "z": (0, 32),
        },
        "categories": {
            "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
            "color": [*"DEFGHIJ"],
            "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
        },
    },
}  # fmt: skip
