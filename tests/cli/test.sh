# qkv test
. "$(dirname "$0")/lib.sh"
dev=$QKV_MODELS/dev.tsv

run 0 test "$model" "$dev" --threads 1
has out '^120 rows, 3 classes'
has out '^accuracy +[0-9.]+ %$'
has out '^macro F1 +[0-9.]+ %$'
has out '^micro F1 +[0-9.]+ %$'
has out '^class +precision +recall +F1 +rows +predicted$'
has out '^deep blue +[0-9.]+ % +[0-9.]+ % +[0-9.]+ % +[0-9]+ +[0-9]+$'
has out '^tokens +accuracy +rows$'
has out '^[0-9]+ to [0-9]+ +[0-9.]+ % +[0-9]+$'
hasnt out 'does not know'
empty err

# The figures of the table are those that `predict` gives.
run 0 test "$model" "$dev" --json --threads 1
accuracy=$(json out accuracy)
is rows "$(json out rows)" 120
"$QKV" predict "$model" "$QKV_MODELS/texts.txt" --threads 1 > got
right=$(cut -f 1 "$dev" | paste - got | awk -F '\t' '$1 == $2' | wc -l)
is "accuracy by hand" "$(awk -v r="$right" 'BEGIN { printf "%.6f", r / 120 }')" "$(awk -v a="$accuracy" 'BEGIN { printf "%.6f", a }')"
is "micro F1" "$(json out micro_f1)" "$accuracy"
is "support" "$(json out classes.0.rows)" "$(grep -c "^$(json out classes.0.label)	" "$dev")"
is "predicted" "$(json out classes.0.predicted)" "$(grep -c "^$(json out classes.0.label)\$" got)"
at_least "loss" "$(json out loss)" 0.000001

# Labels that the model does not know are named, and are errors.
{ cat "$dev"; printf 'pink\trose sea\npink\tleaf\nred \trose\n'; } > more.tsv
run 0 test "$model" more.tsv --threads 1
has out 'does not know'
has out '^  pink +2 rows$'
has out '^  red  +1 row$'
run 0 test "$model" more.tsv --json --threads 1
is "rows" "$(json out rows)" 123
is "unseen" "$(json out unseen_labels.0.rows)" 2
is "accuracy with three more errors" "$(json out accuracy | awk '{ printf "%.6f", $1 * 123 }')" \
    "$(awk -v a="$accuracy" 'BEGIN { printf "%.6f", a * 120 }')"

# Standard input, gzip, long rows.
"$QKV" test "$model" - --json --threads 1 < "$dev" > out 2> err || fail "standard input"
is accuracy "$(json out accuracy)" "$accuracy"
gzip -c "$dev" > dev.gz
run 0 test "$model" dev.gz --json --threads 1
is accuracy "$(json out accuracy)" "$accuracy"
{ printf 'red\t'; for i in $(seq 200); do printf 'rose '; done; echo; } > long.tsv
run 0 test "$model" long.tsv --json --threads 1
is "cut rows" "$(json out cut_rows)" 1
run 0 test "$model" long.tsv --threads 1
has out '^1 row, 3 classes'
has out '^1 row longer than the model reads'

hasnt out '([0-9,]+) to \1 '

# Refusals.
run 1 test "$model" nowhere.tsv
has err 'nowhere.tsv: No such file'
run 1 test nowhere "$dev"
has err 'nowhere: No such file'
: > none.tsv
run 1 test "$model" none.tsv
has err 'none.tsv'
printf 'red\trose\nno tab\n' > bad.tsv
run 1 test "$model" bad.tsv
has err 'bad.tsv:2: '
empty out
run 1 test "$dev" "$dev"
has err 'dev.tsv: '
head -c 5000 "$model" > short
run 1 test short "$dev"
has err 'short: '
cp "$model" damaged
printf 'X' | dd of=damaged bs=1 seek=$(($(wc -c < damaged) - 100)) conv=notrunc 2> /dev/null
run 1 test damaged "$dev"
has err 'damaged: .*checksum'
: > nothing
run 1 test nothing "$dev"
run 1 test "$work" "$dev"
finish
