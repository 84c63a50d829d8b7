"""The command `perenne`: finds the command, lends it the views, and turns every end into an exit code and one line.

What the commands of an application do lives in the application; it receives `surfaces.views` as click's context object.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click

from perenne.surfaces import faults, views
from perenne.surfaces.cli import (
    artefacts,
    demo,
    drawing,
    groups,
    looking,
    options,
    resources,
    run,
    sending,
    steering,
    upkeep,
)
from perenne.surfaces.cli.completion import completion

DEBUG = "PERENNE_DEBUG"


class Root(click.Group):
    """Its own commands, then those of the installed applications, which are loaded only when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *groups.names()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or groups.load(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [(name, command.get_short_help_str(limit=80)) for name, command in sorted(self.commands.items())]
        apps = [(name, f"The commands of this application; see `perenne {name} --help`.") for name in groups.names()]
        for title, lines in (("Applications", apps), ("Commands", own)):
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Long work that must not be lost, must not be done twice, and must not overspend.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 a person must look or install something.
    """


@cli.command(short_help="Print the versions.")
@options.as_json
def version(as_json: bool) -> None:
    """Print the versions of Perenne, Python and SQLite.

    Example: perenne version --json
    """
    from importlib.metadata import version as version_of

    from perenne.surfaces.cli.documents import Versions

    found = Versions(
        contract="perenne.version.v1",
        perenne=version_of("perenne"),
        python=".".join(map(str, sys.version_info[:3])),
        sqlite=version_of("apsw").rpartition(".")[0],  # apsw is numbered after the library it ships
    )
    if as_json:
        options.echo_json(found)
    else:
        click.echo(f"perenne {found.perenne}\npython  {found.python}\nsqlite  {found.sqlite}")


COMMANDS = (
    run.init,
    run.worker,
    sending.submit,
    *looking.COMMANDS,
    *artefacts.COMMANDS,
    *drawing.COMMANDS,
    *resources.COMMANDS,
    *demo.COMMANDS,
    *steering.COMMANDS,
    *upkeep.COMMANDS,
    completion,
)
for command in COMMANDS:
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; whatever it raised becomes one line on the standard error."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        # A name that the terminal cannot show must never be the reason why a command fails.
        stream.reconfigure(errors="backslashreplace")
    try:
        answer = cli.main(arguments, prog_name="perenne", standalone_mode=False, obj=views)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        return _say_usage(error)
    except click.Abort:
        return _say(faults.sentence_of(KeyboardInterrupt()), faults.Exit.FAILED)
    except BrokenPipeError:
        return _reader_gone()
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:
            _reader_gone()  # what could not be printed must not be tried again as the program ends
        if os.environ.get(DEBUG) == "1":
            import traceback

            traceback.print_exc()
        return _say(faults.sentence_of(error), faults.fault_of(error).exit_code)
    return answer if isinstance(answer, int) else faults.Exit.DONE


def _say(sentence: str, code: int) -> int:
    line = f"perenne: {sentence}"
    if sys.stderr is not None and sys.stderr.isatty():
        line = "\n".join(views.folded(line, options.width()))
    click.echo(line, err=True)
    return code


def _reader_gone() -> int:
    """Whoever read our output left; nothing more can be said, and flushing at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return faults.Exit.FAILED


def _say_usage(error: click.ClickException) -> int:
    """What click refused; a group called without a command shows its help instead."""
    ctx = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        click.echo(error.message, err=True)
        return faults.Exit.USAGE
    if ctx is None:
        return _say(views.one_line(error.format_message()), faults.Exit.USAGE)
    said = views.one_line(error.message if _unknown(error) else error.format_message()).rstrip(".")
    return _say(
        f"{said[0].lower()}{said[1:]}{_suggestion(error, ctx)}; see `{ctx.command_path} --help`", faults.Exit.USAGE
    )


def _unknown(error: click.ClickException) -> str | None:
    """The command or option that does not exist."""
    if isinstance(error, click.NoSuchOption):
        return error.option_name
    found = re.match(r"No such command '(.+?)'", error.message)
    return found[1] if found else None


def _suggestion(error: click.ClickException, ctx: click.Context) -> str:
    import difflib  # here, because every command would wait for it

    unknown = _unknown(error)
    if unknown is None:
        return ""
    if isinstance(error, click.NoSuchOption):
        known = sorted(name for parameter in ctx.command.get_params(ctx) for name in parameter.opts)
    else:
        known = ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []
    near = difflib.get_close_matches(unknown, known, n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else f"; known are {', '.join(known)}"
