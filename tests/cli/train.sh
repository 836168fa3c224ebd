# qkv train classify
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv
dev=$QKV_MODELS/dev.tsv
quick="--size tiny --threads 1 --steps 3 --max-length 16"

# Without DEV a tenth is held out; the log has a line for each step and evaluation; the summary is JSON.
run 0 train classify "$train" -o a $quick --log log --json
has err 'held out: 10 %'
json out > /dev/null
is steps "$(json out result.steps)" 3
is held_out "$(json out data.held_out)" true
is model "$(json out model)" a
is rows "$(($(json out data.train_rows) + $(json out data.dev_rows)))" 500
is "step lines" "$(json log event | grep -c '^step$')" 3
at_least "evaluation lines" "$(json log event | grep -c '^evaluation$')" 1
is "lines" "$(lines log)" "$(json log event | lines /dev/stdin)"
is "no other files" "$(ls)" "$(printf 'a\nerr\nlog\nout')"
# The share of the peak: the same in the last line and in the summary, of the higher one of the peaks at the beginning and at the end.
grep '"event":"step"' log > steps
has err "done .*, $(json out result.share_of_peak | awk '{ printf "%.0f", 100 * $1 }') % of FMA peak"
steps_rate=$(paste <(json steps flops) <(json steps seconds) | awk '{ f += $1; s += $2 } END { print f / s }')
first_peak=$(paste <(json steps flops) <(json steps seconds) <(json steps share_of_peak) | awk 'NR == 1 { print $1 / $2 / $3 }')
at_least "peak at the end" "$(awk -v r="$steps_rate" -v s="$(json out result.share_of_peak)" 'BEGIN { print 1.001 * r / s }')" "$first_peak"
# Being watched changes no bit of the model; a look has entropy and score of each head, and the norm of each layer.
run 0 train classify "$train" -o watched $quick --monitor --monitor-every 2 --log watch --json
cmp -s a watched || fail "--monitor changed the model"
is "looks" "$(json watch event | grep -c '^monitor$')" 2
grep '"event":"monitor"' watch | head -1 > look
for field in entropy.0.0 score.0.0 parts.head.gradient_norm gradient_norm; do
    json look "$field" | grep -q '^[0-9.e-]*$' || fail "no number for $field in a look of --monitor"
done
is "looks in the summary" "$(json out monitor.looks)" 2
has err '^monitor  '
run 2 train classify "$train" -o m $quick --monitor-every 5
has err '[-]-monitor'
rm -f watched watch look m
at_least "loss" "$(json steps loss | head -n 1)" 0.5
rm steps

# The same model for the same seed, for any number of threads, from a pipe, from gzip, with CRLF, in another locale.
run 0 train classify "$train" -o b $quick
cmp -s a b || fail "the same command gives another model"
run 0 train classify "$train" -o b $quick --threads 2
cmp -s a b || fail "two threads give another model"
locale=de_DE.UTF-8 run 0 train classify "$train" -o b $quick --lr 0.0005
cmp -s a b || fail "another locale gives another model"
run 0 train classify "$train" -o b $quick --seed 2
if cmp -s a b; then fail "another seed gives the same model"; fi
# --size first, whatever its place.
run 0 train classify "$train" -o b --dim 32 --threads 1 --steps 3 --max-length=16 --size=tiny
run 0 train classify "$train" -o c --size tiny --dim 32 --threads 1 --steps 3 --max-length 16
same b c
has err 'dim 32, 2 heads'
run 0 train classify "$train" -ob $quick --no-bias --causal --window 4,-1 --json
run 0 info b --json
is bias "$(json out config.bias)" false
is window "$(json out config.span_left) $(json out config.span_right)" "4 0"
for value in off false 0; do
    run 0 train classify -o b $quick --steps 1 --bias $value --causal "$train"
    run 0 info b --json
    is "bias and causal" "$(json out config.bias) $(json out config.span_right)" "false 0"
done
gzip -c "$train" > train.gz
sed 's/$/\r/' "$train" > crlf.tsv
for file in train.gz crlf.tsv; do
    run 0 train classify $file "$dev" -o b $quick
    "$QKV" predict b "$QKV_MODELS/texts.txt" --top 3 --threads 1 > got
    run 0 train classify "$train" "$dev" -o c $quick
    "$QKV" predict c "$QKV_MODELS/texts.txt" --top 3 --threads 1 > expected
    same got expected
done
last="qkv train classify -"
"$QKV" train classify - "$dev" -o b $quick < "$train" > out 2> err || fail "training from standard input"
has err '^reading +standard input'

