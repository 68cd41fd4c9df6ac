"""`fairlead completion`: what a shell needs to complete the commands."""

from typing import Literal

from fairlead.cli import app


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion of the commands, for the start-up file of a shell.

    Parameters
    ----------
    shell
        For which shell. For bash: source <(fairlead completion bash)
    """
    print(app.generate_completion(shell=shell))
    return 0
