# qkv train classify --autotune
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv
dev=$QKV_MODELS/dev.tsv
quick="--size tiny --threads 1 --vocab 400 --epochs 0.5 --max-length 16"

# A number of trials: a line each, the best model, and the command that makes it again.
run 0 train classify "$train" "$dev" -o a $quick --autotune-trials 4 --log log --json
has err '^rows '
is "lines of trials" "$(grep -c '^trial    [1-4]  accuracy' err)" 4
has err '^trial    1 .* kept  as given$'
has err '^searched +4 trials, 4 of them counted'
has err '^kept +trial [1-4]: dev accuracy'
is "trials of the log" "$(json log event | grep -c '^trial$')" 4
is "trials of the steps" "$(json log trial | sort -u | paste -sd ,)" 1,2,3,4
is "trials of the summary" "$(json out autotune.trials.3.trial)" 4
best=$(json out autotune.best)
is "the best" "$(json out autotune.trials.$((best - 1)).best)" true
for option in vocab epochs dim layers heads; do
    if grep -E "^trial" err | grep -q -e "--$option"; then fail "--$option was fixed and is drawn"; fi
done
cp err first
command=$(sed -n 's/^the same *qkv //p' err)
is "command of the summary" "$(json out autotune.command)" "qkv $command"
# shellcheck disable=SC2086
set -- $command
run 0 "$@" --threads 1 -o b
cmp -s a b || fail "the command makes another model"

# The same trials again, for any number of threads; others by another seed.
run 0 train classify "$train" "$dev" -o c $quick --threads 2 --autotune-trials 4
trials() { sed -n 's/^trial .*[0-9] m\{0,1\}s *\(kept\)\{0,1\}  //p' "$1"; }
trials first > one
trials err > two
is "options drawn" "$(lines one)" 4
same one two
cmp -s a c || fail "two threads find another model"
run 0 train classify "$train" "$dev" -o c $quick --seed 2 --autotune-trials 4
trials err > two
if cmp -s one two; then fail "another seed draws the same"; fi

# Paths that a shell would not leave alone; standard input; the time.
mkdir "it's here"
cp "$train" "it's here/t.tsv"
start=$SECONDS
run 0 train classify "it's here/t.tsv" -o d $quick --autotune 0.05
[ $((SECONDS - start)) -le 30 ] || fail "3 seconds took $((SECONDS - start))"
has err "^the same +qkv train classify 'it'.*s here/t.tsv' -o d "
run 0 train classify - -o d $quick --autotune-trials 2 < "$train"
run 0 predict d "$QKV_MODELS/texts.txt" --threads 1
is answers "$(lines out)" 120

run 2 train classify "$train" $quick --autotune 1
has err 'where should the model go'
run 2 train classify "$train" -o m $quick --autotune 1 --resume
has err 'one training'
run 2 train classify "$train" -o m $quick --autotune -1
printf 'a\tone\nb\ttwo\nc\tthree\n' > few.tsv
run 1 train classify few.tsv -o m $quick --autotune-trials 2
has err 'few.tsv: no dev row'
[ ! -e m ] || fail "a model of nothing"

# Ctrl-C: the best so far.
last="qkv train classify --autotune, then SIGINT"
set -m
rm -f log m
"$QKV" train classify "$train" "$dev" -o m $quick --autotune 5 --log log > out 2> err &
pid=$!
wait_for log '"event":"trial","trial":2' $pid
kill -INT $pid
wait $pid
is "exit code" $? 130
has err 'Stopped by SIGINT \(Ctrl-C\) in trial [0-9]+; the best model so far was saved'
has err '^the same +qkv train classify'
run 0 predict m "$QKV_MODELS/texts.txt" --threads 1
finish
