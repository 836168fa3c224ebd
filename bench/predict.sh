#!/bin/sh
# Predictions a second, texts coming from a pipe: qkv, fastText and the network of qkv's model in PyTorch, in turn, as a Markdown table.
#
#     bench/predict.sh TRAIN.tsv TEST.tsv WORKDIR
#
# Trains both programs on TRAIN where WORKDIR has no model of theirs yet (qkv with its defaults and TRAIN_OPTIONS, fastText by
# bench/fasttext.sh), then lets them label the texts of TEST, written again and again until there are LINES of them (20,000; for
# fastText ten times as many, since it is over sooner). Each runs PAIRS times (5), one after the other; a cell is the median.
# `start` is the time of the same command on an empty input, and lines a second are of what remains.
#   fastText    Debian's package fasttext; predicts on one thread. Its texts are lower-cased, punctuation apart, beforehand
#   PyTorch     where PEERS_PYTHON names a Python that has it. The network alone: ids are made beforehand (by qkv's tokenizer), sorted by
#               length, padded to the longest of a batch, masked; weights are random
#   BUILD       qkv's build folder (build/release), with qkv and libqkv.so
#   THREADS     of qkv and PyTorch: a list ("1 2": one, and all cores)
set -eu
export LC_ALL=C
[ $# -eq 3 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../build/release}
work=$3
cores=$(nproc)
threads=${THREADS:-1 $cores}
lines=${LINES:-20000}
pairs=${PAIRS:-5}
qkv=$build/qkv
[ -x "$qkv" ] || { echo "$0: $build has no qkv: build it first, or say BUILD=" >&2; exit 1; }
mkdir -p "$work"
say() { echo "$*" >&2; }

if [ ! -f "$work/qkv.model" ]; then
    # shellcheck disable=SC2086
    "$qkv" train classify "$1" ${TRAIN_OPTIONS:-} -o "$work/qkv.model" >&2
fi
if command -v fasttext > /dev/null; then
    [ -f "$work/model.bin" ] || "$here/fasttext.sh" "$1" "$2" "$work" >&2
else
    say "fastText is left out: it is not here; Debian has it in the package fasttext"
fi

# repeated FILE COUNT: its lines again and again, COUNT of them
repeated() { awk -v most="$2" '{ line[NR] = $0 } END { for (i = 0; NR && i < most; i++) print line[i % NR + 1] }' "$1"; }
unpacked() { case $1 in *.gz) gzip -dc "$1" ;; *) cat "$1" ;; esac }
unpacked "$2" | cut -f 2- > "$work/texts"
repeated "$work/texts" "$lines" > "$work/qkv.in"
if [ -f "$work/test.txt" ]; then
    cut -d ' ' -f 2- "$work/test.txt" > "$work/fasttext.texts"
    repeated "$work/fasttext.texts" $((10 * lines)) > "$work/fasttext.in"
fi

now() { date +%s%N; }
# timed NAME INPUT COMMAND...: seconds of the start, then seconds of all, appended to NAME.times
timed() {
    name=$1 input=$2
    shift 2
    t0=$(now)
    : | "$@" > /dev/null 2>&1
    t1=$(now)
    # shellcheck disable=SC2002
    cat "$input" | "$@" > "$work/$name.out" 2> "$work/$name.err"
    t2=$(now)
    [ "$(wc -l < "$work/$name.out")" = "$(wc -l < "$input")" ] || { say "$name: not one line for each: $(head -n 1 "$work/$name.err")"; exit 1; }
    echo $((t1 - t0)) $((t2 - t1)) >> "$work/$name.times"
}

rm -f "$work"/*.times
for pair in $(seq "$pairs"); do
    for t in $threads; do
        timed "qkv.$t" "$work/qkv.in" "$qkv" predict "$work/qkv.model" --threads "$t"
        for python in ${PEERS_PYTHON:-}; do
            THP_MEM_ALLOC_ENABLE=1 "$python" "$here/peers/predict_torch.py" "$t" "$build/libqkv.so" "$work/qkv.model" "$work/qkv.in" >> "$work/torch.$t.times"
        done
    done
    [ ! -f "$work/model.bin" ] || timed fasttext.1 "$work/fasttext.in" fasttext predict "$work/model.bin" -
done

# row TITLE NAME INPUT
row() {
    [ -f "$work/$2.times" ] || return 0
    start=$(cut -d ' ' -f 1 "$work/$2.times" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
    rest=$(awk '{ print $2 - $1 }' "$work/$2.times" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
    awk -v title="$1" -v t="${2##*.}" -v s="$start" -v r="$rest" -v n="$(wc -l < "$3")" \
        'BEGIN { printf "| %s | %d | %s | %d |\n", title, t, (s > 0 ? sprintf("%.2f s", s / 1e9) : ""), n / (r / 1e9) }'
}
echo "| program | threads | start | lines a second |"
echo "| --- | ---: | ---: | ---: |"
for t in $threads; do
    row "qkv $("$qkv" --version | cut -d ' ' -f 2)" "qkv.$t" "$work/qkv.in"
    row "PyTorch, the network alone" "torch.$t" "$work/qkv.in"
done
row "fastText" fasttext.1 "$work/fasttext.in"
