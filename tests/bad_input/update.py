"""Update the tables with the current output of the CLI. Review the difference before you commit it."""

import tempfile
from dataclasses import replace
from pathlib import Path

from tests.bad_input import cases


def main() -> None:
    for table in cases.list_tables():
        table.write_text(cases.print_table([update(case) for case in cases.load_cases(table)]), "utf-8")


def update(case: cases.Case) -> cases.Case:
    """The case with the current output."""
    with tempfile.TemporaryDirectory() as first_folder, tempfile.TemporaryDirectory() as second_folder:
        output = cases.run_case(case, Path(first_folder)).err
        return replace(case, output=output, rules=cases.find_rules(case, Path(second_folder)))


if __name__ == "__main__":
    main()
