"""The JSON of `qkv bench --json FILE` as Markdown tables: the ceilings; products, a line for each kind; each other case with one and
with all threads beside what is wanted of it; and what is below that.

    floors.py FILE"""
import datetime
import json
import os
import sys

SIZES = ("m", "n", "k", "d", "value_d", "heads", "kv_heads", "batch", "layers", "ffn", "global_first", "global_every", "random_blocks",
         "block", "shortest", "tokens", "window", "dropout", "layout")

# Targets: the least share of the floor in percent with one thread and with more, for float32 with the widest instructions. The first line
# that fits a case holds. A size that is given must be the case's.
FULL = {"variant": "", "d": 64, "heads": 8}
TARGETS = [
    ("gemm.nt", {"variant": "few rows"}, 85, 85),
    ("gemm.nt", {"variant": ""}, 92, 90),
    ("gemm.nn", {"variant": ""}, 92, 90),
    ("gemm.tn", {}, 88, 86),
    ("attention.forward", {**FULL, "n": 512}, 82, 81),
    ("attention.forward", {**FULL, "n": 1024, "value_d": None}, 85, 84),
    ("attention.forward", {**FULL, "n": 4096}, 87, 86),
    ("attention.forward", {**FULL, "n": 16384}, 87, 85),
    ("attention.backward", {**FULL, "n": 512}, 84, 83),
    ("attention.backward", {**FULL, "n": 1024, "value_d": None}, 87, 86),
    ("attention.backward", {**FULL, "n": 4096}, 90, 89),
    ("attention.forward", {"variant": "", "d": 32, "n": 4096}, 80, 78),
    ("attention.backward", {"variant": "", "d": 32, "n": 4096}, 87, 85),
    ("attention.forward", {"variant": "", "d": 128, "n": 4096}, 88, 86),
    ("attention.backward", {"variant": "", "d": 128, "n": 4096}, 90, 88),
    ("attention.forward", {"variant": "", "n": 1024}, 75, 75),  # other widths
    ("attention.backward", {"variant": "", "n": 1024}, 75, 75),
    ("attention.forward", {"variant": "", "n": 128}, 66, 66),
    ("attention.backward", {"variant": "", "n": 128}, 66, 66),
    ("attention.forward", {"variant": "causal", "n": 1024}, 80, 77),
    ("attention.backward", {"variant": "causal", "n": 1024}, 80, 77),
    ("attention.forward", {"variant": "causal", "n": 4096}, 84, 80),
    ("attention.backward", {"variant": "causal", "n": 4096}, 84, 80),
    ("attention.forward", {"variant": "window", "n": 16384, "window": [64, 64]}, 60, 55),
    ("attention.backward", {"variant": "window", "n": 16384, "window": [64, 64]}, 60, 55),
    ("attention.forward", {"variant": "window", "n": 16384, "window": [256, 256]}, 75, 72),
    ("attention.backward", {"variant": "window", "n": 16384, "window": [256, 256]}, 75, 72),
    ("attention.forward", {"variant": "ragged"}, 60, 60),
    ("attention.backward", {"variant": "ragged"}, 60, 60),
    ("attention.forward", {"variant": "one head", "n": 1024}, 85, 80),
    ("attention.backward", {"variant": "one head", "n": 1024}, 87, 78),
    ("attention.decode", {"n": 4096}, 90, 90),
    ("layer.forward", {"batch": 32}, 86, 84),
    ("layer.both", {"batch": 32}, 85, 83),
    ("train.step", {"variant": ""}, 80, 77),
    ("train.step", {"variant": "ragged"}, 70, 67),
    ("pointwise.*", {}, 77, 77),  # within 1.3 times of the floor
]
BF16_TARGETS = [  # of the bf16 peak; where a case is not among them nothing is wanted
    ("gemm.*", {"variant": ""}, 85, 85),
    ("attention.forward", {**FULL, "n": 4096}, 80, 80),
    ("attention.backward", {**FULL, "n": 4096}, 75, 75),
]
BESIDE_PLAIN = {"dropout": 4, "alibi": 4, "bias": 4, "rope": 4}  # attention: points below the plain case of the same run
NARROWER = 5      # points less where the instructions are narrower than AVX-512
SPEED_UP = 1.9    # two threads, where arithmetic binds; less where the shares above ask for less
EIGHT_HEADS = 6   # percent that a layer of 8 heads may take longer than one of one head


def name_of(case):
    return case["case"] + (", " + case["variant"] if case["variant"] else "")


