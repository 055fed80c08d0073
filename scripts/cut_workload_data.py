"""Cut the request lengths that the default workload is made of.

Run as `python scripts/cut_workload_data.py PATH/azure-llm-2023-conv.csv.gz`. The source is Azure/AzurePublicDataset at
b469a113 (AzureLLMInferenceTrace_conv, CC-BY-4.0): 19,366 production chat requests of one hour. Kept are the two
length columns of 2,000 rows drawn without replacement by a fixed seed, in their original order; times are dropped.
The same input always gives the same bytes.
"""

import csv
import gzip
import random
import sys
from pathlib import Path

ROWS = 2_000
SEED = 20_231_116
TARGET = Path(__file__).parent.parent / "runtime" / "tailguard_runtime" / "load" / "data" / "azure_conv_lengths.csv"


def read_lengths(source: Path) -> list[tuple[int, int]]:
    with gzip.open(source, "rt", newline="") as file:
        return [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(file)]


def cut(lengths: list[tuple[int, int]]) -> list[tuple[int, int]]:
    usable = [pair for pair in lengths if min(pair) >= 1]
    kept = sorted(random.Random(SEED).sample(range(len(usable)), ROWS))
    return [usable[index] for index in kept]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: cut_workload_data.py PATH/azure-llm-2023-conv.csv.gz")
    rows = cut(read_lengths(Path(sys.argv[1])))
    with TARGET.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["prompt_tokens", "output_tokens"])
        writer.writerows(rows)
    print(f"{TARGET.name}: {len(rows)} rows, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
