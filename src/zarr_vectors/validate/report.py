"""What validation found: findings as data, all counted, the first of each rule kept."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from zarr_vectors.exceptions import MetadataError, ZarrVectorsError
from zarr_vectors.typing import IntArray
from zarr_vectors.validate.rule_table import RULES, Severity

Progress = Callable[[str, int, int], None]
"""Called with what is being checked, how much of it is done, and how much there is."""

_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a store."""

    level: int | None = None
    array: str | None = None
    chunk: str | None = None
    object_id: int | None = None

    def chunk_of(self, array: str, chunk: str | None = None) -> "Place":
        """Return a place of the same level."""
        return Place(self.level, array, chunk)

    def __str__(self) -> str:
        parts = (None if self.level is None else str(self.level), self.array, self.chunk)
        path = "/".join(part for part in parts if part is not None)
        if self.object_id is None:
            return path or "/"
        return f"{path} object {self.object_id}".strip()


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a rule is broken."""

    level: int
    """Validation level, 1 to 5."""
    code: str
    """The rule, a key of `zarr_vectors.validate.RULES`."""
    severity: Severity
    path: str
    """The place as text: ``0/vertices/0.0.1``, ``1/object_index object 7``."""
    store_level: int | None
    array: str | None
    chunk: str | None
    object_id: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.code} {self.path}: expected {self.expected}; found {self.found}"


@dataclass(frozen=True, slots=True)
class Report:
    """All that validation found."""

    url: str
    level: int
    """The validation level that was asked for."""
    findings: tuple[Finding, ...]
    """Grouped by rule, in the order of the rules; at most ``cap`` of each."""
    counts: Mapping[str, int]
    """How often each broken rule is broken, those that are not listed included."""
    not_run: tuple[str, ...] = ()
    """What could not be checked, because something that it builds on is broken."""

    @property
    def ok(self) -> bool:
        """Whether no rule of severity error is broken."""
        return all(RULES[code].severity != "error" for code in self.counts)

    @property
    def codes(self) -> frozenset[str]:
        """The rules that are broken."""
        return frozenset(self.counts)

    @property
    def num_errors(self) -> int:
        """How many errors there are, those that are not listed included."""
        return self._total("error")

    @property
    def num_warnings(self) -> int:
        """How many warnings there are, those that are not listed included."""
        return self._total("warning")

    def by_rule(self) -> dict[str, list[Finding]]:
        """Return the findings of each broken rule."""
        grouped: dict[str, list[Finding]] = {code: [] for code in self.counts}
        for finding in self.findings:
            grouped[finding.code].append(finding)
        return grouped

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        return {
            "url": self.url,
            "level": self.level,
            "ok": self.ok,
            "errors": self.num_errors,
            "warnings": self.num_warnings,
            "counts": dict(self.counts),
            "findings": [asdict(finding) for finding in self.findings],
            "not_run": list(self.not_run),
        }

    def __str__(self) -> str:
        state = "sound" if self.ok else "not sound"
        head = f"{self.url}: {state} at level {self.level}, {self.num_errors} errors, {self.num_warnings} warnings"
        return "\n".join([head, *map(str, self.findings), *(f"not run: {what}" for what in self.not_run)])

    def _total(self, severity: Severity) -> int:
        return sum(count for code, count in self.counts.items() if RULES[code].severity == severity)


@dataclass(slots=True)
class Findings:
    """Findings as they come in: all are counted, a few of each rule are kept."""

    cap: int = 20
    level: int = 5
    progress: Progress | None = None
    counts: dict[str, int] = field(default_factory=dict)
    kept: dict[str, list[Finding]] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)

    def add(self, code: str, place: Place, expected: str, found: object, *, count: int = 1) -> None:
        """Count a finding, and keep it if it is among the first of its rule."""
        rule = RULES[code]
        if rule.level > self.level:
            return
        self.counts[code] = self.counts.get(code, 0) + count
        kept = self.kept.setdefault(code, [])
        if len(kept) < self.cap:
            text = str(found)
            text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
            kept.append(
                Finding(
                    rule.level,
                    code,
                    rule.severity,
                    str(place),
                    place.level,
                    place.array,
                    place.chunk,
                    place.object_id,
                    expected,
                    text,
                )
            )

    def add_each(self, code: str, items: IntArray, describe: Callable[[int], tuple[Place, str, object]]) -> None:
        """Count many findings of one rule, of which only the first few are described."""
        for item in items[: self.cap].tolist():
            self.add(code, *describe(item))
        if len(items) > self.cap and code in self.counts:
            self.counts[code] += len(items) - self.cap

    def add_error(self, code: str, place: Place, error: ZarrVectorsError) -> None:
        """Count what a decoder raised, at the place that it names."""
        self.add(code, _more_exact(place, error), RULES[code].says.rstrip("."), error.message)

    def add_problems(self, place: Place, error: MetadataError) -> None:
        """Count every problem of a metadata block, each under the rule that it breaks."""
        for problem in error.problems:
            code = {"division": "L2.division", "ndim": "L2.ndim", "literal_error": "L2.enumeration"}.get(
                problem.rule, "L1.discriminator" if problem.rule == "discriminator" else "L2.schema"
            )
            self.add(code, place, RULES[code].says.rstrip("."), problem)

    @contextmanager
    def guard(self, place: Place, what: str) -> Iterator[None]:
        """Keep a step that fails from ending the rest.

        Checks catch what decoders raise where they raise it. What comes through here is a
        backend that fails, which may raise anything.
        """
        try:
            yield
        except ZarrVectorsError as error:
            self.add("L1.unreadable", _more_exact(place, error), what, error.message)
            self.not_run.append(f"{place}: {what}")
        except Exception as error:  # noqa: BLE001
            self.add("L1.unreadable", place, what, f"{type(error).__name__}: {error}")
            self.not_run.append(f"{place}: {what}")

    def tell(self, what: str, done: int, total: int) -> None:
        """Call the progress callback, if there is one."""
        if self.progress is not None:
            self.progress(what, done, total)

    def report(self, url: str) -> Report:
        """Return all that was found, in the order of the rules."""
        codes = [code for code in RULES if code in self.counts]
        findings = tuple(finding for code in codes for finding in self.kept[code])
        counts = {code: self.counts[code] for code in codes}
        return Report(url, self.level, findings, counts, tuple(dict.fromkeys(self.not_run)))


def _more_exact(place: Place, error: ZarrVectorsError) -> Place:
    return replace(
        place,
        level=place.level if error.level is None else error.level,
        array=place.array if error.array is None else error.array,
        chunk=place.chunk if error.chunk is None else error.chunk,
        object_id=place.object_id if error.object_id is None else error.object_id,
    )