def shape(case):
    words = []
    for size in SIZES:
        value = case.get(size)
        if value is None or (size == "batch" and value == 1):
            continue
        shown = "%d,%d" % tuple(value) if size == "window" else "%g" % value if size == "dropout" else value
        words.append("%s %s" % (size.replace("_", " "), shown))
    return " ".join(words)


def is_a(case, name, sizes):
    same_name = case["case"].startswith(name[:-1]) if name.endswith("*") else case["case"] == name
    return same_name and all(case.get(size) == value for size, value in sizes.items())


class Wanted:
    """What is wanted of each case of a run."""

    def __init__(self, everything):
        self.cases = everything["cases"]
        isa = everything["machine"]["isa"]
        self.fma = {c["threads"]: c["fma_gflops"] for c in everything["machine"]["ceilings"]}
        self.less = 0 if isa == "avx512" else NARROWER

    def of(self, case):
        """The least share in percent, or None."""
        if case["dtype"] != "f32" and self.less:
            return None  # bf16 is emulated
        targets = TARGETS if case["dtype"] == "f32" else BF16_TARGETS
        for name, sizes, one, more in targets:
            if is_a(case, name, sizes):
                return (one if case["threads"] == 1 else more) - self.less
        if case["case"].startswith("attention.") and case["variant"] in BESIDE_PLAIN and case["dtype"] == "f32":
            sizes = {size: case.get(size) for size in ("n", "d", "value_d", "heads", "threads", "dtype")}
            for plain in self.cases:
                if is_a(plain, case["case"], {**sizes, "variant": ""}):
                    return 100 * plain["share"] - BESIDE_PLAIN[case["variant"]]
        return None

    def misses(self, case):
        wanted = self.of(case)
        return wanted is not None and 100 * case["share"] < wanted - 0.5  # what is shown as the same number is no miss


def rate(case):
    by_bytes = case["bound"] == "bytes"
    return "%.*f %s" % (1 if by_bytes else 0, case["gbs"] if by_bytes else case["gflops"], "GB/s" if by_bytes else "GFLOP/s")


def threads_of(cases):
    return sorted({case["threads"] for case in cases})


def of_threads(t):
    return "%d thread%s" % (t, "" if t == 1 else "s")


def table(head, rows):
    print("| %s |" % " | ".join(head))
    print("| %s |" % " | ".join("---" if i < 2 else "---:" for i in range(len(head))))
    for row in rows:
        print("| %s |" % " | ".join(row))
    print()


