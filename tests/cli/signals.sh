# Ctrl-C and SIGTERM while training.
. "$(dirname "$0")/lib.sh"
set -m
train=$QKV_MODELS/train.tsv
long="--size tiny --threads 1 --epochs 100000 --max-length 16"

# SIGNAL CODE EVENT OPTIONS: after the first such event the signal comes; the step ends, the model is saved, it says how to go on.
interrupted() {
    rm -f m m.resume log
    last="qkv train classify, then $1"
    # shellcheck disable=SC2086
    "$QKV" train classify "$train" -o m $long $4 --log log > out 2> err &
    pid=$!
    wait_for log "\"event\":\"$3\"" $pid
    kill "-$1" $pid
    wait $pid
    is "exit code after $1" $? "$2"
    has err 'stopping after this step'
    has err '^To go on with the training: the same command and --resume\.'
    has err "Stopped by SIG$1"
    run 0 predict m "$QKV_MODELS/texts.txt" --threads 1
    is answers "$(lines out)" 120
    is "other files" "$(ls | grep -Ev '^(m|m\.resume|log|out|err)$')" ""
}
interrupted INT 130 evaluation "--evaluate 1"
interrupted TERM 143 step "--evaluate 0"
interrupted HUP 129 step "--evaluate 1"

# Waiting for data, or reading it: there is nothing to save, so the end comes at once.
waiting() { # SIGNAL CODE INPUT
    rm -f m err # the last run's
    last="qkv train classify $3, then $1"
    # shellcheck disable=SC2086
    "$QKV" train classify "$3" -o m $long > out 2> err <> fifo &
    pid=$!
    wait_for err '^reading' $pid
    sleep 0.2
    kill "-$1" $pid
    start=$SECONDS
    wait $pid
    is "exit code after $1" $? "$2"
    [ $((SECONDS - start)) -le 5 ] || fail "the end took $((SECONDS - start)) s"
    has err "stopped by SIG$1.*nothing was trained yet, and no model was written"
    hasnt err 'after this step|To go on'
    [ ! -e m ] || fail "a model of nothing"
}
mkfifo fifo nobody
waiting INT 130 -
waiting TERM 143 -
waiting INT 130 nobody # the open() of a pipe that nobody writes to
awk 'BEGIN { for (i = 0; i < 1000000; i++) print "a\trose " i "\nb\tleaf " i }' > large.tsv
waiting INT 130 large.tsv
rm large.tsv
if command -v script > /dev/null && script -qec true /dev/null > /dev/null 2>&1; then
    last="Ctrl-C on a terminal"
    : > out
    { wait_for out '^reading' $$; printf 'a\ttext\n'; sleep 0.3; printf '\003'; sleep 0.3; } | TERM=xterm script -qec "'$QKV' train classify - -o m $long" /dev/null > out 2>&1
    has out 'stopped by SIGINT \(Ctrl-C\); nothing was trained yet'
fi

# timeout(1) may signal twice at once: that is one request.
last="timeout -s INT"
rm -f m
timeout -s INT 2 "$QKV" train classify "$train" -o m $long > out 2> err
is "exit code under timeout" $? 124
has err 'To go on with the training:|no model was written'

# A reader of the progress that goes away does not cost the training.
last="qkv train 2>&1 | head"
rm -f m
"$QKV" train classify "$train" -o m --size tiny --threads 1 --epochs 3 --max-length 16 2>&1 | head -n 1 > out
[ -s m ] || fail "the model was lost with the reader of the progress"

# Two signals: the end at once, the old model untouched. (The thread sanitizer holds signals back while it computes.)
if [ -z "${QKV_SIGNALS_HELD_BACK:-}" ]; then
    cp m old
    rm -f err
    { head -c 60000 /dev/zero | tr '\0' a | sed 's/^/a\t/'; echo; echo "b	text"; } > long.tsv
    "$QKV" train classify long.tsv long.tsv -o m --tokenizer byte --max-length 60000 --dim 32 --heads 1 --layers 4 --pattern full --threads 1 \
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
    has err '^qkv: stopped at once; no model was written'
    same m old
fi
finish
