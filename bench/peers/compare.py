"""Runs cases through qkv and the others in turn and writes Markdown tables: run.sh calls it.

    compare.py OUT THREADS PROGRAMS [CASE...]      PROGRAMS: a file of lines NAME=COMMAND; the first is ours

Each program is started once and waits, idle, for its turn. A round is one of theirs, ours, another of theirs, and the next round the
other way about, so that every turn of theirs lies right beside one of ours. A cell is the median over these pairs of their time / ours.

Every case that is finished is one line of JSON in OUT.jsonl, and OUT is written from these lines, one table for each number of threads. So
whatever ends the run, Ctrl-C or a peer that dies, takes nothing along, and the same command goes on where it ended: what has its numbers is
not measured again. Another qkv, another machine: begin with another OUT. CASE: names, or patterns of names or of the lines below, as in
gemm, 'recurrence.gru*', '*n=4096*'."""
import fnmatch
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date
from select import select

PAIRS = int(os.environ.get("PAIRS", 5))
LONGEST = float(os.environ.get("PEERS_LONGEST", 300))  # seconds that a turn may take; then the peer counts as dead
NOT_IN_IT = "no such thing in it"

GEMM = [("nt", 8192, 512, 512), ("nt", 8192, 1536, 512), ("nt", 8192, 2048, 512), ("nt", 8192, 512, 2048), ("nt", 8192, 3072, 768),
        ("nt", 1024, 2048, 512), ("nt", 128, 2048, 512), ("nt", 8, 2048, 512), ("nt", 1, 2048, 512), ("nn", 8192, 2048, 512),
        ("nn", 8192, 512, 2048), ("tn", 512, 512, 8192), ("tn", 2048, 512, 8192), ("tn", 3072, 768, 8192)]
ATTENTION = ["n=512 d=64 heads=8", "n=1024 d=64 heads=8", "n=4096 d=64 heads=8", "n=4096 d=32 heads=8", "n=4096 d=128 heads=8",
             "n=1024 d=64 heads=8 variant=causal", "n=4096 d=64 heads=8 variant=causal", "n=4096 d=64 heads=8 variant=window window=64",
             "n=128 d=64 heads=8 batch=16", "n=95 d=64 heads=8 variant=ragged shortest=33 tokens=2048",
             "n=1024 d=64 heads=1 variant=one_head", "n=1024 d=64 heads=8 variant=dropout"]
# A case and the seconds of a turn.
CASES = (
    [("gemm.%s m=%d n=%d k=%d" % product, 0.2) for product in GEMM]
    + [("attention.%s %s" % (way, sizes), 0.4) for sizes in ATTENTION for way in ("forward", "backward")]
    + [("attention.decode n=4096 d=64 heads=8%s" % more, 0.3) for more in ("", " layout=1")]
    + [("pointwise.%s" % case, 0.4) for case in ("norm n=32768 d=512", "gelu n=8192 d=2048", "adamw n=32768 d=512")]
    + [("layer.%s n=1024 d=512 heads=%s batch=32" % (way, heads), 0.3)
       for way in ("forward", "both") for heads in ("8", "1 variant=one_head")]
    + [("recurrence.%s%s n=512 d=512 batch=32" % (cell, way), 0.3) for cell in ("lstm", "gru", "rnn") for way in ("", "-both")]
    + [("train.step n=512 d=512 heads=8 batch=16 layers=6 ffn=2048", 0.3),
       ("train.step n=256 d=256 heads=4 layers=4 ffn=1024 variant=ragged shortest=10 tokens=8192", 0.3),
       ("predict.encoder n=128 d=768 heads=12 batch=8 layers=12 ffn=3072", 0.5),
       ("predict.encoder n=16 d=768 heads=12 batch=1 layers=12 ffn=3072", 0.5)]
)


class Dead(Exception):
    """The peer ended, or did not answer; the text says how."""


