"""docs/clients.md: its examples run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.serving import serving

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
SHOWN = [
    "{'sku': 7} 1\n",
    "{'sku': 7}\n{'sku': 8}\n",
    "shipping {'sku': 7}\n",
    "",
    "{'sku': 7}\n{'tick': True}\n",
]


@pytest.mark.parametrize(("example", "shown"), list(zip(EXAMPLES, SHOWN, strict=True)))
def test_an_example_works_on_a_server(tmp_path, example, shown):
    with serving(tmp_path) as server:
        here = example.replace("http://127.0.0.1:8888", server.url)
        done = subprocess.run(
            [sys.executable, "-c", here], capture_output=True, text=True, env={"SQEW_URL": server.url}, timeout=60
        )

    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")
