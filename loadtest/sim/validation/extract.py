#!/usr/bin/env python3
"""Takes from aiconfigurator-core's table of measured runs those of the simulator's presets.

    extract.py silicon_sample.csv > silicon.csv

The table is `aiconfigurator_core/systems/silicon_sample.csv` in the wheel. A row belongs to a preset when model, number
format and parallelism are the same, and the device; the last group is an exception. The framework need not be.
"""

import csv
import re
import sys

HEADER = """\
# Measured inter-token times of closed loops: `concurrency` clients, prompts of `isl` and outputs of `osl` tokens.
# Source: aiconfigurator-core 0.12.0, systems/silicon_sample.csv (NVIDIA, Apache-2.0); rows and columns chosen, times
# rounded to 1 us, by extract.py. Nothing else was changed.
"""

LLAMA_8B = {"model_path": "meta-llama/Llama-3.1-8B-Instruct", "gemm_quant_mode": ""}
LLAMA_70B = {"model_path": "meta-llama/Llama-3.1-70B", "gemm_quant_mode": "fp8"}
QWEN_32B = {"model_path": "Qwen/Qwen3-32B", "gemm_quant_mode": ""}
QWEN_235B = {"model_path": "Qwen/Qwen3-235B-A22B-FP8"}
EXPERTS_8 = {"gemm_quant_mode": "fp8_block", "moe_tp_size": "1", "moe_ep_size": "8"}
EXPERTS_4 = {"gemm_quant_mode": "fp8_block", "moe_tp_size": "1", "moe_ep_size": "4"}

# Preset, framework, device, and what other columns of its rows hold; an empty number format is bf16.
GROUPS = [
    ("32b-h100-tp2", "vllm", "h100", {**QWEN_32B, "tp_size": "2"}),
    ("32b-h100-tp4", "vllm", "h100", {**QWEN_32B, "tp_size": "4"}),
    ("32b-h100-tp8", "vllm", "h100", {**QWEN_32B, "tp_size": "8"}),
    ("70b-fp8-h100-tp2", "vllm", "h100", {**LLAMA_70B, "tp_size": "2"}),
    ("70b-fp8-h100-tp4", "vllm", "h100", {**LLAMA_70B, "tp_size": "4"}),
    ("70b-fp8-h100-tp8", "vllm", "h100", {**LLAMA_70B, "tp_size": "8"}),
    ("8b-h100", "trtllm", "h100", {**LLAMA_8B, "tp_size": "1"}),
    ("235b-h100-tp8", "trtllm", "h100", {**QWEN_235B, "tp_size": "8", **EXPERTS_8}),
    ("235b-h100-tp4", "trtllm", "h100", {**QWEN_235B, "tp_size": "4", **EXPERTS_4}),
    # Another device, and all but one row without expert groups: it tells frameworks from devices, no more.
    ("235b-h100-tp4", "vllm", "h200", {**QWEN_235B, "tp_size": "4"}),
]


def belongs(row, framework, device, columns):
    # One engine serves the whole row: prefill and decode together, no pipeline, no attention data parallelism.
    wanted = {**columns, "backend": framework, "system": f"{device}_sxm", "mode": "agg", "pp_size": "1"}
    return row["attention_dp_size"] in ("", "1") and all(row[name] == value for name, value in wanted.items())


def chosen(rows, preset, framework, device, columns):
    """Rows of one preset, each with the concurrency that its run had."""
    for row in rows:
        if belongs(row, framework, device, columns):
            concurrency = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
            if concurrency is None:
                raise SystemExit(f"{row['id']}: no concurrency")
            numbers = int(row["isl"]), int(row["osl"]), int(concurrency[1])
            yield preset, framework, device, *numbers, f"{float(row['silicon_tpot_ms']):.3f}"


def main():
    with open(sys.argv[1], newline="") as file:
        rows = list(csv.DictReader(file))
    sys.stdout.write(HEADER)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["preset", "framework", "device", "isl", "osl", "concurrency", "tpot_ms"])
    for group in GROUPS:
        found = sorted(chosen(rows, *group))
        if not found:
            raise SystemExit(f"{group[0]}: no rows")
        writer.writerows(found)


if __name__ == "__main__":
    main()
