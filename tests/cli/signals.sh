# Ctrl-C and SIGTERM while training.
. "$(dirname "$0")/lib.sh"
set -m
train=$QKV_MODELS/train.tsv
long="--size tiny --threads 1 --epochs 100000 --max-length 16"

# SIGNAL CODE EVENT OPTIONS: after the first such event the signal comes; the step ends, the model is saved, it says how to go on.
interrupted() {
    rm -f m log
    last="qkv train classify, then $1"
    # shellcheck disable=SC2086
    "$QKV" train classify "$train" -o m $long $4 --log log > out 2> err &
    pid=$!
    wait_for log "\"event\":\"$3\"" $pid
    kill "-$1" $pid
    wait $pid
    is "exit code after $1" $? "$2"
    has err 'stopping after this step'
    has err 'To go on:'
    has err "Stopped by SIG$1"
    run 0 predict m "$QKV_MODELS/texts.txt" --threads 1
    is answers "$(lines out)" 120
    is "other files" "$(ls | grep -Ev '^(m|log|out|err)$')" ""
}
interrupted INT 130 evaluation "--evaluate 1"
interrupted TERM 143 step "--evaluate 0"
interrupted HUP 129 step "--evaluate 1"

# timeout(1) may signal twice at once: that is one request.
last="timeout -s INT"
rm -f m
timeout -s INT 2 "$QKV" train classify "$train" -o m $long > out 2> err
is "exit code under timeout" $? 124
has err 'To go on:|before there was anything to save'

# A reader of the progress that goes away does not cost the training.
last="qkv train 2>&1 | head"
rm -f m
"$QKV" train classify "$train" -o m --size tiny --threads 1 --epochs 3 --max-length 16 2>&1 | head -n 1 > out
[ -s m ] || fail "the model was lost with the reader of the progress"

# Two signals: the end at once, the old model untouched. (The thread sanitizer holds signals back while it computes.)
if [ -z "${QKV_SIGNALS_HELD_BACK:-}" ]; then
    cp m old
    { head -c 60000 /dev/zero | tr '\0' a | sed 's/^/a\t/'; echo; echo "b	text"; } > long.tsv
    "$QKV" train classify long.tsv long.tsv -o m --tokenizer byte --max-length 60000 --dim 32 --heads 1 --layers 4 --threads 1 \
        --evaluate 0 --steps 1000 > out 2> err &
    pid=$!
    if wait_for err '^machine' $pid; then
        sleep 0.3
        kill -INT $pid
        sleep 0.8
        kill -INT $pid
        start=$SECONDS
        wait $pid
        is "exit code after two signals" $? 130
        [ $((SECONDS - start)) -le 10 ] || fail "the second signal took $((SECONDS - start)) s"
    fi
    hasnt err 'To go on'
    same m old
fi
finish
