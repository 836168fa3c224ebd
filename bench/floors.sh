#!/bin/sh
# qkv against what the machine could do: every case of `qkv bench`, as a Markdown table.
#
#     bench/floors.sh OUT [ARGUMENTS]      ARGUMENTS of qkv bench: --quick, attention, --dtype bf16, ...
#
# BUILD: the build folder with the program (build/release). Takes about ten minutes without --quick.
set -eu
[ $# -ge 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../build/release}
out=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/qkv" bench "$@" --json "$work/results.json"
python3 "$here/floors.py" "$work/results.json" > "$out"
