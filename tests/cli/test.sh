# qkv test
. "$(dirname "$0")/lib.sh"
dev=$QKV_MODELS/dev.tsv

run 0 test "$model" "$dev" --threads 1
has out '^120 rows, 3 classes'
for score in accuracy 'macro F1' 'micro F1' 'weighted F1'; do has out "^$score +[0-9.]+ %  \\([0-9.]+ to [0-9.]+\\)\$"; done
has out '^In brackets: 95 % intervals, by 1,000 resamples of the rows\.$'
has out '^class +precision +recall +F1 +rows +predicted$'
has out '^deep blue +[0-9.]+ % +[0-9.]+ % +[0-9.]+ % +[0-9]+ +[0-9]+$'
has out '^tokens +accuracy +rows$'
has out '^[0-9]+ to [0-9]+ +[0-9.]+ % +[0-9]+$'
has out '^gold . predicted +deep blue +green +red$'
has out '^deep blue +[0-9.]+ +[0-9.]+ +[0-9.]+$'
has out '^probability +mean +accuracy +rows$'
has out '^0\.[0-9]{3} to [01]\.[0-9]{3} +[0-9.]+ % +[0-9.]+ % +[0-9]+$'
has out '^calibration error: expected \(ECE\) [0-9.]+ %, largest \(MCE\) [0-9.]+ %; Brier score [0-9.]+$'
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

# Some labels are swapped, so that there is something to see: one row in six is wrong.
awk -F '\t' 'BEGIN { OFS = "\t"; next_one["red"] = "green"; next_one["green"] = "deep blue"; next_one["deep blue"] = "red" }
    { if (NR % 6 == 0) $1 = next_one[$1]; print }' "$dev" > swapped.tsv
paste swapped.tsv got | awk -F '\t' '{ print $1 "\t" $NF }' > pairs # gold, predicted

run 0 test "$model" swapped.tsv --json --threads 1
is "errors" "$(json out errors)" "$(awk -F '\t' '$1 != $2' pairs | wc -l | tr -d ' ')"
at_least "errors" "$(json out errors)" 15
for i in 0 1 2 3 4; do
    gold=$(json out "confusion.$i.gold") predicted=$(json out "confusion.$i.predicted")
    is "$gold -> $predicted" "$(json out "confusion.$i.rows")" "$(grep -c "^$gold	$predicted\$" pairs)"
done
accuracy_of() { json "$1" accuracy; }
low=$(json out intervals.accuracy.0) high=$(json out intervals.accuracy.1)
awk -v a="$(accuracy_of out)" -v l="$low" -v h="$high" 'BEGIN { exit !(l < a && a < h && h - l > 0.08 && h - l < 0.2) }' ||
    fail "an interval of $low to $high around $(accuracy_of out)" # plus and minus 1.96 sqrt(a (1 - a) / 120), about 0.13 wide
is "level" "$(json out intervals.level)" 0.95
is "resamples" "$(json out intervals.resamples)" 1000
is "bins hold the rows" "$(for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do json out "calibration.bins.$i.rows"; done | awk '{ s += $1 } END { print s }')" 120
is "what the bins are of" "$(json out calibration.of)" rows
# The same seed gives the same intervals, for any number of threads; another one others.
sed '/"seconds"/d' out > first
run 0 test "$model" swapped.tsv --json --threads 3 --seed 1
sed '/"seconds"/d' out > again
same first again
run 0 test "$model" swapped.tsv --json --threads 1 --seed 2
[ "$low $high" != "$(json out intervals.accuracy.0) $(json out intervals.accuracy.1)" ] ||
    [ "$(json first intervals.macro_f1.0)" != "$(json out intervals.macro_f1.0)" ] || fail "two seeds, the same intervals"
run 0 test "$model" swapped.tsv --json --bootstrap 0
is "no intervals" "$(json out intervals)" null
run 0 test "$model" swapped.tsv --bootstrap 0
has out '^accuracy +[0-9.]+ %$'
hasnt out 'resample'

