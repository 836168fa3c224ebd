# The 30-line classifier answers as the program does: one line out for one line in, the same labels.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk 'BEGIN {
    split("apple pear plum cherry grape", fruit, " ")
    split("copper iron zinc silver lead", metal, " ")
    for (i = 0; i < 200; i++)
        if (i % 2) print "fruit\tthe " fruit[i % 5 + 1] " and a ripe " fruit[int(i / 3) % 5 + 1]
        else print "metal\tsome " metal[i % 5 + 1] " with cold " metal[int(i / 3) % 5 + 1]
}' > "$work/train.tsv"
"$QKV_BUILD/qkv" train classify "$work/train.tsv" -o "$work/model" --size tiny --steps 20 --vocab 300 > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
printf 'a ripe plum\n\ncold iron\r\n\377\376 not UTF-8\nthe cherry and a ripe pear' > "$work/lines"
"$QKV_BUILD/examples/classify" "$work/model" < "$work/lines" > "$work/example"
"$QKV_BUILD/qkv" predict "$work/model" "$work/lines" > "$work/program"
[ "$(wc -l < "$work/example")" -eq 5 ] || { echo "5 lines in, not 5 out:"; cat "$work/example"; exit 1; }
cut -f1 "$work/example" | diff - "$work/program"
if "$QKV_BUILD/examples/classify" "$work/train.tsv" < "$work/lines" 2> "$work/refused"; then
    echo "took a TSV for a model"
    exit 1
fi
[ -s "$work/refused" ] || { echo "refused without a reason"; exit 1; }
if [ -c /dev/full ] && "$QKV_BUILD/examples/classify" "$work/model" < "$work/lines" 2> "$work/refused" > /dev/full; then
    echo "lost its output without a word"
    exit 1
fi
[ -s "$work/refused" ] || { echo "a full disk without a reason"; exit 1; }
cut -f1 "$work/example" | tr '\n' ' '
echo
