"""A step as a picture: its phases, and the calls that lead from one to the next."""

from svg import BLUE, GREEN, GREY, INK, ORANGE, SOFT, Picture

_Point = tuple[float, float]
_SPOTS: dict[str, _Point] = {
    "no batch": (20, 70),
    "batch": (190, 70),
    "outputs": (360, 70),
    "backward": (530, 70),
    "sums": (700, 70),
    "part": (360, 190),
}
_HELD = {
    "no batch": "sums are empty",
    "batch": "drawn: who, where",
    "outputs": "latest: the forward",
    "backward": "rows, clipped",
    "sums": "all of the batch",
    "part": "sums of some parts",
}
_WIDTH, _HEIGHT = 124, 52


def _arrow(picture: Picture, points: list[_Point], words: str, at: _Point, color: str) -> None:
    picture.line(points, color, width=1.8)
    (x0, y0), (x, y) = points[-2:]
    length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
    u, v = (x - x0) / length, (y - y0) / length
    sides = [(x - 8 * u + 4 * w * v, y - 8 * v - 4 * w * u) for w in (-1, 1)]
    picture.area([(x, y), *sides], color, opacity=1)
    picture.text(*at, words, size=11, color=color, at="middle")


def step_state() -> Picture:
    """The phases of a step, in the words of `StepState.phase`."""
    picture = Picture(844, 290, "The phases of a private training step, and the calls that lead from one to the next")
    picture.text(20, 28, "One step, from the batch to the noise", size=15)
    for name, (x, y) in _SPOTS.items():
        picture.bar(x, y, _WIDTH, _HEIGHT, ORANGE if name == "part" else BLUE, opacity=0.14)
        picture.text(x + _WIDTH / 2, y + 22, name, size=14, color=INK, at="middle")
        picture.text(x + _WIDTH / 2, y + 40, _HELD[name], size=11, color=SOFT, at="middle")
    for left, right, words in (
        ("no batch", "batch", "loader"),
        ("batch", "outputs", "module"),
        ("outputs", "backward", "loss"),
        ("backward", "sums", "last"),
    ):
        x, end = _SPOTS[left][0] + _WIDTH, _SPOTS[right][0]
        _arrow(picture, [(x + 2, 96), (end - 2, 96)], words, ((x + end) / 2, 88), GREY)
    _arrow(picture, [(592, 124), (592, 216), (486, 216)], "more parts of the batch to come", (592, 236), ORANGE)
    _arrow(picture, [(358, 216), (252, 216), (252, 124)], "loader: the next part", (252, 236), ORANGE)
    _arrow(
        picture,
        [(762, 68), (762, 46), (82, 46), (82, 68)],
        "optimizer.step(): charge, add noise, hand out gradients",
        (422, 41),
        GREEN,
    )
    picture.text(
        20,
        274,
        "zero_grad() throws the sums away and leads back to batch; a call that does not fit is refused.",
        size=12,
        color=SOFT,
    )
    return picture
