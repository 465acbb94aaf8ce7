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
