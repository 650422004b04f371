"""The comparison of runs: is one faster, and how sure is that?

Runs can be compared if the same load met them on the same machine, at the same durability. Everything else may differ,
and is listed: it is what the comparison is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from plainbench.config.secrets import shown
from plainbench.record import manifest
from plainbench.record.database_copy import QUEUE
from plainbench.record.inputs import Input
from plainbench.record.manifest import Manifest
from plainbench.statistics.bootstrap import Blocks, Estimate, Resampled, rate
from plainbench.verdict.latencies import Samples
from plainbench.verdict.log_columns import NEVER, topics_of
from plainbench.verdict.verdict import Evidence, Verdict, evidence, judge_evidence
from sqew.errors import BadValue, Conflict

_LATENCIES = {"due → claim": "to_claim", "due → ack": "to_ack"}
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
_IS_INPUT = ("seed", "workload")
_NO_DIFFERENCE = frozenset({"runs", "sqlite.queue_file", "sqlite.app_file"})
"""Keys that name a place: two runs may differ in them."""


class NotComparable(Conflict):
    """Two runs whose figures say nothing of each other."""


class Figure(Struct, frozen=True):
    """A figure of all runs. ``ratios`` are to the first run, which has none itself."""

    topic: str
    name: str
    unit: str
    estimates: list[Estimate]
    ratios: list[Estimate | None]


class Side(Struct, frozen=True):
    """A run in a comparison."""

    id: str
    folder: str
    driver: str
    durability: str
    verdict: Verdict


class Comparison(Struct, frozen=True):
    """The comparison of all runs."""

    runs: list[Side]
    differences: dict[str, list[str]]
    """Values of each run where they differ, by key of the configuration or name of a version."""
    objections: list[str]
    """Reasons why they should not be compared, if it was done all the same."""
    figures: list[Figure]


def compare(named: Sequence[str | Path], *, force: bool = False) -> Comparison:
    """Compare runs, each with the first. Raise `NotComparable` if they can't be compared, unless forced."""
    if len(named) < 2:
        raise BadValue("It takes two runs to compare: name their folders.")
    folders = [manifest.run_folder(one).resolve() for one in named]
    manifests = [manifest.read(folder) for folder in folders]
    objections = check_comparable(folders, force=force)
    known = [evidence(folder, one.config) for folder, one in zip(folders, manifests, strict=True)]
    sides = [
        Side(one.id, str(folder), one.config.target.driver, one.durability, judge_evidence(run))
        for one, folder, run in zip(manifests, folders, known, strict=True)
    ]
    return Comparison(sides, _differences(manifests), objections, list(_figures(known)))


def check_comparable(folders: Sequence[Path], *, force: bool = False) -> list[str]:
    """Return why these runs should not be compared with the first. Raise `NotComparable` for it, unless forced."""
    base, *others = (manifest.read(folder) for folder in folders)
    objections = [sentence for other in others for sentence in _objections(base, other)]
    if objections and not force:
        raise NotComparable(f"These runs can't be compared: {'; '.join(objections)}. --force compares them anyway.")
    return objections


def _objections(base: Manifest, other: Manifest) -> Iterator[str]:
    pair = f"{base.id} and {other.id}"
    for name in sorted(base.machine.keys() | other.machine.keys()):
        here, there = base.machine.get(name, "unknown"), other.machine.get(name, "unknown")
        if here != there:
            yield f"{pair} are from other machines ({name}: {here} and {there})"
    if base.durability != other.durability:
        yield f"{pair} differ in durability ({base.durability or 'unknown'} and {other.durability or 'unknown'})"
    if base.config.mode != other.config.mode:
        yield f"one of {pair} was in real time and the other in virtual time"
    for key in _IS_INPUT:
        if getattr(base.config, key) != getattr(other.config, key):
            yield f"{pair} had other inputs ({key})"
    files = [{one.path: one.sha256 for one in _loads(run)} for run in (base, other)]
    for path in sorted(files[0].keys() | files[1].keys()):
        if files[0].get(path) != files[1].get(path):
            yield f"{pair} had other inputs ({path})"


def _loads(run: Manifest) -> list[Input]:
    """Return the inputs that are a part of the load: workers, drivers and their database may be what is compared."""
    kept = [one for one in run.before if one.path == QUEUE]
    return [*kept, *(one for one in run.inputs if not one.what.startswith(("worker", "driver", "fixture")))]


def _differences(manifests: Sequence[Manifest]) -> dict[str, list[str]]:
    flat = [
        dict(_flat("", msgspec.to_builtins(one.config))) | {f"version of {name}": v for name, v in one.versions.items()}
        for one in manifests
    ]
    keys = sorted(set().union(*flat) - _NO_DIFFERENCE)
    rows = {key: [str(one.get(key, "")) for one in flat] for key in keys}
    return {key: [str(shown(key, value)) for value in row] for key, row in rows.items() if len(set(row)) > 1}


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            name = inner.get("name") if isinstance(inner, Mapping) else None
            yield from _flat(f"{prefix}[{name or place}]", inner)
    else:
        yield prefix, value


def _figures(known: Sequence[Evidence]) -> Iterator[Figure]:
    samples = [Samples(one) for one in known]
    topics = sorted(set.intersection(*(set(one.log.topics) - {""} for one in known)))
    for topic in topics:
        chosen = [topics_of(one.key) == run.log.topics[topic] for one, run in zip(samples, known, strict=True)]
        if not all(flags.any() for flags in chosen):
            continue
        pairs = list(zip(samples, chosen, strict=True))
        yield _figure(topic, "acked", "/s", [_rate(one, flags, seed) for seed, (one, flags) in enumerate(pairs)])
        for title, attribute in _LATENCIES.items():
            runs = [
                Blocks(one.due[flags], getattr(one, attribute)[flags], seed).quantiles(list(_QUANTILES.values()))
                for seed, (one, flags) in enumerate(pairs)
            ]
            for name, of_runs in zip(_QUANTILES, zip(*runs, strict=True), strict=True):
                yield _figure(topic, f"{title} {name}", "ms", of_runs)


def _rate(samples: Samples, chosen: Any, seed: int) -> Resampled:
    done = samples.done_at[chosen]
    last = int(done[done < NEVER].max(initial=0))
    return rate(done, int(samples.due[chosen].min()), last, seed)


def _figure(topic: str, name: str, unit: str, runs: Sequence[Resampled]) -> Figure:
    return Figure(
        topic, name, unit, [run.estimate() for run in runs], [None, *(run.ratio(runs[0]) for run in runs[1:])]
    )
