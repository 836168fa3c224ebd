"""What the compared Python programs share: a line of name=value words in, seconds of a pass and megabytes in large pages out (or "- why
not").

qkv asks for large pages for every block from 4 MiB on, so the others get them as well. What an allocator asks for itself (run.sh,
THP_MEM_ALLOC_ENABLE) is not everything: the packing buffers of MKL and OpenBLAS, the arena of ONNX Runtime and the tensors of an older
PyTorch are left. So large_pages() does it from outside after the first pass of a case, for every private block of 4 MiB or more, whoever
allocated it. The answer tells how much of the process is in large pages, so that it can be seen to work."""
import ctypes
import gc
import os
import re
import sys
import time

LARGE = 1 << 21
HUGEPAGE, COLLAPSE = 14, 25  # madvise: for what comes; for what is there (Linux 6.1 and later; refused by others, which is no harm)


def large_pages():
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps", encoding="utf-8") as maps:
        lines = maps.read().splitlines()
    for line in lines:
        start, end, rights, inode, name = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ (\d+) *(.*)", line).groups()
        if inode != "0" or not rights.startswith("rw") or name not in ("", "[heap]"):
            continue
        first, last = -(-int(start, 16) // LARGE) * LARGE, int(end, 16) // LARGE * LARGE
        if last - first >= 2 * LARGE:
            libc.madvise(first, last - first, HUGEPAGE)
            for page in range(first, last, LARGE):  # one by one: it gives up at the first that has nothing in it
                libc.madvise(page, LARGE, COLLAPSE)


def large_mb():
    """Megabytes of this process in large pages; -1 where the system does not tell."""
    try:
        with open("/proc/self/smaps_rollup", encoding="utf-8") as file:
            return int(re.search(r"AnonHugePages: +(\d+)", file.read()).group(1)) // 1024
    except (OSError, AttributeError):
        return -1


def once(run):
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def measure(run, seconds, warm):
    """Median of passes until `seconds` are over, at least three unless they take six times as long. One before is not counted: caches
    are another program's by then. Not so where a pass takes longer than caches matter, and there was one in an earlier turn."""
    if warm is None or warm < 0.5:
        once(run)
    times, begun = [], time.perf_counter()
    while not times or time.perf_counter() - begun < (6 * seconds if len(times) < 3 else seconds):
        times.append(once(run))
    return sorted(times)[len(times) // 2]


class Turns:
    """Keeps the case of the last turn, as a case comes several times in a row."""

    def __init__(self, cases):
        self.cases = cases
        self.key = self.run = self.warm = None

    def take(self, words):
        name, seconds = words.pop("case"), float(words.pop("seconds", 0.5))
        key = (name, sorted(words.items()))
        if key != self.key:
            self.key = self.run = self.warm = None
            gc.collect()
            if name not in self.cases:
                raise ValueError("no such thing in it")
            self.run = self.cases[name]({word: value if word == "variant" else int(value) for word, value in words.items()})
            first = once(self.run)
            large_pages()
            self.key, self.warm = key, first
            if seconds == 0:
                return first
        took = measure(self.run, seconds, self.warm)
        self.warm = took
        return took


def serve(cases):
    """`cases`: name -> function(sizes) that returns what a pass is."""
    turns = Turns(cases)
    for line in sys.stdin:
        words = dict(word.split("=", 1) for word in line.split())
        try:
            answer = "%.9g %d" % (turns.take(words), large_mb())
        except Exception as error:  # the table says it instead of the number
            answer = "- " + (" ".join(str(error).split())[:200] or type(error).__name__)
        print(answer, flush=True)


def pin(processor):
    """The calling thread to one of the processors that this process may use, by number."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[processor % len(allowed)]})
