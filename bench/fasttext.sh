#!/bin/sh
# fastText on the same rows, for comparison: precision at 1 of `fasttext supervised` on TEST after training on TRAIN.
#
#     bench/fasttext.sh TRAIN.tsv TEST.tsv [WORKDIR]
#
# Needs Debian's package fasttext; nothing else of qkv does. Text is lower-cased (ASCII) and punctuation is set apart. Settings may be
# changed by the environment: NGRAMS (2), EPOCH (25), LR (0.5), THREADS (as many as there are cores). With more than one
# thread fastText's result changes a little from run to run.
set -eu
export LC_ALL=C

if [ $# -lt 2 ]; then
    echo "usage: $0 TRAIN.tsv TEST.tsv [WORKDIR]" >&2
    exit 2
fi
if ! command -v fasttext > /dev/null; then
    echo "$0: fasttext is not here; Debian has it in the package fasttext" >&2
    exit 1
fi
work=${3:-}
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"

prepare() {
    awk '{
        tab = index($0, "\t")
        label = substr($0, 1, tab - 1)
        text = tolower(substr($0, tab + 1))
        gsub(/[ \t]/, "_", label)
        gsub(/[][!"#$%&\047()*+,.\/:;<=>?@\\^_`{|}~-]/, " & ", text)
        print "__label__" label " " text
    }' "$1"
}
prepare "$1" > "$work/train.txt"
prepare "$2" > "$work/test.txt"
fasttext supervised -input "$work/train.txt" -output "$work/model" -wordNgrams "${NGRAMS:-2}" -epoch "${EPOCH:-25}" \
    -lr "${LR:-0.5}" -thread "${THREADS:-$(nproc)}" -verbose 1
fasttext test "$work/model.bin" "$work/test.txt"
