"""`completion`: the lines that let a shell complete commands, options and the ids of jobs."""

from __future__ import annotations

import click

from perenne.surfaces import faults

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Let a shell complete this program.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print what SHELL reads to complete this program.

    bash: eval "$(perenne completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc;
    fish: perenne completion fish > ~/.config/fish/completions/perenne.fish

    Example: eval "$(perenne completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, "click knows these three"
    click.echo(found(ctx.find_root().command, {}, "perenne", "_PERENNE_COMPLETE").source())
    return faults.Exit.DONE
