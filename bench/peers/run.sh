#!/bin/sh
# qkv beside OpenBLAS, oneDNN, PyTorch and ONNX Runtime, in turn, as a Markdown table.
#
#     bench/peers/run.sh OUT [FILTER]      FILTER: only the cases that have this word: gemm, attention, layer, recurrence, train, predict
#
# What is not there is left out, and said. Nothing of it is needed to build or to test qkv.
#   OpenBLAS, oneDNN   Debian: libopenblas-openmp-dev libdnnl-dev
#   PyTorch            Debian: python3-torch; another one where PEERS_PYTHON names Pythons that have it (and onnxruntime, onnx),
#                      as in PEERS_PYTHON="/usr/bin/python3 /tmp/venv/bin/python"
#   THREADS, PAIRS     how many threads (all), and pairs of turns (5; 3 where a turn is long)
#   BUILD              qkv's build folder with libqkv.a (build/release)
#   PEERS_MALLOC       an allocator to preload for PyTorch (libtcmalloc_minimal.so.4 where it is installed)
# Threads are pinned by OpenMP; what would turn OpenBLAS to another kernel is unset.
set -eu
[ $# -ge 1 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
only=${2:-}
build=${BUILD:-$root/build/release}
threads=${THREADS:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -f "$build/libqkv.a" ] || { echo "$0: $build has no libqkv.a: build qkv first, or say BUILD=" >&2; exit 1; }

unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_WAIT_POLICY GOMP_SPINCOUNT || true
export PAIRS="${PAIRS:-5}"
export OMP_NUM_THREADS="$threads" MKL_NUM_THREADS="$threads" OPENBLAS_NUM_THREADS="$threads"
cc=${CC:-cc}
pinned="env OMP_PROC_BIND=true OMP_PLACES=cores"
has() { printf '#include <%s>\n' "$1" | "$cc" -E -x c - > /dev/null 2>&1; }
say() { echo "$*" >&2; }

"$cc" -O2 -std=gnu17 -I"$root/include" "$here/ours.c" "$build/libqkv.a" -o "$work/ours" -ljansson -lutf8proc -lz -lm -lpthread
set -- "qkv=$work/ours $threads"
if has cblas.h && "$cc" -O2 "$here/openblas.c" -o "$work/openblas" -lopenblas 2> "$work/log"; then
    set -- "$@" "OpenBLAS=$pinned $work/openblas $threads"
else
    say "OpenBLAS is left out: libopenblas-openmp-dev is not installed"
fi
if has dnnl.h && "$cc" -O2 "$here/onednn.c" -o "$work/onednn" -ldnnl 2> "$work/log"; then
    set -- "$@" "oneDNN=$pinned $work/onednn"
else
    say "oneDNN is left out: libdnnl-dev (2.x) is not installed"
fi
malloc=${PEERS_MALLOC:-$(ldconfig -p | sed -n 's/.*libtcmalloc_minimal\.so\.4 .*=> //p' | head -n 1)}
[ -n "$malloc" ] || say "no tcmalloc: PyTorch runs with the C library's allocator"
for python in ${PEERS_PYTHON:-/usr/bin/python3}; do
    if version=$("$python" -c 'import torch; print(torch.__version__.split("+")[0])' 2> /dev/null); then
        set -- "$@" "PyTorch $version=$pinned ${malloc:+LD_PRELOAD=$malloc} $python $here/peer_torch.py $threads"
    else
        say "PyTorch is left out: $python has none"
    fi
    if version=$("$python" -c 'import onnx, onnxruntime; print(onnxruntime.__version__)' 2> /dev/null); then
        set -- "$@" "ONNX Runtime $version=env ${malloc:+LD_PRELOAD=$malloc} $python $here/peer_onnxruntime.py $threads"
    fi
done
/usr/bin/python3 "$here/compare.py" "$out" "$threads" "$only" "$@"
cat "$out"
