"""What the compared Python programs share: a line of name=value words in, seconds of a pass (or "- why not") out."""
import sys
import time


def measure(run, seconds):
    """Median of passes until `seconds` are over, at least three unless they take six times as long. The first is not counted."""
    run()
    times = []
    begun = end = time.perf_counter()
    while not times or end - begun < (6 * seconds if len(times) < 3 else seconds):
        t = time.perf_counter()
        run()
        end = time.perf_counter()
        times.append(end - t)
    return sorted(times)[len(times) // 2]


def serve(cases):
    """`cases`: name -> function(sizes) that returns what a pass is."""
    for line in sys.stdin:
        words = dict(word.split("=", 1) for word in line.split())
        name, seconds = words.pop("case"), float(words.pop("seconds", 0.5))
        sizes = {key: value if key == "variant" else int(value) for key, value in words.items()}
        try:
            if name not in cases:
                raise ValueError("no such thing in it")
            answer = "%.9g" % measure(cases[name](sizes), seconds)
        except Exception as error:  # the table says it instead of the number
            answer = "- " + " ".join(str(error).split())[:200]
        print(answer, flush=True)
