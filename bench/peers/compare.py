"""Runs the cases of bench/peers through qkv and the others in turn (ours, theirs, ours, theirs ...) and writes a Markdown table.

    compare.py OUT THREADS FILTER NAME=COMMAND ...      the first command is ours

Each program is started once and waits, idle, for its turn. A cell is the median, pair by pair, of their time / ours."""
import datetime
import os
import shlex
import subprocess
import sys
import time

CASES = (
    [("gemm.nt m=%d n=%d k=%d" % shape, 0.4) for shape in
     [(8192, 512, 512), (8192, 1536, 512), (8192, 2048, 512), (8192, 512, 2048), (8192, 3072, 768), (1024, 2048, 512), (128, 2048, 512), (8, 2048, 512), (1, 2048, 512)]]
    + [("gemm.tn m=%d n=%d k=%d" % shape, 0.4) for shape in [(512, 512, 8192), (2048, 512, 8192), (3072, 768, 8192)]]
    + [("attention.%s n=%d d=64 heads=8%s" % (way, n, more), 0.5) for way in ("forward", "backward")
       for n, more in ((512, ""), (1024, ""), (4096, ""), (1024, " variant=causal"), (4096, " variant=causal"))]
    + [("layer.%s n=1024 d=512 heads=%d batch=32%s" % (way, heads, more), 0.3) for way in ("forward", "both")
       for heads, more in ((8, ""), (1, " variant=one_head"))]
    + [("recurrence.%s%s n=512 d=512 batch=32" % (cell, way), 0.3) for cell in ("lstm", "gru", "rnn") for way in ("", "-both")]
    + [("train.step n=512 d=512 heads=8 batch=16 layers=6 ffn=2048", 0.3),
       ("train.step n=256 d=256 heads=4 layers=4 ffn=1024 variant=ragged shortest=10 tokens=8192", 0.3),
       ("predict.encoder n=128 d=768 heads=12 batch=8 layers=12 ffn=3072", 0.7),
       ("predict.encoder n=16 d=768 heads=12 batch=1 layers=12 ffn=3072", 0.5)]
)
PAIRS = int(os.environ.get("PAIRS", 5))


class Peer:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, case, seconds):
        """The numbers of the answer, or a reason."""
        time.sleep(0.03)  # the threads of the one before go to sleep
        self.process.stdin.write("case=%s seconds=%g\n" % (case, seconds))
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            return "ended"
        if answer[0] == "-":
            return " ".join(answer[1:])
        return [float(word) for word in answer]


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def compare(ours, peer, case, seconds, results):
    """Ratios of the pairs, or the reason why there are none."""
    first = peer.turn(case, 0)
    if isinstance(first, str):
        return first
    ratios = []
    pairs = PAIRS if first[0] < 1 else min(3, PAIRS)
    for _ in range(pairs):
        mine = ours.turn(case, seconds)
        if isinstance(mine, str):
            return "ours: " + mine
        theirs = peer.turn(case, seconds)
        if isinstance(theirs, str):
            return theirs
        results.append(mine)
        ratios.append(theirs[0] / mine[0])
    return ratios


def row(ours, peers, case, seconds):
    results, cells = [], []
    for peer in peers:
        ratios = compare(ours, peer, case, seconds, results)
        if isinstance(ratios, str):
            if ratios != "no such thing in it":
                print("%s: %s: %s" % (peer.name, case, ratios), file=sys.stderr)
            cells.append("" if ratios == "no such thing in it" else "failed")
        else:
            cells.append("%.2f" % median(ratios))
    if not results:
        return None
    rate = 1e-9 * median([flops / t for t, _, flops in results])
    share = 100 * median([share for _, share, _ in results])
    name, _, shape = case.partition(" ")
    return ["`%s`" % name, shape.replace("=", " ").replace("variant ", "").replace("_", " "), "%.0f" % rate, "%.0f %%" % share, *cells]


def write(out, threads, peers, rows):
    """The table so far; who has no number is not in it."""
    head = ["case", "shape", "GFLOP/s", "share", *(peer.name for peer in peers)]
    shown = [i for i in range(len(head)) if i < 4 or any(row[i] for row in rows)]
    with open(out, "w", encoding="utf-8") as file:
        file.write("%s threads, %s. GFLOP/s and share of the FMA peak: qkv. The others: their time / ours, median of pairs run in turn; "
                   "above 1 qkv is faster.\n\n" % (threads, datetime.date.today().isoformat()))
        file.write("| %s |\n| %s |\n" % (" | ".join(head[i] for i in shown), " | ".join("---:" if i > 1 else "---" for i in shown)))
        for row in rows:
            file.write("| %s |\n" % " | ".join(row[i] for i in shown))


def main():
    out, threads, only, commands = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    ours, *peers = [Peer(*command.split("=", 1)) for command in commands]
    for peer in [ours, *peers]:
        peer.turn("none", 0)  # it answers when it is up, so that nobody starts while another is measured
    cases = [(case, seconds) for case, seconds in CASES if only in case]
    rows = []
    for number, (case, seconds) in enumerate(cases):
        print("%d of %d  %s" % (number + 1, len(cases), case), file=sys.stderr)
        cells = row(ours, peers, case, seconds)
        if cells:
            rows.append(cells)
        write(out, threads, peers, rows)
    for peer in [ours, *peers]:
        peer.process.stdin.close()
        peer.process.wait()


main()
