"""`fairlead completion`: shell completion scripts."""

from typing import Literal

from fairlead.cli import app


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script for a shell.

    Parameters
    ----------
    shell
        The shell. For bash: source <(fairlead completion bash)
    """
    print(app.generate_completion(shell=shell))
    return 0