# Many classes: a compact list. Odd but legal data.
awk 'BEGIN { for (i = 0; i < 400; i++) print "class" i % 60 "\tword" i " text" }' > many.tsv
run 0 train classify many.tsv -o b $quick
has err '^classes +60: class'
has err 'and 44 more, the smallest class'
{ printf 'a\t\na\t\xff\xfe bad\nb\ttab\tin text\nb\tnul \000 here\nb\t'; head -c 100000 /dev/zero | tr '\0' x; echo; } > odd.tsv
run 0 train classify odd.tsv odd.tsv -o b $quick
has err 'cuts 1 row \('
awk '{ sub(/^[^\t]*/, "only"); print }' "$train" > one.tsv
run 0 train classify one.tsv -o b $quick
cp err err.one
run 0 predict b "$QKV_MODELS/texts.txt" --top 2 --threads 1
is "one class" "$(sort -u out)" "$(printf 'only\t1.000000')"
printf 'a\trose\nb\tleaf\nodd \033[2J\tsea\n' > control.tsv
run 0 train classify "$train" control.tsv -o c $quick
has err "^qkv: warning: label 'odd .x1B\[2J'"
is "one warning" "$(grep -c '^qkv: warning: all ' err.one)" 1

# Labels that differ only in bytes that JSON does not have, or in how those are written, stay apart everywhere.
awk 'BEGIN { for (i = 0; i < 30; i++) printf "a\xff\tred %d\na\\xFF\tgreen %d\na\\\tblue %d\nb\001\tsky %d\n", i, i, i, i }' > escapes.tsv
run 0 train classify escapes.tsv escapes.tsv -o b $quick --json
json out data.classes | grep -Fq '"a\\xFF"' || fail "classes: $(json out data.classes)"
is "classes" "$(json out data.classes | grep -o '"label":"[^"]*"' | sort -u | lines /dev/stdin)" 4
has err '^classes +4: .*a\\\\xFF 30,'
has err '^classes +4: .*a\\xFF 30,'
has err 'b\\x01 30'
run 0 info b --json
json out labels > labels
run 0 test b escapes.tsv --json --threads 1
is "labels of test and info" "[$(json out classes | grep -o '"label":"[^"]*"' | cut -d : -f 2 | paste -sd ,)]" "$(cat labels)"
echo red > red
run 0 predict b red --json --threads 1
is "probabilities" "$(json out probabilities | grep -o '"[^"]*":' | tr -d : | LC_ALL=C sort | paste -sd ,)" "$(tr -d '[]' < labels | tr , '\n' | LC_ALL=C sort | paste -sd ,)"
run 0 test b escapes.tsv --threads 1
for name in 'a\\\\ ' 'a\\\\xFF ' 'a\\xFF ' 'b\\x01 '; do has out "^$name"; done
run 0 info b
has out '^labels +4: a\\\\, a\\\\xFF, a\\xFF, b\\x01$|^labels +4: .*a\\\\xFF'

# Refusals, before any work where that is possible.
run 2 train classify "$train"
has err 'where should the model go'
run 2 train classify -o m
has err 'which file'
run 2 train classify "$train" -o m --laers 2
has err 'there is no option --laers; did you mean --layers'
run 2 train classify "$train" -o m --dropuot=0.1
has err 'did you mean --dropout'
run 2 train classify "$train" -o m --dim 256 --heads 6
has err 'heads=6 does not divide dim=256'
hasnt err '^rows'
run 2 train classify "$train" -o m --lr 0,5
has err '--lr=0,5: expected a number'
run 2 train classify "$train" -o m --dropout 1.5
has err '--dropout=1.5: expected a number from 0 to 0.95'
run 2 train classify "$train" -o m --position roman
has err '--position=roman: expected one of none\|sinusoidal\|learned'
run 2 train classify "$train" -o m --epochs=
run 2 train classify "$train" -o m --window 3
run 2 train classify "$train" -o m --size huge
has err '--size=huge: expected one of tiny\|small\|base'
run 2 train classify "$train" -o -
run 2 train classify "$train" -o m --log -
has err 'a log cannot go to standard output'
[ ! -e ./- ] || fail "--log - made a file of that name"
run 2 train classify --bias maybe "$train" -o m
has err '^qkv train classify: --bias=maybe: expected yes or no'
run 2 train classify "$train" -o m --bias=maybe
has err '^qkv train classify: --bias=maybe: expected yes or no'
run 2 train classify - - -o m
has err 'cannot both be standard input'
cp "$train" own.tsv
run 2 train classify own.tsv -o own.tsv
has err 'would overwrite the data'
run 2 train classify own.tsv -o m --log ./own.tsv
has err 'would overwrite the data'
run 2 train classify own.tsv -o m --log m
same own.tsv "$train"
run 1 train classify nowhere.tsv -o m
has err 'nowhere.tsv: No such file'
run 1 train classify "$train" -o no/such/folder/m $quick
has err 'no/such/folder/m: the model could not be written there: No such file or directory'
hasnt err '^rows'
mkdir folder
run 1 train classify "$train" -o folder $quick
has err 'folder: is a folder'
run 1 train classify "$train" -o /dev/null $quick
[ -c /dev/null ] || fail "/dev/null is gone"
run 1 train classify "$train" -o m --log no/such/log $quick
has err 'no/such/log: '
printf 'a\tone\nno tab here\n' > bad.tsv
run 1 train classify bad.tsv -o m $quick
has err 'bad.tsv:2: '
: > none.tsv
run 1 train classify none.tsv -o m $quick
has err 'none.tsv'
[ ! -e m ] || fail "a refused training left a model"

# A log that cannot be written costs the log, not the model.
run 1 train classify "$train" -o m --log /dev/full $quick
has err '/dev/full: No space left on device; training goes on'
has err 'the log is not complete'
run 0 predict m "$QKV_MODELS/texts.txt" --threads 1

# So does a limit on the size of files: an ordinary error, here for the fallback too, and no rest of a file.
if ! thread_sanitizer; then # its own run-time dies at such a limit
    last="qkv train classify under ulimit -f"
    mkdir limited spare
    (ulimit -f 8; TMPDIR=$work/spare exec "$QKV" train classify "$train" -o limited/m $quick > out 2> err)
    is "exit code under a limit on the size of files" $? 1
    has err '^qkv: limited/m: writing failed: File too large'
    has err '^qkv: no model was written'
    is "files left" "$(ls limited spare | grep -v : | tr -d '\n')" ""
fi

# What cannot be measured is not a number: no row to evaluate on has a label that the model knows.
printf 'pink\trose\npink\tleaf\n' > pink.tsv
run 0 train classify "$train" pink.tsv -o b $quick --log log --json
has err '^epoch .* dev loss +- '
hasnt err 'nan'
is "loss" "$(json out result.loss)" null
is "loss" "$(grep evaluation log | "$QKV_JSON" /dev/stdin loss | sort -u)" null
is "lines that name it" "$(grep -c "pink" err)" 1
has err '^qkv: warning: .*pink'
run 0 test b pink.tsv --threads 1
has out '^loss +-$'
run 0 test b pink.tsv --threads 1 --json
is "loss" "$(json out loss)" null

# Patience: with a rate of 0 nothing gets better. Ended early is no failure, and no file is left to go on from.
options="--size tiny --threads 1 --epochs 20 --max-length 16 --lr 0 --ngrams 0"
# shellcheck disable=SC2086
run 0 train classify "$train" -o e $options --patience 2 --json
has err '^ended +early, by --patience 2: '
hasnt err '^stopped'
is "out of patience" "$(json out result.out_of_patience) $(json out result.stopped)" "true false"
[ ! -e e.resume ] || fail "a checkpoint is left of a run that is complete"
steps=$(json out result.steps)
[ "$((3 * $(json out plan.batches_per_epoch)))" = "$steps" ] || fail "$steps steps until patience ran out"

# Averages: told, in the log too; nothing of the kind without being asked.
run 0 train classify "$train" -o e $quick --evaluate 0.001 --average checkpoints --log log --json
has err '^mean of the last evaluations  dev loss '
is "evaluations of a mean" "$(grep -c '"averaged":true' log)" 1
run 0 train classify "$train" -o e $quick --average ema --ngrams 0 --json
has err '^kept +the moving average, step '
is "averaged" "$(json out result.averaged)" true
run 2 train classify "$train" -o e $quick --average mean
has err 'none\|ema\|checkpoints'
run 2 train classify "$train" -o e $quick --ema-decay 1
has err 'ema-decay'

# Divergence: said, exit 1, and what is saved is finite.
rm -f m
run 1 train classify "$train" -o m --size tiny --threads 1 --epochs 3 --max-length 16 --lr 1e6 --embedding-lr 1e6 --clip 0 --warmup 0 \
    --schedule constant --dropout 0 --weight-decay 1000
has err 'lr'
if [ -e m ]; then
    has err 'last good weights'
    run 0 predict m "$QKV_MODELS/texts.txt" --top 3 --threads 1
    hasnt out 'nan'
fi

# A bar on a terminal.
if command -v script > /dev/null && script -qec true /dev/null > /dev/null 2>&1; then # a bare root may have no terminals to give
    last="script: a bar on a terminal"
    TERM=xterm script -qec "stty cols 80; '$QKV' train classify '$train' -o b --size tiny --threads 1 --epochs 60 --max-length 16" /dev/null > out 2>&1 < /dev/null
    tr '\r' '\n' < out > bar
    has bar '\[#*-*\] epoch [0-9.]+/60 loss [0-9.]+ lr [0-9.e+-]+ [0-9,.k]+ tok/s [0-9]+ % peak [0-9].* left$'
    awk '{ gsub(/\033\[K/, "") } length($0) >= 80 && /left$/ { print; bad = 1 } END { exit bad }' bar > wide || fail "too wide: $(head -n 1 wide)"
fi
finish
