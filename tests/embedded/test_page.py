"""docs/embedded.md: its examples of events, schedules and writers run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "embedded.md"
EXAMPLES = [
    example
    for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    if "q.events" in example or "q.schedules" in example or "q.writers" in example
]
SHOWN = [
    "[('audit', 1)] 1\n{'sku': 7}\n",
    "0 9 * * 1-5 | At 09:00 on weekdays, Europe/Berlin time | 5\n['tick']\nTrue\n",
    "2\nTrue\n",
]


@pytest.mark.parametrize(("example", "shown"), list(zip(EXAMPLES, SHOWN, strict=True)))
def test_an_example_shows_what_it_is_said_to_show(tmp_path, example, shown):
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, cwd=tmp_path, env={}, timeout=60
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")
