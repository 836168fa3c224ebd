# qkv compare: experiments, their verdicts, files, wrong use, Ctrl-C.
. "$(dirname "$0")/lib.sh"
set -m

# An experiment that takes no time: tables, claims, a page, JSON; and no file is left that was not asked for.
run 0 compare order --threads 1 --seeds 2 --html page.html --json j
empty err
has out '^order: without positions'
has out '^no positions +[0-9.e-]+ .* invisible$'
has out '^learned positions +[0-9.]+ .* visible$'
has out '^claim +article A, row 8: '
has out '^figure +equal outputs'
has out '^ours +largest difference'
has out '^verdict +holds: '
is "files" "$(ls)" "$(printf 'err\nj\nout\npage.html')"
is experiment "$(json j experiment)" order
is row "$(json j claims.0.row)" 8
is article "$(json j claims.0.article)" A
is verdict "$(json j claims.0.verdict)" holds
for key in machine setting version summary tables.0.title claims.0.says claims.0.figure claims.0.ours claims.0.why; do
    checks=$((checks + 1))
    [ -n "$(json j $key)" ] || fail "no $key"
done
is table "$(json j tables.0.key)" order
# Numbers too, not only sentences.
is "parts" "$(json j claims.0.parts.0.name)" "without positions equal within rounding"
is "of all arms" "$(json j claims.0.parts.0.figure)/$(json j claims.0.parts.0.value)/$(json j claims.0.parts.0.n)" 1.0/1.0/1
is "verdict of a part" "$(json j claims.0.parts.1.verdict)" holds
is "so far" "$(json j claims.0.so_far)" false
is cells "$(json j cells)" "$(json j done)"
at_least "difference without positions" "$(json j tables.0.rows.0.rows)" 0
has page.html '^<!DOCTYPE html>'
has page.html '</html>'
hasnt page.html 'https?:|<script|src='
run 0 compare order --threads 2 --seeds 2 --json -
is "the same with two threads" "$(json out tables.0.rows.0.words)" "$(json j tables.0.rows.0.words)"

# Cells are kept where that was asked for, and taken from there.
run 0 compare order --seeds 1 --resume cells --json a
at_least "lines of cells" "$(lines cells)" 2
head -n 1 cells | grep -q '"qkv":"cells"' || fail "the first line of the cells"
run 0 compare order --seeds 1 --resume cells --json b
has err '^([0-9]+) of \1 measurements were taken from cells$'
is taken "$(json b taken)" "$(json b cells)"
is "same tables" "$(json a tables)" "$(json b tables)"
run 0 compare order --seeds 2 --resume cells --json b # half of them are there
is taken "$(json b taken)" "$(json a cells)"
printf '{"cell":"half' >> cells
run 0 compare order --seeds 3 --resume cells
has err 'warning: cells: line [0-9]+ is no whole cell; passed over'
sed -E '2s/"rows":[0-9]/"rows":7/' cells > edited # by hand
run 0 compare order --seeds 1 --resume edited --json b
has err 'warning: edited: line 2 is no whole cell; passed over'
is "taken of an edited file" "$(json b taken)" "$(($(json b cells) - 1))"
is "the table beside it" "$(json a tables)" "$(json b tables)"

# A part of it: what is left out is measured by another run, and the file waits for it.
run 0 compare order --seeds 2 --only "no positions, seed" --json part
has err '^2 of [0-9]+ measurements are done, in qkv-compare-order\.cells; without --only the same command goes on$'
is "a part of it" "$(json part done)/$(json part cells)" "2/$(json j cells)"
is "no verdict yet" "$(json part claims.0.verdict)/$(json part claims.0.so_far)" "cannot be judged/true"
run 0 compare order --seeds 2 --only "seed 1" --json part
is "the other way round" "$(json part taken)/$(json part done)" "2/$(($(json j cells) / 2 + 1))"
is "of each arm there is something, but not all" "$(json part claims.0.verdict)/$(json part claims.0.so_far)" "cannot be judged/true"
run 0 compare order --seeds 2 --json part
is "the rest" "$(json part done)/$(json part tables.0.rows.0.words)" "$(json j cells)/$(json j tables.0.rows.0.words)"
[ ! -e qkv-compare-order.cells ] || fail "the file stays though all is done"
run 0 compare order --quick --only "no positions, seed"
has err '^2 of [0-9]+ measurements are done, and not kept: --resume FILE would$'
run 0 compare order --seeds 11 --only "SEED 1" --list # and of no other
is "names" "$(lines out)" "$(($(json j cells) / 2))"
has out '^      no positions, seed 1$'
run 0 compare order --seeds 1 --only "seed 1" --resume part.cells
run 0 compare order --seeds 2 --only lstm --list --resume part.cells
is "what is done" "$(cat out)" "$(printf 'done  LSTM, seed 1\n      LSTM, seed 2')"
run 2 compare order --list --json j
run 0 compare order --seeds 1 --show --resume part.cells --json b
is "what is shown" "$(json b done)/$(json b taken)/$(json b cells)" "$(json j cells | awk '{ print $1 / 2 "/" $1 / 2 "/" $1 / 2 }')"
run 0 compare order --seeds 2 --show --resume part.cells --json b
is "what is shown of more" "$(json b done)/$(json b claims.0.so_far)" "$(($(json j cells) / 2))/true"
run 2 compare order --show --only lstm
run 2 compare order --only " "
run 2 compare order --only GRUU
has err "^qkv compare: --only: no measurement has 'GRUU' in its name; the first is 'no positions, seed 1', the last 'GRU, seed 3'$"