# Wrong rows in a file, the most confident first.
run 0 test "$model" swapped.tsv --errors wrong.tsv --confusion confusion.tsv --threads 1
is "a line a wrong row" "$(lines wrong.tsv)" "$(($(awk -F '\t' '$1 != $2' pairs | wc -l) + 1))"
head -n 1 wrong.tsv > names
printf 'probability\tpredicted\tgold\tgold_probability\tline\ttext\n' > names_expected
same names names_expected
tail -n +2 wrong.tsv | awk -F '\t' 'NF != 6 || (NR > 1 && $1 > before) || $1 < $4 || $2 == $3 { print; bad = 1 } { before = $1 } END { exit bad }' ||
    fail "wrong.tsv is not in order"
tail -n +2 wrong.tsv | while IFS='	' read -r _ predicted gold _ line text; do
    [ "$(sed -n "${line}p" swapped.tsv)" = "$gold	$text" ] || echo "line $line"
    [ "$(sed -n "${line}p" got)" = "$predicted" ] || echo "answer $line"
done > unlike
empty unlike
tail -n +2 confusion.tsv | sort > confusion
sort pairs | uniq -c | awk '{ n = $1; sub(/^ *[0-9]+ /, ""); print $0 "\t" n }' | sort > counted
same confusion counted
run 0 test "$model" swapped.tsv --errors few.tsv --errors-limit 3
head -n 4 wrong.tsv > first_three
same few.tsv first_three
run 0 test "$model" "$dev" --errors few.tsv --bootstrap 0 # the file is replaced
head -n 1 few.tsv > first_three
same first_three names

run 2 test "$model" swapped.tsv --errors -
has err 'the wrong rows cannot go to standard output; give --errors the name of a file'
run 2 test "$model" swapped.tsv --errors swapped.tsv
has err '--errors swapped.tsv would overwrite the data'
run 2 test "$model" swapped.tsv --confusion "$model"
has err 'would overwrite the model'
run 2 test "$model" swapped.tsv --confusion x --errors x
has err '--errors and --confusion name the same file'
run 2 test "$model" swapped.tsv --errors-limit 3
has err '--errors-limit has no effect without --errors$'
run 1 test "$model" swapped.tsv --errors no/such/folder/wrong.tsv
has err 'no/such/folder/wrong.tsv: the wrong rows could not be written there: No such file'
empty out
run 1 test "$model" swapped.tsv --confusion "$work"
has err 'is a folder'
run 2 test "$model" swapped.tsv --bootstrap 50
has err '--bootstrap=50: expected 0 or at least 100'
run 2 test "$model" swapped.tsv --bootstrap -1
run 2 test "$model" swapped.tsv --bootstrap 1000001

# One row; all right; nothing that is known.
head -n 1 "$dev" > one.tsv
run 0 test "$model" one.tsv
has out '^accuracy +100.00 %  \(100.00 to 100.00\)$'
has out '^No row is wrong, .* a share of 95\.00 %\.$'
sed 's/^[^	]*/pink/' "$dev" > pink.tsv
run 0 test "$model" pink.tsv
has out '^accuracy +0.00 %  \(0.00 to 0.00\)$'
has out '^loss +-$'
has out '^pink +[0-9.]+ +[0-9.]+ +[0-9.]+$'
run 0 test "$model" pink.tsv --json
is "gold" "$(json out confusion.0.gold)" pink

# Many classes: the most frequent confusions instead of a matrix.
awk 'BEGIN { for (i = 0; i < 240; i++) print "label" i % 24 "\tword" i % 24 " and word" (i * 7) % 24 }' > many.tsv
run 0 train classify many.tsv many.tsv -o many.model --size tiny --steps 30 --threads 1
awk -F '\t' '{ if (NR % 5 == 0) $1 = "label" NR % 24; print $1 "\t" $2 }' many.tsv > many_wrong.tsv
run 0 test many.model many_wrong.tsv
hasnt out 'gold . predicted'
has out '^gold +-> +predicted +rows$'
has out '^label[0-9]+ +-> label[0-9]+ +[0-9]+$'

