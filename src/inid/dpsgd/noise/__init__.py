"""The noise of a step, and noise that remembers: later noise takes back part of earlier noise.

step_noise        a plan over the groups, and draws by it; start reading here
banded            which steps' noise is correlated, how strongly, and what that gives
training_plan     noise, memory and gain of a run before it is trained
correlation       what a run takes of `correlation=`, in words and numbers
correlated_run    a run with correlated noise: its turns are paid for, then noise is drawn
correlated_noise  the noise of earlier steps that is held, and the next row; also of the exact law
"""
