# The example prints what attention.txt says, and attention.awk comes to the same numbers by the formula.
set -eu
"$QKV_BUILD/examples/attention" | diff "$QKV_SOURCE/tests/examples/attention.txt" -
awk -f "$QKV_SOURCE/tests/examples/attention.awk" | diff "$QKV_SOURCE/tests/examples/attention.txt" -
echo "as expected"
