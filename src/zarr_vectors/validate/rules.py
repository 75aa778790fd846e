"""The rules as a page of the documents: ``python -m zarr_vectors.validate.rules FILE`` writes it.

>>> print(rules_page().splitlines()[0])
# Validation rules
"""

import sys
from pathlib import Path

from zarr_vectors.validate.rule_table import LEVELS, RULES


def rules_page() -> str:
    """Return the rules as a page of Markdown."""
    lines = [
        "# Validation rules",
        "",
        "Written by `python -m zarr_vectors.validate.rules docs/validation-rules.md` from the table in",
        "`zarr_vectors.validate.rule_table`: change them there.",
        "",
        "`zv validate STORE --level N` runs levels 1 to N. A store is sound when no rule of severity *error* is",
        "broken; a *warning* is about something that readers can live with. The last column says where the rule",
        "comes from: a section of the format documents, or of [format-notes.md](format-notes.md) (`notes`).",
    ]
    for level, (name, about) in LEVELS.items():
        lines += ["", f"## Level {level}: {name}", "", f"{about[0].upper()}{about[1:]}.", ""]
        lines += ["| code | severity | what must hold | source |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{rule.code}` | {rule.severity} | {rule.says} | {rule.source} |"
            for rule in RULES.values()
            if rule.level == level
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(rules_page(), encoding="utf-8")
