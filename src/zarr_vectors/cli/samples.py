"""Small synthetic data sets, one for each geometry, good to look at and quick to make."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zarr_vectors.typing import IntArray

FloatArray = npt.NDArray[np.float32]

BRANCHING = 0.012
"""How often a tree branches."""
BUILT = 0.85
"""How much of a grid of streets is there."""


@dataclass(frozen=True, slots=True, eq=False)
class Galaxy:
    """Stars of three spiral arms."""

    positions: FloatArray
    brightness: FloatArray
    arms: IntArray


def make_galaxy(stars_per_arm: int = 4_000, num_arms: int = 3, seed: int = 7) -> Galaxy:
    """Return a galaxy of logarithmic arms with a bright centre."""
    random = np.random.default_rng(seed)
    arms = np.repeat(np.arange(num_arms, dtype=np.int64), stars_per_arm)
    along = random.random(len(arms)) ** 0.7
    angle = 4.5 * along + 2 * np.pi * arms / num_arms + random.normal(0, 0.12, len(arms))
    radius = 90 * along + random.normal(0, 3.0, len(arms))
    height = random.normal(0, 1, len(arms)) * (2 + 12 * np.exp(-6 * along))
    positions = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    brightness = np.exp(-2.5 * along) * random.lognormal(0, 0.4, len(arms))
    return Galaxy(positions.astype(np.float32), brightness.astype(np.float32), arms)


def make_wind(side: int = 16, seed: int = 1) -> FloatArray:
    """Return short arrows on a plane that follow a whirl, ``(lines, 2, 2)``."""
    random = np.random.default_rng(seed)
    start = random.random((side * side, 2)) * 100
    away = start - 50
    step = np.stack([-away[:, 1], away[:, 0]], axis=1) / 8
    return np.stack([start, start + step], axis=1).astype(np.float32)


def make_contours(count: int = 24) -> list[FloatArray]:
    """Return closed lines of equal height around two hills."""
    angles = np.linspace(0, 2 * np.pi, 121)
    rings = []
    for number in range(count):
        radius = 4 + 1.8 * (number // 2)
        centre = np.array([40.0, 50.0]) if number % 2 else np.array([75.0, 35.0])
        wobble = radius * (1 + 0.15 * np.sin(3 * angles + number))
        rings.append((centre + wobble[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.float32))
    return rings


def make_bundle(count: int = 400, seed: int = 3) -> tuple[FloatArray, IntArray]:
    """Return streamlines that fan out over an arch, as values and offsets."""
    random = np.random.default_rng(seed)
    lengths = random.integers(40, 90, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    owner = np.repeat(np.arange(count), lengths)
    t = (np.arange(offsets[-1]) - offsets[owner]) / (lengths[owner] - 1)
    spread = random.normal(0, 6, (count, 2))
    aside = spread[owner] * (0.4 + t)[:, None]
    arch = np.stack([100 * t, 45 * np.sin(np.pi * t) + aside[:, 0], aside[:, 1]], axis=1)
    return (arch + random.normal(0, 0.3, arch.shape)).astype(np.float32), offsets


def make_neuron(num_nodes: int = 3_000, seed: int = 5) -> tuple[FloatArray, IntArray]:
    """Return a branching tree of nodes, and the parent of each."""
    random = np.random.default_rng(seed)
    parents = np.arange(num_nodes) - 1
    branches = np.flatnonzero(random.random(num_nodes) < BRANCHING)[1:]
    parents[branches] = (random.random(len(branches)) * branches).astype(np.int64)
    steps = random.normal(0, 0.5, (num_nodes, 3))
    heading = np.zeros((num_nodes, 3))
    positions = np.zeros((num_nodes, 3))
    is_branch = np.zeros(num_nodes, dtype=np.bool_)
    is_branch[branches] = True
    for node in range(1, num_nodes):
        turn = random.normal(0, 1, 3) if is_branch[node] else 0.97 * heading[parents[node]]
        heading[node] = turn / max(float(np.linalg.norm(turn)), 1e-9) if is_branch[node] else turn + 0.3 * steps[node]
        positions[node] = positions[parents[node]] + heading[node] * 0.8
    return positions.astype(np.float32), parents.astype(np.int64)


def make_streets(side: int = 30, seed: int = 9) -> tuple[FloatArray, IntArray]:
    """Return crossings of a bent grid of streets, and the streets between them."""
    random = np.random.default_rng(seed)
    x, y = (axis.reshape(-1) for axis in np.meshgrid(np.arange(side), np.arange(side)))
    positions = np.stack([3.3 * x + 4 * np.sin(y / 4), 3.3 * y + 4 * np.sin(x / 5)], axis=1)
    number = np.arange(side * side).reshape(side, side)
    across = np.stack([number[:, :-1].reshape(-1), number[:, 1:].reshape(-1)], axis=1)
    along = np.stack([number[:-1].reshape(-1), number[1:].reshape(-1)], axis=1)
    streets = np.concatenate([across, along])
    return positions.astype(np.float32), streets[random.random(len(streets)) < BUILT].astype(np.int64)


def make_torus(around: int = 96, through: int = 40) -> tuple[FloatArray, IntArray]:
    """Return the vertices and triangles of a ring."""
    u, v = np.meshgrid(np.arange(around), np.arange(through), indexing="ij")
    big, small = 2 * np.pi * u.reshape(-1) / around, 2 * np.pi * v.reshape(-1) / through
    distance = 35 + 12 * np.cos(small)
    vertices = np.stack([distance * np.cos(big), distance * np.sin(big), 12 * np.sin(small)], axis=1)

    def corner(du: int, dv: int) -> IntArray:
        return (((u + du) % around) * through + (v + dv) % through).reshape(-1).astype(np.int64)

    lower = np.stack([corner(0, 0), corner(1, 0), corner(1, 1)], axis=1)
    upper = np.stack([corner(0, 0), corner(1, 1), corner(0, 1)], axis=1)
    return vertices.astype(np.float32), np.concatenate([lower, upper])
