"""Durations that are drawn from a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from plainbench.config.model import Fixed, Histogram, Latency, Normal, P95Spike, Uniform
from sqew.errors import BadValue

_DRAWN_TOGETHER = 512


class Latencies:
    """A stream of durations in milliseconds. The same model and stream give the same durations."""

    def __init__(self, model: Latency, generator: np.random.Generator, folder: Path) -> None:
        self._draw = _MODELS[type(model)](model, generator, folder)
        self._drawn: list[float] = []

    def draw_ms(self) -> float:
        """Return the next duration."""
        if not self._drawn:
            self._drawn = np.maximum(self._draw(_DRAWN_TOGETHER), 0.0).tolist()
            self._drawn.reverse()
        return self._drawn.pop()


Draw = Callable[[int], np.ndarray]


def _fixed(model: Fixed, _generator: np.random.Generator, _folder: Path) -> Draw:
    return lambda count: np.full(count, model.ms)


def _uniform(model: Uniform, generator: np.random.Generator, _folder: Path) -> Draw:
    if model.max_ms < model.min_ms:
        raise BadValue(
            f"A uniform latency can't end before it begins: max_ms is {model.max_ms}, min_ms {model.min_ms}."
        )
    return lambda count: generator.uniform(model.min_ms, model.max_ms, count)


def _normal(model: Normal, generator: np.random.Generator, _folder: Path) -> Draw:
    return lambda count: generator.normal(model.mean_ms, model.std_ms, count)


def _p95_spike(model: P95Spike, generator: np.random.Generator, _folder: Path) -> Draw:
    """Draw around ``base_ms`` as a rule. A spike is ``p95_ms`` or longer, a twentieth of them twice as long or more."""

    def draw(count: int) -> np.ndarray:
        usual = generator.uniform(0.8, 1.2, count) * model.base_ms
        # An exponential tail that begins at p95_ms, and in which doubling it is a matter of 1 in 20.
        spikes = model.p95_ms + generator.exponential(model.p95_ms / np.log(20), count)
        return np.where(generator.random(count) < model.spike_prob, spikes, usual)

    return draw


def _histogram(model: Histogram, generator: np.random.Generator, folder: Path) -> Draw:
    values, weights = recorded(folder / model.file)
    return lambda count: generator.choice(values, count, p=weights)


def recorded(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read a recorded histogram: durations in milliseconds, and the probability of each."""
    try:
        rows = np.array(msgspec.json.decode(path.read_bytes(), type=list[tuple[float, float]]), dtype=float)
    except OSError as error:
        raise BadValue(f"The histogram {path} can't be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise BadValue(f"{path} is no histogram ({error}). It must be a list of [milliseconds, how often].") from error
    if not len(rows) or (rows < 0).any() or not rows[:, 1].sum():
        raise BadValue(f"{path} is no histogram: durations and counts must not be negative, nor all counts 0.")
    return rows[:, 0], rows[:, 1] / rows[:, 1].sum()


_MODELS: dict[type, Callable[..., Draw]] = {
    Fixed: _fixed,
    Uniform: _uniform,
    Normal: _normal,
    P95Spike: _p95_spike,
    Histogram: _histogram,
}
