"""Noise that remembers: correlated over the steps of a run, so that later noise takes back part of earlier noise.

banded           which steps' noise is correlated, how strongly, and what that gives
cyclic_sampling  the sampling that it is accounted under: groups that take turns
training_plan    noise, memory and gain of a run before it is trained; start reading here
"""
