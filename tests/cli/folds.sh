# qkv train classify --folds
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv
dev=$QKV_MODELS/dev.tsv
quick="--size tiny --threads 1 --steps 3 --max-length 16"

# Scores alone: a table on standard output, no file.
run 0 train classify "$train" --folds 4 $quick --log log
has out '^fold +train +dev +scored +accuracy +macro F1 +loss +time$'
is "rows of the table" "$(grep -c '^[1-4] of 4 ' out)" 4
has out '^mean '
has out '^deviation '
hasnt err '^model'
has err '^fold 1 of 4, learning the linear model$'
is "no other files" "$(ls)" "$(printf 'err\nlog\nout')"
is "lines of folds" "$(json log event | grep -c '^fold$')" 4
is "lines of steps" "$(json log event | grep -c '^step$')" 12
is "folds of the lines" "$(json log fold | sort -u | paste -sd ,)" 1,2,3,4
cp out table

# For programs; each row is scored once; the same again, with two threads.
run 0 train classify "$train" --folds 4 $quick --threads 2 --json
for i in 0 1 2 3; do json out cross_validation.folds.$i.rows; done > rows
is "rows scored" "$(awk '{ s += $1 } END { print s }' rows)" "$(lines "$train")"
is "mean" "$(for i in 0 1 2 3; do json out cross_validation.folds.$i.accuracy; done | awk '{ s += $1 } END { printf "%.6f", s / 4 }')" \
    "$(json out cross_validation.mean.accuracy | awk '{ printf "%.6f", $1 }')"
is "accuracies" "$(for i in 0 1 2 3; do json out cross_validation.folds.$i.accuracy | awk '{ printf "%.2f\n", 100 * $1 }'; done | paste -sd ,)" \
    "$(awk '$2 == "of" { print $7 }' table | paste -sd ,)"
has err '^4 of 4 '
run 0 train classify - --folds 2 $quick < "$train"
has out '^2 of 2 '

# With -o the model follows: that of the command without --folds. DEV is for picking weights.
run 0 train classify "$train" "$dev" --folds 2 $quick -o a --json
is "dev rows" "$(json out cross_validation.folds.1.dev_rows)" "$(lines "$dev")"
is "steps" "$(json out result.steps)" 3
run 0 train classify "$train" "$dev" $quick -o b
cmp -s a b || fail "--folds changes the model"
[ ! -e a.resume ] || fail "a checkpoint is left"

run 2 train classify "$train" $quick
run 2 train classify "$train" --folds 1 $quick
has err '2 to 100'
run 2 train classify "$train" --folds 101 $quick
run 2 train classify "$train" --folds 2 $quick -o m --resume
has err 'one training'
run 2 train classify - --folds 2 $quick -o m
has err 'read twice'
run 2 train classify "$train" --folds 2 --autotune 1 $quick -o m
printf 'a\tone\nb\ttwo\n' > few.tsv
run 1 train classify few.tsv --folds 3 $quick
has err '2 different texts cannot be dealt to 3 folds'

# Nobody reads the scores: the end, as quietly as the other verbs have it.
last="qkv train classify --folds, read by nobody"
{ "$QKV" train classify "$train" --folds 100 --size tiny --threads 1 --epochs 40 --max-length 16 2> err; echo $? > code; } | head -n 1 > out
is "exit code when nobody reads" "$(cat code)" 141
hasnt err '^qkv:|Stopped'
at_least "lines that were read" "$(lines out)" 1
{ "$QKV" train classify "$train" --folds 2 $quick --json 2> err; echo $? > code; } | true
is "exit code when nobody reads the summary" "$(cat code)" 141
hasnt err '^qkv:'

# Ctrl-C: the folds that are done.
last="qkv train classify --folds, then SIGINT"
set -m
rm -f log m
"$QKV" train classify "$train" --folds 100 -o m --size tiny --threads 1 --epochs 40 --max-length 16 --log log > out 2> err &
pid=$!
wait_for log '"event":"fold"' $pid
kill -INT $pid
wait $pid
is "exit code" $? 130
has err 'Stopped by SIGINT \(Ctrl-C\) after [0-9]+ of 100 folds; no model was written'
has out '^mean '
[ ! -e m ] || fail "a model"
finish
