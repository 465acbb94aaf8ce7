"""A mistake that every audit has to see: numbers are four times as large when they get noise as their plan covers."""

from internals import module_with

__all__ = ["four_times"]


def four_times(monkeypatch):
    """From here on every number that gets noise in a recording is four times as large, whatever made it."""
    recorder = module_with("inid.testing", "_Recorder")._Recorder
    plain = recorder.drawn

    def drawn(self, law, values, scales, draw, claim=None):
        if isinstance(values, dict):
            values = {key: 4 * value for key, value in values.items()}
        elif isinstance(values, list | tuple):
            values = [4 * value for value in values]
        else:
            values = 4 * values
        return plain(self, law, values, scales, draw, claim)

    monkeypatch.setattr(recorder, "drawn", drawn)