def middle(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def percents(values):
    return ", ".join("%.0f" % (100 * value) for value in values) + " %"


def both(values):
    """What is wanted with each number of threads, in a word."""
    words = ["" if value is None else "%.0f" % value for value in values]
    if not any(words):
        return ""
    return (words[0] if len(set(words)) == 1 else " / ".join(word or "-" for word in words)) + " %"


def ceilings(machine):
    columns = machine["ceilings"]
    rows = [["multiply-adds f32", "GFLOP/s"] + ["%.0f" % c["fma_gflops"] for c in columns]]
    if columns[0]["bf16_gflops"]:
        rows.append(["dot products bf16", "GFLOP/s"] + ["%.0f" % c["bf16_gflops"] for c in columns])
    places = [("L%d, %d KiB" % (i + 1, cache["bytes"] // 1024), lambda c, i=i: c["caches"][i])
              for i, cache in enumerate(columns[0]["caches"]) if cache["bytes"]]
    for name, of in places + [("memory", lambda c: c["memory"])]:
        for kind, what in (("read_gbs", "read"), ("copy_gbs", "copy"), ("update_gbs", "update in place")):
            if of(columns[0])[kind]:
                rows.append(["%s: %s" % (name, what), "GB/s"] + ["%.0f" % of(c)[kind] for c in columns])
    table(["ceiling", ""] + [of_threads(c["threads"]) for c in columns], rows)


def products(cases, wanted):
    """A line for each kind of product, few rows for each number of them: least, median, most share of its shapes."""
    if not cases:
        return
    threads, groups = threads_of(cases), {}
    for case in cases:
        few = ", m %d" % case["m"] if case["variant"] == "few rows" else ""
        name = "`%s`%s%s" % (name_of(case), few, "" if case["dtype"] == "f32" else " " + case["dtype"])
        groups.setdefault(name, {}).setdefault(case["threads"], []).append(case)
    print("Products: least, median and most share over the shapes of a kind.\n")
    rows = []
    for name, by in groups.items():
        row = [name, str(max(len(found) for found in by.values()))]
        for t in threads:
            shares = [case["share"] for case in by.get(t, [])]
            row.append(percents([min(shares), middle(shares), max(shares)]) if shares else "")
        rows.append(row + [both([wanted.of(by[t][0]) if t in by else None for t in threads])])
    table(["product", "shapes"] + [of_threads(t) for t in threads] + ["wanted"], rows)


def grouped(cases):
    groups = {}
    for case in cases:
        groups.setdefault((name_of(case), shape(case), case["dtype"]), {})[case["threads"]] = case
    return groups


def others(cases, wanted):
    if not cases:
        return
    threads = threads_of(cases)
    head = ["case", "shape"]
    for t in threads:
        head += [of_threads(t), "share"]
    if len(threads) > 1:
        head.append("speed-up")
    rows = []
    for (name, sizes, dtype), by in grouped(cases).items():
        row = ["`%s`%s" % (name, "" if dtype == "f32" else " " + dtype), sizes]
        for t in threads:
            row += [rate(by[t]), "%.0f %%" % (100 * by[t]["share"])] if t in by else ["", ""]
        if len(threads) > 1:
            row.append("%.2f" % speed_up(by, threads, wanted.fma) if len(by) == len(threads) else "")
        rows.append(row + [both([wanted.of(by[t]) if t in by else None for t in threads])])
    table(head + ["wanted"], rows)


def speed_up(by, threads, ceiling):
    """Where arithmetic binds, by the shares: a host that gives one core only for a while takes it from the ceiling beside, too."""
    one, more = by[threads[0]], by[threads[-1]]
    if one["bound"] == more["bound"] == "arithmetic":
        return more["share"] / one["share"] * ceiling[threads[-1]] / ceiling[threads[0]]
    return one["median_s"] / more["median_s"]


def slow_pair(by, wanted):
    """What two threads gain over one where that is less than wanted, in words."""
    if sorted(by) != [1, 2] or not by[1]["bound"] == by[2]["bound"] == "arithmetic":
        return []
    one, two = wanted.of(by[1]), wanted.of(by[2])
    least = min(SPEED_UP, 2 * two / one) if one and two else SPEED_UP
    gain = speed_up(by, [1, 2], wanted.fma)
    return ["%.2f times as fast with 2 threads (%.2f wanted)" % (gain, least)] if gain < least - 0.005 else []


def label(case):
    return "`%s`%s %s" % (name_of(case), "" if case["dtype"] == "f32" else " " + case["dtype"], shape(case))


def below(cases, wanted):
    """Everything that misses what was wanted of it, one line a case."""
    lines = []
    for by in grouped(cases).values():
        missed = ["%.0f %% with %s (%.0f wanted)" % (100 * by[t]["share"], of_threads(t), wanted.of(by[t]))
                  for t in sorted(by) if wanted.misses(by[t])]
        missed += slow_pair(by, wanted)
        if missed:
            lines.append("- %s: %s" % (label(by[min(by)]), "; ".join(missed)))
    for case in cases:
        if case["case"].startswith("layer.") and case.get("heads") == 8:
            same = {size: case.get(size) for size in ("n", "d", "batch", "threads", "dtype")}
            for one in cases:
                if is_a(one, case["case"], {**same, "heads": 1}) and case["median_s"] > (1 + EIGHT_HEADS / 100) * one["median_s"]:
                    lines.append("- %s: %.0f %% longer than with one head, %s (%d allowed)" %
                                 (label(case), 100 * (case["median_s"] / one["median_s"] - 1), of_threads(case["threads"]), EIGHT_HEADS))
    print("Below what was wanted:\n\n%s" % "\n".join(lines) if lines else "Nothing is below what was wanted.")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        everything = json.load(file)
    machine, cases, wanted = everything["machine"], everything["cases"], Wanted(everything)
    dtypes = sorted({case["dtype"] for case in cases}, reverse=True)
    print("## %s, %s\n" % (machine["isa"], "bf16 (f32 where a case has no such form)" if len(dtypes) > 1 else "".join(dtypes)))
    day = datetime.date.fromtimestamp(os.path.getmtime(sys.argv[1])).isoformat()
    print("%s, %s, %d cores; qkv %s, %s; %s. Shares of the ceilings of the same instructions.\n" %
          (machine["cpu"], machine["isa"], machine["cores_allowed"], machine["version"], machine["build"], day))
    ceilings(machine)
    products([case for case in cases if case["case"].startswith("gemm.")], wanted)
    others([case for case in cases if not case["case"].startswith("gemm.")], wanted)
    below(cases, wanted)


main()
