"""Tables as Python's csv module writes and reads them: tests/references/csv_tables.json.

Run: tools/references/run.sh csv_tables, or `python csv_tables.py` (the standard library alone).

A list of {separator, text, rows}: `text` a file with separators, quotes and line breaks in its fields, written with every
manner of quoting, and `rows` what csv.reader(strict) makes of it. Fields have no spaces at their ends: those of fields without
quotes are dropped by Tessera, and kept by Python.
"""
import csv
import io
import json
import pathlib
import random

PIECES = ["a", "Bild 1", "ä", '"', '""', ",", ";", "\t", "\n", "\r\n", "x,y", "'", "0", "-1.5", "猫", "\\", "#"]
QUOTINGS = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]


def table(draw, separator, quoting, end):
    rows = [["".join(draw.choices(PIECES, k=draw.randint(1, 4))).strip() or "z" for _ in range(3)] for _ in range(6)]
    rows[draw.randrange(6)][1] = ""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, quoting=quoting, lineterminator=end).writerows(rows)
    read = list(csv.reader(io.StringIO(text.getvalue(), newline=""), delimiter=separator, strict=True))
    assert read == rows
    return {"separator": separator, "text": text.getvalue(), "rows": read}


def main():
    draw = random.Random(0)
    tables = [table(draw, separator, quoting, end) for separator in ",;\t|" for quoting in QUOTINGS for end in ("\n", "\r\n")]
    path = pathlib.Path(__file__).parents[3] / "tests/references/csv_tables.json"
    path.write_text(json.dumps(tables, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
