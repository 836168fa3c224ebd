#!/bin/sh
# Quality of the default classifier: trains with seeds 1..SEEDS (3), tests, and prints a table in Markdown.
#
#     bench/quality.sh WORKDIR NAME:TRAIN:DEV:TEST ...
#
# DEV may be empty: one row in ten of TRAIN is held out then. QKV names the program (qkv on the PATH), OPTIONS further options of
# the training. A run that is in WORKDIR already is not made again, so an interrupted table can be gone on with.
set -eu
export LC_ALL=C

if [ $# -lt 2 ]; then
    echo "usage: $0 WORKDIR NAME:TRAIN:DEV:TEST ..." >&2
    exit 2
fi
qkv=${QKV:-qkv}
work=$1
shift
mkdir -p "$work"

field() { sed -n "s/^ *\"$2\": \([-0-9.e]*\),*\$/\1/p" "$1" | head -n 1; }

one() { # NAME SEED TRAIN DEV TEST
    model=$work/$1.$2
    [ -s "$model.test" ] && return
    begun=$(date +%s)
    # shellcheck disable=SC2086
    "$qkv" train classify "$3" ${4:+"$4"} -o "$model" --seed "$2" ${OPTIONS:-} --json > "$model.train" 2> "$model.err"
    echo "\"whole\": $(($(date +%s) - begun))" >> "$model.train"
    "$qkv" test "$model" "$5" --bootstrap 0 --json > "$model.part" 2> "$model.err"
    mv "$model.part" "$model.test"
}

echo "| data | rows to train on | test accuracy, seeds 1 to ${SEEDS:-3} | mean | standard deviation | ECE | training, with reading and dev rows, seconds |"
echo "| --- | ---: | --- | ---: | ---: | ---: | ---: |"
for set in "$@"; do
    name=${set%%:*} rest=${set#*:}
    train=${rest%%:*} rest=${rest#*:}
    dev=${rest%%:*} test=${rest#*:}
    seed=1
    while [ "$seed" -le "${SEEDS:-3}" ]; do
        one "$name" "$seed" "$train" "$dev" "$test"
        model=$work/$name.$seed
        echo "$(field "$model.train" train_rows) $(field "$model.test" accuracy) $(field "$model.test" ece) $(field "$model.train" whole)"
        seed=$((seed + 1))
    done | awk -v name="$name" '{
        rows = $1; a[NR] = 100 * $2; sum += a[NR]; ece += $3; seconds += $4
    } END {
        mean = sum / NR
        for (i = 1; i <= NR; i++) { list = list sprintf("%s%.2f", i > 1 ? ", " : "", a[i]); v += (a[i] - mean) ^ 2 }
        sd = NR > 1 ? sqrt(v / (NR - 1)) : 0
        printf "| %s | %d | %s | %.2f | %.2f | %.3f | %.0f |\n", name, rows, list, mean, sd, ece / NR, seconds / NR
    }'
done
