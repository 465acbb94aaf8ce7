"""Drawing in SVG with strings alone: small files, the same bytes on every machine, white paper in dark mode too."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

BLUE, ORANGE, GREY, GREEN, INK, SOFT, RULE = "#1f5fa8", "#c2762b", "#8a94a1", "#2c7a4b", "#1b2330", "#5b6675", "#dfe3e8"


class Picture:
    """A sheet of the given size; things are added in the order in which they are painted."""

    def __init__(self, width: int, height: int, description: str) -> None:
        self.width, self.height, self.description = width, height, description
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: str, *, size: int = 13, color: str = INK, at: str = "start") -> None:
        """Write words whose baseline starts (or ends, or has its middle) at a point."""
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{at}"'
        self.parts.append(f"<text {place}>{escape(words)}</text>")

    def bar(self, x: float, y: float, width: float, height: float, color: str, *, opacity: float = 1) -> None:
        """Fill a rectangle."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" rx="2" '
            f'fill="{color}" fill-opacity="{opacity:g}"/>'
        )

    def line(self, points: Sequence[tuple[float, float]], color: str, *, width: float = 1.5, dash: str = "") -> None:
        """Draw a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}/>')

    def area(self, points: Sequence[tuple[float, float]], color: str, *, opacity: float = 0.2) -> None:
        """Fill a polygon."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polygon points="{path}" fill="{color}" fill-opacity="{opacity:g}"/>')

    def dot(self, x: float, y: float, color: str, *, radius: float = 4.5) -> None:
        """Mark a point."""
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{color}"/>')

    def interval(self, low: float, middle: float, high: float, y: float, color: str) -> None:
        """An estimate with its interval."""
        self.line([(low, y), (high, y)], color, width=2)
        for end in (low, high):
            self.line([(end, y - 5), (end, y + 5)], color, width=2)
        self.dot(middle, y, color)

    def save(self, path: Path) -> None:
        """Write the file, on white paper."""
        name = escape(self.description, quote=True)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" aria-label="{name}" '
            'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif">'
        )
        paper = f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#ffffff"/>'
        path.write_text("\n".join([head, paper, *self.parts, "</svg>"]) + "\n", encoding="utf-8")
