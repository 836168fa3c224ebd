# The training example: tells what it read and how it goes, and saves a model that the program takes; a failure says why.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk 'BEGIN {
    split("apple pear plum cherry grape", fruit, " ")
    split("copper iron zinc silver lead", metal, " ")
    for (i = 0; i < 200; i++)
        if (i % 2) print "fruit\tthe " fruit[i % 5 + 1] " and a ripe " fruit[int(i / 3) % 5 + 1] " " i
        else print "metal\tsome " metal[i % 5 + 1] " with cold " metal[int(i / 3) % 5 + 1] " " i
}' > "$work/rows.tsv"
"$QKV_BUILD/examples/train" "$work/rows.tsv" "$work/model" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -q '^1[0-9]* rows of 2 classes$' "$work/log" || { echo "no word of the data:"; cat "$work/log"; exit 1; }
grep -q '^step 20: accuracy [01]\.[0-9]*' "$work/log" || { echo "no evaluation:"; cat "$work/log"; exit 1; }
printf 'a ripe plum\ncold iron\n' | "$QKV_BUILD/qkv" predict "$work/model" > "$work/labels"
grep -qvx -e fruit -e metal "$work/labels" && { echo "not its labels:"; cat "$work/labels"; exit 1; }
[ "$(wc -l < "$work/labels")" -eq 2 ]
if "$QKV_BUILD/examples/train" "$work/none.tsv" "$work/other" > /dev/null 2> "$work/refused"; then
    echo "trained on a file that is not there"
    exit 1
fi
grep -q 'none.tsv' "$work/refused" || { echo "refused without the name:"; cat "$work/refused"; exit 1; }
if "$QKV_BUILD/examples/train" "$work/rows.tsv" "" > /dev/null 2> "$work/refused"; then
    echo "saved to an empty path"
    exit 1
fi
grep -q 'the path is empty' "$work/refused" || { echo "no clear word of the empty path:"; cat "$work/refused"; exit 1; }
tail -n 1 "$work/log"
