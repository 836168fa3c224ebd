#!/bin/sh
# qkv against what the machine could do: every case of `qkv bench`, as Markdown tables.
#
#     bench/floors.sh OUT [ARGUMENTS]                   ARGUMENTS of qkv bench: --quick, attention, --threads 1, ...
#     bench/floors.sh OUT --dtype bf16                  in bf16
#     QKV_ISA=avx2 bench/floors.sh OUT                  with the kernels of another instruction set, beside the ceilings of that
#
# BUILD: the build folder with the program (build/release). Takes about ten minutes without --quick. The numbers stay in OUT.json;
# `python3 bench/floors.py OUT.json` writes the tables again. After Ctrl-C, OUT has the cases that are done. What the tables mean, and
# which targets they are held against, is in floors.py.
set -eu
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../build/release}
out=$1
shift
trap : INT TERM # the program ends in its own way and writes what it has
rm -f "$out.json"
ended=0
"$build/qkv" bench "$@" --json "$out.json" || ended=$?
[ -s "$out.json" ] || { echo "$0: nothing was measured" >&2; exit "$((ended ? ended : 1))"; }
python3 "$here/floors.py" "$out.json" > "$out"
exit "$ended"
