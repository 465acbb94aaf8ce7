"""`{command-help}` shows what `inid ... --help` prints, a section for each command: the program is the one source."""

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx


def _commands() -> list[tuple[str, list[str]]]:
    import click
    import typer.main

    from inid.cli import app

    def walk(command: click.Command, path: list[str]) -> list[tuple[str, list[str]]]:
        found = [(" ".join(["inid", *path]), path)]
        for name, child in getattr(command, "commands", {}).items():
            if not child.hidden:
                found += walk(child, [*path, name])
        return found

    return walk(typer.main.get_command(app), [])


class CommandHelp(Directive):
    """One section for each command, with its help as text."""

    def run(self) -> list[nodes.Node]:
        """Run every command with --help, in this process."""
        from typer.testing import CliRunner

        from inid.cli import app

        made: list[nodes.Node] = []
        for title, path in _commands():
            result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
            if result.exit_code != 0:
                raise self.error(f"{title} --help failed: {result.output}")
            section = nodes.section(ids=[title.replace(" ", "-")], names=[title])
            section += nodes.title(text=title)
            section += nodes.literal_block(text=result.output.strip("\n"), language="text")
            made.append(section)
        return made


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