# Two models on the same rows.
sed 's/^deep blue/red/' "$QKV_MODELS/train.tsv" > two.tsv # a model that does not know one of the labels
run 0 train classify two.tsv -o weak.model --size tiny --epochs 2 --threads 1
run 0 test weak.model "$model" swapped.tsv --threads 1
has out '^120 rows$'
has out '^A  weak\.model: 2 classes'
has out '^  deep blue +[0-9]+ rows$'
has out '^accuracy +[0-9.]+ % \([0-9.]+ to [0-9.]+\) +[0-9.]+ % \([0-9.]+ to [0-9.]+\) +\+[0-9.]+ \(\+[0-9.]+ to \+[0-9.]+\) +0\.00[0-9]+$'
has out "^accuracy: B is better by [0-9.]+ points; the difference is distinguishable from chance at 5 % \\(McNemar's exact test, p = [0-9.e-]+\\)\\.\$"
has out '^macro F1: B is better by [0-9.]+ points; the difference is distinguishable from chance at 5 % \(paired bootstrap, p = 0\.00[0-9]+\)\.$'
"$QKV" predict weak.model "$QKV_MODELS/texts.txt" --threads 1 > weak
counts=$(cut -f 1 swapped.tsv | paste - weak got | awk -F '\t' '{ a = $1 == $2; b = $1 == $3; both += a && b; x += a && !b; y += b && !a; n += !a && !b }
    END { print "both " both + 0 ", only A " x + 0 ", only B " y + 0 ", neither " n + 0 }')
has out "^rows that are right: $counts\$"
run 0 test weak.model "$model" swapped.tsv --threads 1 --json
is "only B" "$(json out comparison.right.only_b)" "$(echo "$counts" | sed 's/.*only B \([0-9]*\).*/\1/')"
is "the interval of one test" "$(json out b.intervals.accuracy.0)" "$low"
is "and of the comparison" "$(json out comparison.scores.accuracy.b_interval.0)" "$low"
is "the model" "$(json out a.model)" weak.model
is "distinguishable" "$(json out comparison.accuracy_distinguishable)" true
run 0 test "$model" "$model" swapped.tsv --threads 1
has out "^McNemar's exact test of 0 against 0: p = 1\.0000\$"
has out '^accuracy: A and B are equal\.$'
run 0 test weak.model "$model" swapped.tsv --threads 1 --bootstrap 0 --json
is "p by bootstrap" "$(json out comparison.scores.macro_f1.p)" null
at_least "the rows alone" "$(json out comparison.mcnemar_p | awk '{ print $1 < 0.05 }')" 1
head -n 5 swapped.tsv > five.tsv
run 0 test weak.model "$model" five.tsv
hasnt out 'difference is distinguishable.*McNemar' # 5 rows cannot tell: 2 / 2^5 > 0.05
run 2 test "$model" "$model" -
has err 'standard input can be read only once'
run 2 test "$model" "$model" swapped.tsv --errors x
has err '--errors goes with one model, not with two'
run 1 test "$model" nowhere swapped.tsv
has err 'nowhere: No such file'
printf '{"label":["red"],"text":"rose"}\n{"label":["red","green"],"text":"rose leaf"}\n' > sets.jsonl
run 0 train classify sets.jsonl sets.jsonl -o sets.model --multi-label --size tiny --steps 3 --threads 1
run 2 test sets.model "$model" swapped.tsv
has err 'model gives one label to a text, sets.model any number: their scores do not compare'
run 2 test "$model" sets.model swapped.tsv
has err 'model gives one label to a text, sets.model any number: their scores do not compare'
run 2 test sets.model sets.jsonl --confusion x
has err '--confusion: the model gives any number of labels'
run 0 test sets.model sets.jsonl --errors wrong_sets.tsv
has out '^exact +[0-9.]+ %  \('
has out '^probability +mean +has it +decisions$'
run 0 test sets.model sets.model sets.jsonl
has out '^exact: A and B are equal\.$'

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
