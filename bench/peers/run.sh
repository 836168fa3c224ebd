#!/bin/sh
# qkv beside OpenBLAS, oneDNN, PyTorch and ONNX Runtime, in turn, as Markdown tables.
#
#     bench/peers/run.sh OUT [CASE...]     CASE: only these: gemm, attention.decode, 'recurrence.gru*', '*n=4096*'
#
# A finished case is a line of OUT.jsonl; the same command goes on from there after Ctrl-C or whatever else. Without CASE, 20 to 25
# minutes for each number of threads. Nothing of the others is needed to build or to test qkv, and what is not there is left out,
# and said:
#   OpenBLAS, oneDNN   Debian: libopenblas-openmp-dev libdnnl-dev
#   PyTorch            Debian: python3-torch; a newer one, and ONNX Runtime, from a virtual environment:
#                      python3 -m venv V; V/bin/pip install torch onnx onnxruntime
#   PEERS_PYTHON       the Pythons that have them, all of these are measured (/usr/bin/python3):
#                      PEERS_PYTHON="/usr/bin/python3 V/bin/python" bench/peers/run.sh peers.md
#   THREADS            how many, or several numbers, one table each (all cores): THREADS="1 2"
#   PAIRS              pairs of turns (5; where a pass takes half a second at most 3, where it takes four at most 2)
#   PEERS_LONGEST      seconds after which a peer that does not answer is given up (300)
#   BUILD              qkv's build folder with libqkv.a (build/release)
#   PEERS_MALLOC       an allocator to preload for PyTorch and ONNX Runtime (libtcmalloc_minimal.so.4 where it is installed)
#
# What is done for the others: the OpenMP builds; threads pinned, one to a core; nothing set that would turn a library to another
# kernel; an allocator that keeps what is freed; and large pages, as qkv asks for them for every block from 4 MiB on, where the
# system gives them on request only (THP `madvise`): turn.h and peer.py ask for them, PyTorch from 2.1 on itself, too, with
# THP_MEM_ALLOC_ENABLE=1. With both, PyTorch 2.15 was up to 20 % faster than with that alone (products: MKL has buffers of its own);
# jemalloc with thp:always is as fast as tcmalloc, the C library with glibc.malloc.hugetlb=1 is not. OUT.jsonl has the megabytes in
# large pages of every peer in every case.
set -eu
[ $# -ge 1 ] || { sed -n '2,/^#   PEERS_MALLOC/s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
shift
build=${BUILD:-$root/build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap : INT # the comparison ends in its own way and writes its table
[ -f "$build/libqkv.a" ] || { echo "$0: $build has no libqkv.a: build qkv first, or say BUILD=" >&2; exit 1; }

unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA ATEN_CPU_CAPABILITY MKL_ENABLE_INSTRUCTIONS QKV_ISA \
    OMP_WAIT_POLICY GOMP_SPINCOUNT GLIBC_TUNABLES || true
export PAIRS="${PAIRS:-5}"
cc=${CC:-cc}
has() { printf '#include <%s>\n' "$1" | "$cc" -E -x c - > /dev/null 2>&1; }
say() { echo "$*" >&2; }

# about NAME PROGRAM: prints its name with version; fails and says why where it is no fair peer.
about() {
    if told=$("$2" about); then
        echo "$told"
    else
        say "$1 is left out: ${told:-it does not run}"
        return 1
    fi
}

# module PYTHON NAME...: the version of the first, where all are there and can be loaded; says which is not.
module() {
    python=$1
    shift
    for name in "$@"; do
        "$python" -c "import $name" 2> "$work/log" || {
            say "$1 of $python is left out: $name: $(tail -n 1 "$work/log")"
            return 1
        }
    done
    "$python" -c "import $1; print($1.__version__.split('+')[0])"
}

"$cc" -O2 -std=gnu17 -I"$root/include" "$here/ours.c" "$build/libqkv.a" -o "$work/ours" -ljansson -lutf8proc -lz -lm -lpthread
ours=$("$work/ours" about)
openblas= onednn=
if ! has cblas.h || ! "$cc" -O2 "$here/openblas.c" -o "$work/openblas" -lopenblas 2> "$work/log"; then
    say "OpenBLAS is left out: libopenblas-openmp-dev is not installed"
elif openblas=$(about OpenBLAS "$work/openblas"); then
    say "$openblas: the OpenMP build"
fi
if ! has dnnl.h || ! "$cc" -O2 "$here/onednn.c" -o "$work/onednn" -ldnnl 2> "$work/log"; then
    say "oneDNN is left out: libdnnl-dev (2.x) is not installed"
else
    onednn=$(about oneDNN "$work/onednn") || true
fi
malloc=${PEERS_MALLOC:-$(ldconfig -p | sed -n 's/.*libtcmalloc_minimal\.so\.4 .*=> //p' | head -n 1)}
[ -n "$malloc" ] || say "no tcmalloc (libtcmalloc-minimal4): PyTorch and ONNX Runtime run with the C library's allocator"
pythons=
for python in ${PEERS_PYTHON:-/usr/bin/python3}; do
    if ! path=$(command -v "$python"); then
        say "$python is left out: there is no such program"
        continue
    fi
    torch=$(module "$path" torch) || torch=
    runtime=$(module "$path" onnxruntime onnx numpy) || runtime=
    pythons="$pythons$path|$torch|$runtime
"
done

for threads in ${THREADS:-$(nproc)}; do
    export OMP_NUM_THREADS="$threads" MKL_NUM_THREADS="$threads" OPENBLAS_NUM_THREADS="$threads"
    pinned="env OMP_PROC_BIND=true OMP_PLACES=cores"
    preload="${malloc:+LD_PRELOAD=$malloc}"
    {
        echo "$ours=$work/ours $threads"
        [ -z "$openblas" ] || echo "$openblas=$pinned $work/openblas $threads"
        [ -z "$onednn" ] || echo "$onednn=$pinned $work/onednn"
        printf %s "$pythons" | while IFS='|' read -r path torch runtime; do
            [ -z "$torch" ] || echo "PyTorch $torch=$pinned THP_MEM_ALLOC_ENABLE=1 $preload $path $here/peer_torch.py $threads"
            [ -z "$runtime" ] || echo "ONNX Runtime $runtime=env $preload $path $here/peer_onnxruntime.py $threads"
        done
    } > "$work/peers"
    /usr/bin/python3 "$here/compare.py" "$out" "$threads" "$work/peers" "$@"
done
cat "$out"