# One fold of five: what it says is printed, and it is known again wherever the rows lie.
i=0
while [ $i -lt 60 ]; do
    printf 'a\tone two three %s\nb\tfour five six %s\n' $i $i
    i=$((i + 2))
done > rows.tsv
run 0 compare patterns --data rows.tsv --threads 1 --only "full, 512 tokens, fold 2 of 5" --resume folds.cells --json j
is "measured" "$(json j done)/$(json j taken)/$(json j cells)" 1/0/75
at_least "accuracy of a fold" "$(json j tables.0.rows.0.accuracy)" 0.3
json j tables.0.rows.1.accuracy | grep -q 'null' || fail "accuracy of what was not measured"
mkdir elsewhere
gzip < rows.tsv > elsewhere/again.tsv.gz
run 0 compare patterns --data elsewhere/again.tsv.gz --threads 1 --only "full, 512 tokens, fold 2 of 5" --resume folds.cells --json j
is "known again" "$(json j done)/$(json j taken)" 1/1

# What was measured for the documentation is whole.
for file in "$here"/../../bench/measured/*.cells; do
    [ -e "$file" ] || continue
    run 0 compare order --list --resume "$file"
    empty err
done

# Two at once on one file: nothing of either is lost.
"$QKV" compare order --seeds 6 --threads 1 --resume both > /dev/null 2> err &
run 0 compare order --seeds 6 --seed 100 --threads 1 --resume both
wait $! || fail "the other run"
is "cells of two runs" "$(lines both)" $((1 + 12 * $(json a cells)))
# A file that nobody asked for goes when all is done, unless somebody else's work is in it.
cp both qkv-compare-order.cells
run 0 compare order --seeds 6
has err '^qkv-compare-order.cells stays: it has what other runs measured \(66\)$'
is "lines that stay" "$(lines qkv-compare-order.cells)" "$(lines both)"
rm qkv-compare-order.cells

# Where no file can be, the result is what counts.
(cd /proc && "$QKV" compare order --seeds 1 --threads 1) > out 2> err
is "exit code in /proc" $? 0
has err 'warning: what is done is not kept: qkv-compare-order.cells'
is "said once" "$(lines err)" 1
has out '^verdict +holds: '
last="qkv compare order > /dev/full"
"$QKV" compare order --seeds 1 > /dev/full 2> err
is "exit code with a full disk" $? 1
has err 'standard output: No space left on device'
rm -f qkv-compare-order.cells
# A file of results is there whole or not at all: it takes the place of what stood there, and nobody sees a part of it.
mkdir full
echo old > full/j
ln full/j before
run 0 compare order --seeds 1 --threads 1 --json full/j
is "the new one" "$(json full/j experiment)" order
is "the old one" "$(cat before)" old
is "files in its folder" "$(ls -A full)" j
rm -r full before
printf 'label\ttext\n' > data.tsv
run 1 compare order --resume data.tsv
has err 'data.tsv: is not a file of cells'
is "the data" "$(cat data.tsv)" "$(printf 'label\ttext')"

# What cannot be.
run 2 compare
run 2 compare --quick
has err 'which experiment\? There is: speed, heads, length, gradients, order'
run 2 compare headss
has err "there is no experiment 'headss'; there is: speed"
run 2 compare order heads
run 2 compare order --seeds 0
run 2 compare order --data data.tsv --quick
has err "^qkv compare: --data: 'order' reads no data"
has err "'qkv help compare' shows how it is used"
run 0 help compare order
has out '^ *order: without positions'
run 2 help compare orders
run 2 compare order --html -
run 2 compare order --resume -
run 2 compare heads --data -
run 2 compare order --html x --json x
has err '--html and --json name the same file'
run 1 compare order --html nowhere/page.html
run 1 compare order --json nowhere/j
run 1 compare heads --data nowhere.tsv --quick
has err 'nowhere.tsv: No such file'
printf 'a\tone\na\ttwo\n' > one.tsv
run 1 compare heads --data one.tsv --quick
has err 'all rows have one label'

# Ctrl-C: what is done is printed and kept, and it says how to go on.
for signal in INT:130 TERM:143; do
    last="qkv compare, then ${signal%:*}"
    rm -f kept
    "$QKV" compare heads --threads 1 --quick --resume kept --json j > out 2> err &
    pid=$!
    wait_for kept '"cell"' $pid
    kill "-${signal%:*}" $pid
    wait $pid
    is "exit code after $signal" $? "${signal#*:}"
    has out '^claim +article A, row 3: '
    has out '^verdict +cannot be judged: '
    has out "^ours +Not all of it was measured: 'qkv compare heads --quick' has to run to its end"
    has out '1,048,576 weights'
    hasnt out '[? ]\?'
    has err 'measurements are done and are in kept\. To go on:$'
    has err '^qkv compare heads --threads 1 --quick --resume kept --json j$'
    at_least "done" "$(json j done)" 1
    is "verdict of what is exact" "$(json j claims.0.verdict)" "holds in part"
    is "so far" "$(json j claims.0.so_far)/$(json j claims.1.so_far)" false/true
done
finish
