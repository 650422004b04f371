"""Documented imports: they go on working for programs written with them, wherever their modules live now."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import sqew

DOCUMENTED = {
    "sqew": sqew.__all__,
    "sqew.errors": ["QueueNotFound", "OutcomeUnknown"],
    "sqew.operations": ["Operation", "Send"],
    "sqew.model": ["NewMessages", "Ref"],
    "sqew.keys": ["signature"],
    "sqew.observe.eventlog": ["read"],
    "sqew.worker": ["Ack", "Dead", "Retry", "Worker"],
    "sqew.settings": ["Settings"],
    "sqew.spark": ["session", "transforms"],
    "sqew.lab.workers": ["Dead", "Retry"],
    "sqew.lab.workers.function": ["Job"],
    "sqew.lab.drivers.base": ["Driver"],
    "sqew.lab.faults.injector": ["Injected"],
    "pyspark_sqew": ["DefaultSource"],
}


@pytest.mark.parametrize("module", DOCUMENTED)
def test_documented_imports_work_in_a_new_process(module: str) -> None:
    # In a process of its own: here others have imported what lies below the module already.
    code = f"from {module} import {', '.join(DOCUMENTED[module])}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_the_lab_is_the_same_under_both_names() -> None:
    for old, new, name in (
        ("sqew.lab.workers", "plainbench.workers", "Dead"),
        ("sqew.lab.drivers.base", "plainbench.drivers.base", "Driver"),
        ("sqew.lab.faults.injector", "plainbench.faults.injector", "Injected"),
    ):
        assert getattr(importlib.import_module(old), name) is getattr(importlib.import_module(new), name)
