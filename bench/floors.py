"""The JSON of `qkv bench --json FILE` as Markdown tables: the ceilings, and each case with one and with all threads."""
import datetime
import json
import sys

SIZES = ("m", "n", "k", "d", "value_d", "heads", "kv_heads", "batch", "layers", "ffn", "global_first", "global_every", "random_blocks",
         "block", "shortest", "tokens", "window", "dropout")


def shape(case):
    words = []
    for name in SIZES:
        value = case.get(name)
        if value is None or (name == "batch" and value == 1):
            continue
        words.append("%s %s" % (name.replace("_", " "), "%d,%d" % tuple(value) if name == "window" else "%g" % value if name == "dropout" else value))
    return " ".join(words)


def rate(case):
    by_bytes = case["bound"] == "bytes"
    return "%.*f %s" % (1 if by_bytes else 0, case["gbs"] if by_bytes else case["gflops"], "GB/s" if by_bytes else "GFLOP/s")


def table(head, rows):
    print("| %s |" % " | ".join(head))
    print("| %s |" % " | ".join("---" if i < 2 else "---:" for i in range(len(head))))
    for row in rows:
        print("| %s |" % " | ".join(row))
    print()


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
    table(["ceiling", ""] + ["%d thread%s" % (c["threads"], "" if c["threads"] == 1 else "s") for c in columns], rows)


def cases(results):
    threads = sorted({case["threads"] for case in results})
    groups = {}
    for case in results:
        name = case["case"] + (", " + case["variant"] if case["variant"] else "")
        groups.setdefault((name, shape(case), case["dtype"]), {})[case["threads"]] = case
    head = ["case", "shape"]
    for t in threads:
        head += ["%d thread%s" % (t, "" if t == 1 else "s"), "share"]
    if len(threads) > 1:
        head.append("speed-up")
    rows = []
    for (name, sizes, dtype), by in groups.items():
        row = ["`%s`%s" % (name, "" if dtype == "f32" else " " + dtype), sizes]
        for t in threads:
            row += [rate(by[t]), "%.0f %%" % (100 * by[t]["share"])] if t in by else ["", ""]
        if len(threads) > 1:
            row.append("%.2f" % (by[threads[0]]["median_s"] / by[threads[-1]]["median_s"]) if len(by) == len(threads) else "")
        rows.append(row)
    table(head, rows)


with open(sys.argv[1], encoding="utf-8") as file:
    everything = json.load(file)
computer = everything["machine"]
print("%s, %s, %d cores; qkv %s, %s; %s.\n" % (computer["cpu"], computer["isa"], computer["cores_allowed"], computer["version"], computer["build"],
                                              datetime.date.today().isoformat()))
ceilings(computer)
cases(everything["cases"])
