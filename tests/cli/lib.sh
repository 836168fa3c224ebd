# Helpers of the program's transcripts. ctest gives QKV (the program), QKV_JSON (json_tool) and QKV_MODELS (a folder that
# the test cli.model fills). Every check that fails is said; `finish` gives the exit code.
set -u
export LC_ALL=C
unset QKV_ISA TMPDIR 2> /dev/null
: "${QKV:?}" "${QKV_JSON:?}" "${QKV_MODELS:?}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
model=$QKV_MODELS/model
failures=0
checks=0

# Was the program built with the thread sanitizer?
thread_sanitizer() { grep -q __tsan_init "$QKV"; }

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
    [ "$failures" -le 3 ] || return 0 # the first ones say enough
    echo "--- last command: ${last:-none}"
    [ -s out ] && { echo "--- standard output:"; head -c 2000 out; }
    [ -s err ] && { echo "--- standard error:"; head -c 2000 err; }
    echo "---"
}

# run CODE ARGUMENTS...: qkv with these arguments must exit with CODE; its output is left in `out` and `err`. `locale=X run ...` runs it in a locale.
run() {
    local expected=$1 code
    shift
    checks=$((checks + 1))
    last="qkv $*"
    env LC_ALL="${locale:-C}" "$QKV" "$@" > out 2> err
    code=$?
    [ "$code" = "$expected" ] || fail "exit code $code, expected $expected"
}

# has FILE PATTERN: an extended regular expression in a line of the file.
has() {
    checks=$((checks + 1))
    grep -Eq -e "$2" "$1" || fail "$1 has no line like: $2"
}
hasnt() {
    checks=$((checks + 1))
    if grep -Eq -e "$2" "$1"; then fail "$1 has a line like: $2"; fi
}
empty() {
    checks=$((checks + 1))
    [ ! -s "$1" ] || fail "$1 is not empty"
}
same() {
    checks=$((checks + 1))
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}
# is WHAT ACTUAL EXPECTED
is() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: $2, expected $3"
}
# near WHAT ACTUAL LEAST
at_least() {
    checks=$((checks + 1))
    awk -v a="$2" -v b="$3" 'BEGIN { exit !(a + 0 >= b + 0) }' || fail "$1: $2, expected $3 or more"
}
# json FILE PATH: the value at a.b.0 of every JSON document in the file; fails on anything that is not JSON.
json() {
    "$QKV_JSON" "$1" "${2:-}" || fail "$1 is not JSON, or has no ${2:-value}" >&2
}
lines() { wc -l < "$1" | tr -d ' '; }

# wait_for FILE PATTERN PID: until the file has such a line; fails when the process is gone or after two minutes.
wait_for() {
    local i
    for i in $(seq 1200); do
        grep -Eq -e "$2" "$1" 2> /dev/null && return 0
        kill -0 "$3" 2> /dev/null || break
        sleep 0.1
    done
    grep -Eq -e "$2" "$1" 2> /dev/null && return 0
    fail "$1 never had a line like: $2"
    return 1
}

# data ROWS SEED: rows of three classes, each with words of its own among words of all. A label has a space in it.
data() {
    awk -v rows="$1" -v seed="$2" '
        function next_number(n) { seed = (seed * 1103515245 + 12345) % 2147483648; return int(seed / 65536) % n }
        BEGIN {
            split("red|green|deep blue", label, "|")
            split("rose cherry tomato|leaf grass moss|sea sky ink", all, "|")
            for (i = 0; i < rows; i++) {
                c = next_number(3) + 1
                split(all[c], own, " ")
                text = own[next_number(3) + 1]
                for (j = next_number(8) + 3; j > 0; j--)
                    text = text " " (next_number(5) < 2 ? own[next_number(3) + 1] : "word" next_number(40))
                print label[c] "\t" text
            }
        }'
}

finish() {
    if [ "$failures" -gt 0 ]; then
        echo "$failures of $checks checks failed"
        exit 1
    fi
    echo "$checks checks"
}
