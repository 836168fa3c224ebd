# An interrupted training goes on to the same model file, byte for byte.
. "$(dirname "$0")/lib.sh"
set -m
data 240 5 > train.tsv
epochs=60
[ -z "${QKV_SANITIZED:-}" ] || epochs=8
options="--size tiny --max-length 16 --epochs $epochs --threads 2 --batch-rows 8 --vocab 300"

# shellcheck disable=SC2086
run 0 train classify train.tsv -o whole $options
[ ! -e whole.resume ] || fail "a checkpoint is left of a run that is complete"

third=81
# begin ARGUMENTS...: in the background, until three evaluations are logged.
begin() {
    rm -f log
    last="qkv train classify $*, to be interrupted"
    "$QKV" train classify "$@" --log log > out 2> err &
    pid=$!
    wait_for log '"event":"evaluation".*"step":'$third, $pid
}

# shellcheck disable=SC2086
begin train.tsv -o part $options
kill -INT $pid
wait $pid
is "exit code after SIGINT" $? 130
[ -s part.resume ] || fail "no checkpoint"
run 0 predict part train.tsv --threads 1

# Another rate, other rows, no such file: refused with what differs, and nothing is lost.
cp part.resume before
# shellcheck disable=SC2086
run 2 train classify train.tsv -o part $options --lr 0.001 --resume
has err 'part\.resume is of another run and cannot be continued: of options lr it had "0\.0005", this one has "0\.001"'
has err 'Without --resume training begins anew'
data 240 6 > other.tsv
# shellcheck disable=SC2086
run 2 train classify other.tsv -o part $options --resume
has err 'cannot be continued: of training data'
# shellcheck disable=SC2086
run 1 train classify train.tsv -o nothing $options --resume
has err 'there is no interrupted run to go on with: nothing\.resume does not exist'
run 2 train classify part.resume -o part
has err 'part\.resume would overwrite the data'
same part.resume before

# shellcheck disable=SC2086
run 0 train classify train.tsv -o part $options --resume --threads 1
has err '^resuming +after step [0-9]+'
same part whole
[ ! -e part.resume ] || fail "the checkpoint outlived its run"

# kill -9: the last checkpoint is enough.
# shellcheck disable=SC2086
begin train.tsv -o killed $options --checkpoint 0.0002
for i in $(seq 600); do [ -s killed.resume ] && break; sleep 0.1; done
kill -KILL $pid
wait $pid 2> /dev/null
[ -s killed.resume ] || fail "no checkpoint after kill -9"
[ ! -e killed ] || fail "a model before its time"
# shellcheck disable=SC2086
run 0 train classify train.tsv -o killed $options --resume
same killed whole

# A new run beside an old checkpoint says so.
cp before part.resume
# shellcheck disable=SC2086
run 0 train classify train.tsv -o part $options
has err 'part\.resume is there from a run that was interrupted'
[ ! -e part.resume ] || fail "a stale checkpoint is left"
# While it pretrains there is no model yet; the same command and --resume goes on to the same one.
cut -f 2 train.tsv > texts.txt
options="--size tiny --max-length 16 --epochs 1 --pretrain $epochs --pretrain-text texts.txt --threads 2 --batch-rows 8 --vocab 300"
# shellcheck disable=SC2086
run 0 train classify train.tsv -o whole2 $options --json
has err '^pretrain +on 240 texts, [0-9,]+ tokens \(plain text, guessed from line 1\)'
has err "^pretraining, epoch +$epochs\\.00 .* dev loss +[0-9.]+ +perplexity"
has err '^pretrained +[0-9,]+ steps in .*; kept step'
is "stopped" "$(json out pretraining.result.stopped)" false
third=90 begin train.tsv -o part2 $options
kill -INT $pid
wait $pid
is "exit code after SIGINT" $? 130
has err 'stopped by SIGINT \(Ctrl-C\) at step [0-9,]+ of [0-9,]+ of the pretraining; there is no model yet'
has err 'To go on with the training: the same command and --resume'
has log '"phase":"pretraining"'
[ -s part2.resume ] || fail "no checkpoint"
[ ! -e part2 ] || fail "a model before its time"
echo more >> texts.txt
# shellcheck disable=SC2086
run 2 train classify train.tsv -o part2 $options --resume
has err 'cannot be continued: of pretraining texts'
cut -f 2 train.tsv > texts.txt
# shellcheck disable=SC2086
run 0 train classify train.tsv -o part2 $options --resume
has err '^resuming +after step [0-9,]+ of the pretraining'
same part2 whole2
[ ! -e part2.resume ] || fail "the checkpoint outlived its run"

run 2 train classify train.tsv -o m --pretrain-text texts.txt
has err 'pretrain-text has no effect without --pretrain$'
run 2 train classify - -o m --pretrain 1 --pretrain-text -
has err 'only one of TRAIN, DEV and --pretrain-text can be standard input'
run 2 train classify train.tsv -o texts.txt --pretrain 1 --pretrain-text texts.txt
has err 'would overwrite the data'
run 1 train classify train.tsv -o m --pretrain 1 --pretrain-text nowhere.txt
has err 'nowhere\.txt'
finish
