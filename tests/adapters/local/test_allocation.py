"""Run folders: other users can traverse them, but not list them."""

import os
import stat
from pathlib import Path

import pytest

from fairlead.adapters.local.allocation import make_traversable


@pytest.mark.parametrize("mask", [0o000, 0o077])
@pytest.mark.parametrize("before", [None, 0o700, 0o777])
def test_other_users_can_traverse_but_not_list_the_runs_folder(tmp_path: Path, mask: int, before: int | None) -> None:
    folder = tmp_path / "data" / "runs"
    if before is not None:
        folder.mkdir(parents=True)
        folder.chmod(before)
    old_mask = os.umask(mask)
    try:
        make_traversable(folder)
    finally:
        os.umask(old_mask)
    assert stat.filemode(folder.stat().st_mode) == "drwx--x--x"
