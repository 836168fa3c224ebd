# Layers that others trained (tests/parity/trained.py) through test_recurrent.c; skipped where they or PyTorch are absent.
set -u
models=${QKV_SHARED_MODELS:-$QKV_SOURCE/../shared/models}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python=/usr/bin/python3
[ -x $python ] || { echo "skipped: no $python"; exit 77; }
$python "$QKV_SOURCE/tests/parity/trained.py" "$models" "$out" || exit $?
QKV_PARITY_DATA=$out QKV_TEST_SOURCE=$QKV_SOURCE/tests "$QKV_BUILD/tests/test.parity.recurrent"
