"""Add up the checks and junit files of a folder: print `N passed, N failed, N skipped`, exit 1 when anything failed.

A pytest run that ended without its junit file, or failed although no test in it did, counts as one failure.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def count(path: Path) -> tuple[int, int, int]:
    """Tests passed, failed and skipped in a junit file."""
    suites = list(ET.parse(path).getroot().iter("testsuite"))
    tests, errors, failures, skipped = (
        sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "errors", "failures", "skipped")
    )
    return tests - errors - failures - skipped, errors + failures, skipped


def main(folder: Path) -> int:
    """Print the sum of all checks in `folder`."""
    totals = [0, 0, 0]
    for line in (folder / "checks").read_text().splitlines():
        name, status = line.split()
        path = folder / f"{name}.xml"
        passed, failed, skipped = count(path) if path.exists() else (int(status == "0"), 0, 0)
        if status != "0" and failed == 0:
            failed = 1
        if failed:
            print(f"failed: {name}")
        totals = [total + new for total, new in zip(totals, (passed, failed, skipped), strict=True)]
    print(f"{totals[0]} passed, {totals[1]} failed" + (f", {totals[2]} skipped" if totals[2] else ""))
    return int(totals[1] > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