class Peer:
    def __init__(self, name, command):
        self.name, self.command, self.gone = name, command, None
        self.process = None
        self.start()

    def start(self):
        """It answers when it is up, so that nobody starts while another is measured. Ctrl-C is for this program alone."""
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(shlex.split(self.command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        try:
            self.ask("case=none seconds=0")
        except Dead as dead:
            self.gone = "does not start: %s" % dead

    def end(self):
        """How it ended, with the last line that it wrote about it."""
        how = "no answer for %.0f s" % LONGEST
        if self.process.poll() is None:
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
        code = self.process.wait()
        if code == -signal.SIGKILL:
            how = "killed (%s, or out of memory)" % how
        elif code < 0:
            how = "ended by %s" % signal.Signals(-code).name
        else:
            how = "ended with code %d" % code
        self.log.seek(0)
        said = [line for line in self.log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return how + (": " + " ".join(said[-1].split())[:160] if said else "")

    def ask(self, line):
        try:
            self.process.stdin.write((line + "\n").encode())
            self.process.stdin.flush()
            if select([self.process.stdout], [], [], LONGEST)[0]:
                answer = self.process.stdout.readline().decode("utf-8", "replace").split()
                if answer:
                    return answer
        except OSError:
            pass
        raise Dead(self.end())

    def turn(self, case, seconds):
        """The numbers of the answer, or a reason."""
        if self.gone:
            raise Dead(self.gone)
        if self.process.poll() is not None:
            self.start()  # it died in a case before: that case is its only loss
            if self.gone:
                raise Dead(self.gone)
        time.sleep(0.03)  # the threads of the one before go to sleep
        answer = self.ask("case=%s seconds=%g" % (case, seconds))
        return " ".join(answer[1:]) if answer[0] == "-" else [float(word) for word in answer]

    def forget(self):
        """What it keeps of a case is given back."""
        if not self.gone and self.process.poll() is None:
            try:
                self.ask("case=none seconds=0")
            except Dead:
                pass

    def close(self):
        self.process.kill()
        self.process.wait()


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


class Ours(Exception):
    """qkv itself has not got the case, or failed."""


def of_ours(ours, case, seconds):
    try:
        answer = ours.turn(case, seconds)
    except Dead as dead:
        raise Ours(str(dead)) from None
    if isinstance(answer, str):
        raise Ours(answer)
    return answer


class Side:
    """A peer in a case."""

    def __init__(self, peer):
        self.peer, self.answers, self.ratios, self.said = peer, [], [], None

    def turn(self, case, seconds):
        """True where there is a number; else it is out, and why is kept."""
        if self.said is None:
            try:
                answer = self.peer.turn(case, seconds)
                if isinstance(answer, str):
                    self.said = {"none": True} if answer == NOT_IN_IT else {"failed": answer}
                else:
                    self.answers.append(answer)
            except Dead as dead:
                self.said = {"failed": str(dead)}
        return self.said is None

    def found(self):
        """What the file keeps."""
        if self.said:
            return self.said
        answers = self.answers[1:]  # the first only tells how long it takes
        return {"ratio": round(median(self.ratios), 4), "least": round(min(self.ratios), 4), "most": round(max(self.ratios), 4),
                "pairs": len(self.ratios), "seconds": median([answer[0] for answer in answers]), "large_mb": answers[-1][1]}


def rounds(ours, sides, case, seconds, mine):
    """Two peers, or one, around ours; qkv's answers are added to `mine`."""
    longest = max(side.answers[0][0] for side in sides)
    if longest >= 0.3:
        seconds = 0.1  # a pass or two are a turn
    for number in range(PAIRS if longest < 0.5 else min(3, PAIRS) if longest < 4 else min(2, PAIRS)):
        order = sides if number % 2 == 0 else sides[::-1]
        before = order[:1] if order[0].turn(case, seconds) else []
        one = of_ours(ours, case, seconds)
        mine.append(one)
        for side in before + [side for side in order[1:] if side.turn(case, seconds)]:
            side.ratios.append(side.answers[-1][0] / one[0])
        if all(side.said for side in sides):
            break


def measure(ours, peers, case, seconds):
    """The line of a case."""
    line = {"case": case, "date": date.today().isoformat(), "peers": {}}
    mine, begun, sides = [], time.time(), [Side(peer) for peer in peers]
    try:
        waiting = list(sides)
        while waiting:
            pair = []
            while waiting and len(pair) < 2:
                side = waiting.pop(0)
                if side.turn(case, 0):
                    pair.append(side)
            if pair:
                rounds(ours, pair, case, seconds, mine)
            for side in pair:
                side.peer.forget()
        for side in sides:
            line["peers"][side.peer.name] = found = side.found()
            if "failed" in found:
                print("%s: %s: %s" % (side.peer.name, case, found["failed"]), file=sys.stderr)
        if not mine:
            mine.append(of_ours(ours, case, seconds))
        of = [median([answer[i] for answer in mine]) for i in range(5)]
        line["ours"] = {"seconds": of[0], "share": of[1], "gflops": 1e-9 * of[2] / of[0], "gbs": 1e-9 * of[3] / of[0],
                        "bound": "bytes" if of[4] > 0.5 else "arithmetic"}
    except Ours as why:
        print("qkv: %s: %s" % (case, why), file=sys.stderr)
        line["ours"], line["peers"] = {"failed": str(why)}, {}
    line["took"] = round(time.time() - begun, 1)
    return line


class Results:
    """The lines of OUT.jsonl; of a case the latest, with what earlier ones have of other peers."""

    def __init__(self, out):
        self.out, self.path, self.lines = out, out + ".jsonl", {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                for text in file:
                    try:
                        self.take(json.loads(text))
                    except ValueError:  # half a line, of a run that was killed
                        pass

    def take(self, line):
        before = self.lines.get((line["threads"], line["case"]))
        if before:
            line["peers"] = {**before["peers"], **line["peers"]}
            if "failed" in line["ours"] and "failed" not in before["ours"]:
                line["ours"] = before["ours"]
        self.lines[line["threads"], line["case"]] = line

    def add(self, line):
        with open(self.path, "a+b") as file:
            if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                file.write(b"\n")
            file.write(json.dumps(line).encode() + b"\n")
        self.take(line)

    def wanting(self, threads, case, peers):
        """Who has no number for the case yet. What failed is tried again."""
        line = self.lines.get((threads, case))
        if not line or "failed" in line["ours"]:
            return peers
        return [peer for peer in peers if "failed" in line["peers"].get(peer.name, {"failed": ""})]

    def write(self, about):
        if not self.lines:
            return
        new = self.out + ".new"
        with open(new, "w", encoding="utf-8") as file:
            for threads in sorted({threads for threads, _ in self.lines}):
                lines = [self.lines[threads, case] for case, _ in CASES if (threads, case) in self.lines]
                if lines:
                    file.write(table(threads, about, lines))
        os.replace(new, self.out)


def shape_of(case):
    name, _, sizes = case.partition(" ")
    words = []
    for word in sizes.split():
        size, value = word.split("=")
        if size == "variant":
            words.append(value.replace("_", " ") if value != "window" else "")
        elif size == "layout":
            words.append("layout heads")
        else:
            words.append("%s %s" % (size, value) if size != "window" else "window %s,%s" % (value, value))
    return name, " ".join(filter(None, words))


class Notes:
    """Reasons below a table: one number for what a peer says in several cases."""

    def __init__(self):
        self.where = {}

    def mark(self, who, reason, where):
        self.where.setdefault((who, reason), []).append(where)
        return "failed (%d)" % (1 + list(self.where).index((who, reason)))

    def lines(self):
        return ["- (%d) %s, %s%s: %s" % (i + 1, who, where[0], ", and %d more" % (len(where) - 1) if len(where) > 1 else "", reason)
                for i, ((who, reason), where) in enumerate(self.where.items())]


def cell(found, peer, what, notes, behind):
    if found is None:
        return ""
    if "none" in found:
        return "–"
    if "failed" in found:
        return notes.mark(peer, found["failed"], what)
    if found["ratio"] < 0.995:
        behind.append("- %s: %s %.2f (pairs %.2f to %.2f)" % (what, peer, found["ratio"], found["least"], found["most"]))
    return "%.2f" % found["ratio"]


def table(threads, about, lines):
    names = []
    for line in lines:
        names += [name for name in line["peers"] if name not in names]
    notes, rows, behind = Notes(), [], []
    for line in lines:
        name, shape = shape_of(line["case"])
        what, ours = "`%s` %s" % (name, shape), line["ours"]
        if "failed" in ours:
            mine = [notes.mark("qkv", ours["failed"], what), ""]
        else:
            rate = "%.1f GB/s" % ours["gbs"] if ours["bound"] == "bytes" else "%.0f GFLOP/s" % ours["gflops"]
            mine = [rate, "%.0f %%" % (100 * ours["share"])]
        rows.append(["`%s`" % name, shape, *mine, *(cell(line["peers"].get(peer), peer, what, notes, behind) for peer in names)])
    days = sorted({line["date"] for line in lines})
    head = ["case", "shape", "rate", "share", *names]
    text = ["## %d thread%s" % (threads, "" if threads == 1 else "s"), "",
            "%s; %s. Rate and share of the floor: qkv. The others: their time / ours, median of pairs run in turn; above 1 qkv is faster."
            % (about, " to ".join(sorted({days[0], days[-1]}))), "",
            "| %s |" % " | ".join(head), "| %s |" % " | ".join("---:" if i > 1 else "---" for i in range(len(head)))]
    text += ["| %s |" % " | ".join(row) for row in rows]
    text += ["", "`–`: nothing that the library has. Empty: not measured.%s" % (" failed:" if notes.where else "")]
    text += ["", *notes.lines()] if notes.where else []
    text += ["", "Where another is faster:", "", *behind] if behind else ["", "Nowhere is another faster."]
    return "\n".join(text) + "\n\n"


def picked(patterns):
    """Cases by name, by group, or by a pattern of the name or of the whole line."""
    def is_one(case, pattern):
        name = case.split()[0]
        return name.startswith(pattern + ".") or fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(case, pattern)

    unknown = [p for p in patterns if not any(is_one(case, p) for case, _ in CASES)]
    if unknown:
        sys.exit("compare.py: no case is like %s; they are:\n%s" % (unknown[0], "\n".join(case for case, _ in CASES)))
    return [(case, seconds) for case, seconds in CASES if not patterns or any(is_one(case, p) for p in patterns)]


def stopped(_signal, _frame):
    raise KeyboardInterrupt


def run(results, threads, cases, commands):
    about = commands[0].split("=", 1)[0]
    programs = []
    try:
        for command in commands:
            programs.append(Peer(*command.split("=", 1)))
        ours, *peers = programs
        if ours.gone:
            sys.exit("qkv %s" % ours.gone)
        for peer in peers:
            if peer.gone:
                print("%s %s" % (peer.name, peer.gone), file=sys.stderr)
        for number, (case, seconds) in enumerate(cases):
            wanting = results.wanting(threads, case, peers)
            if peers and not wanting:
                continue
            print("%d of %d  %s" % (number + 1, len(cases), case), file=sys.stderr)
            results.add({"threads": threads, **measure(ours, wanting, case, seconds)})
            results.write(about)
    finally:
        for program in programs:
            program.close()
        results.write(about)


def main():
    out, threads, programs, *patterns = sys.argv[1:]
    cases = picked(patterns)
    with open(programs, encoding="utf-8") as file:
        commands = file.read().splitlines()
    signal.signal(signal.SIGTERM, stopped)
    try:
        run(Results(out), int(threads), cases, commands)
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        sys.exit(130)


main()
