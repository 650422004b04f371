"""The repetition of a recorded run: the same configuration, seed and inputs, on what the queue held before."""

from __future__ import annotations

from pathlib import Path

from plainbench.record import manifest
from plainbench.record.events import log_files
from plainbench.record.inputs import changes, inputs_of, sha256
from plainbench.record.manifest import Manifest
from plainbench.record.recorder import Recording
from sqew.errors import Conflict


class InputsChanged(Conflict):
    """Inputs of a run that are no longer as they were when it began, so that it can't be repeated."""


def check_inputs(recorded: Manifest, run: Path) -> None:
    """Raise `InputsChanged` unless every file that the run used is as it was, and there are no new ones."""
    folder = Path(recorded.folder)
    changed = [*changes(recorded.inputs, folder), *changes(recorded.before, run)]
    if folder.is_dir() and not changed:
        known = {one.path for one in recorded.inputs}
        changed = [f"{one.path} ({one.what}) is new" for one in inputs_of(recorded.config, folder)
                   if one.path not in known]  # fmt: skip
    if changed:
        raise InputsChanged(
            f"Run {recorded.id} can't be repeated, as its inputs are not what they were: {'; '.join(changed)}. "
            "Put them back as they were, or make a new run of them with `plainbench run`."
        )


def replay(named: str | Path, runs: Path | None = None) -> Recording:
    """Prepare a run that does a recorded one again; nothing has happened yet."""
    source = manifest.run_folder(named).resolve()
    recorded = manifest.read(source)
    check_inputs(recorded, source)
    return Recording(
        recorded.config, Path(recorded.folder), Path(recorded.config_file), runs=runs or source.parent,
        schedule=recorded.schedule, repeats=source,
    )  # fmt: skip


def other_versions(recorded: Manifest, now: Manifest) -> list[str]:
    """Return a sentence for each version that has changed: then the same decisions may have other consequences."""
    names = recorded.versions.keys() | now.versions.keys()
    pairs = {name: (recorded.versions.get(name, "none"), now.versions.get(name, "none")) for name in sorted(names)}
    return [f"{name} was {then} and is {here}" for name, (then, here) in pairs.items() if then != here]


def same_log(run: Path, other: Path) -> bool:
    """Return True if two runs have the same event log, byte for byte."""
    hashes = [[(path.name, sha256(path)) for path in log_files(folder)] for folder in (run, other)]
    return hashes[0] == hashes[1]
