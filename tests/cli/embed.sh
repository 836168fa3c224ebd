# qkv embed: a vector for each row, as text or as .npy, whatever the row holds.
. "$(dirname "$0")/lib.sh"
texts=$QKV_MODELS/texts.txt
dev=$QKV_MODELS/dev.tsv
one="--threads 1"

run 0 embed "$model" "$texts" $one
mv out plain
empty err
is lines "$(lines plain)" 120
run 0 info "$model" --json
dim=$(json out config.dim)
is "numbers in a line" "$(awk -F '\t' '{ print NF }' plain | sort -u)" "$dim"
hasnt plain '[^-+.e0-9	]'

# The same vectors from a pipe, from gzip, from a column, by two threads, alone.
"$QKV" embed "$model" $one < "$texts" > out; same out plain
gzip -c "$texts" > texts.gz
run 0 embed "$model" texts.gz $one; same out plain
run 0 embed "$model" "$dev" --column 2 $one; same out plain
run 0 embed "$model" "$texts" --threads 2; same out plain
sed -n 7p "$texts" | "$QKV" embed "$model" $one > out
sed -n 7p plain > seventh
same out seventh
sed 's/"/""/g; s/.*/"&"/; 1i text' "$texts" > texts.csv
run 0 embed "$model" texts.csv $one; same out plain
run 0 embed "$model" "$texts" $one --dtype bf16
is "lines of bf16" "$(lines out)" 120
checks=$((checks + 1))
cmp -s out plain && fail "bf16 changes nothing"

# A file, and its format by its name.
run 0 embed "$model" "$texts" $one -o vectors.tsv
empty out
same vectors.tsv plain
for name in vectors v.d/vectors.txt; do
    mkdir -p v.d
    run 0 embed "$model" "$texts" $one -o $name; same $name plain
done
for name in v.npy.gz v.csv v.tsv.gz v.npz; do
    run 2 embed "$model" "$texts" $one -o $name
    has err "^qkv embed: -o $name: vectors are written as NumPy's \\(.npy\\) or as text"
    [ ! -e $name ] || fail "$name was written"
done
run 0 embed "$model" "$texts" $one -o -; same out plain
run 0 embed "$model" $one -o vectors.npy < "$texts"
is "bytes of the .npy" "$(wc -c < vectors.npy | tr -d ' ')" $((128 + 120 * dim * 4))
is "its start" "$(head -c 10 vectors.npy | od -An -tx1 | tr -d ' \n')" 934e554d505901007600
is "its header" "$(head -c 128 vectors.npy | tail -c +11 | tr -d '\n' | sed 's/ *$//')" \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (120, $dim), }"
# qkv reads both, and to the same bits: what it makes of them is the same.
run 0 attend --q vectors.npy --k vectors.npy --v vectors.npy --causal $one
mv out of.npy
run 0 attend --q plain --k plain --v plain --causal $one; same out of.npy

: > nothing
run 0 embed "$model" nothing $one -o none.npy
is "no rows" "$(wc -c < none.npy | tr -d ' ')" 128
has none.npy "'shape': \(0, $dim\)"
"$QKV" embed "$model" $one < nothing > out; empty out

# Unit length.
run 0 embed "$model" "$texts" $one --normalize-vectors
awk -F '\t' '{ s = 0; for (i = 1; i <= NF; i++) s += $i * $i; if (s < 0.99999 || s > 1.00001) exit 1 }' out || fail "lengths other than 1"
awk -F '\t' 'NR == FNR { a[NR] = $1 / $2; next } { d = a[FNR] - $1 / $2; if (d * d > 1e-8 * a[FNR] * a[FNR]) exit 1 }' plain out || fail "other directions"

# Any input; an empty text has a vector too.
printf 'rose\n\nnul \000 byte\n\xff\xfe\n   \nsky' > odd
run 0 embed "$model" odd $one --normalize-vectors
is "vectors of odd lines" "$(lines out)" 6
is "numbers of odd lines" "$(awk -F '\t' '{ print NF }' out | sort -u)" "$dim"
hasnt out nan
printf 'red\trose\nred\n' > short
run 0 embed "$model" short --column 2 $one
has err '^qkv: warning: no column 2 in 1 of 2 lines, first in line 2'

# Vectors come before the input ends.
last="qkv embed on a pipe"
coproc P { exec "$QKV" embed "$model" $one 2> err; }
exec 4>&"${P[1]}" 5<&"${P[0]}"
pid=$P_PID
sed -n 7p "$texts" >&4
answer=none
read -r -t 60 answer <&5
is "the vector while the pipe is open" "$answer" "$(cat seventh)"
eval "exec 4>&- ${P[1]}>&-"
wait "$pid"
is "exit code" $? 0

# A file is there whole or not at all.
mkdir place
cp vectors.npy place/v.npy
head -c 60 texts.gz > cut.gz
run 1 embed "$model" cut.gz $one -o place/v.npy
has err 'cut.gz'
same place/v.npy vectors.npy
is "what is beside it" "$(ls place)" v.npy
run 1 embed "$model" "$texts" $one -o nowhere/v.npy
has err 'nowhere/v.npy'
run 1 embed "$model" "$texts" $one -o place
has err 'place: is a folder'
if [ -z "${QKV_SIGNALS_HELD_BACK:-}" ]; then
    for signal in INT:130 TERM:143; do
        last="qkv embed -o, then ${signal%:*}"
        mkfifo pipe
        set -m
        "$QKV" embed "$model" pipe $one -o place/v.npy 2> err &
        pid=$!
        set +m
        exec 6> pipe
        echo rose >&6
        for _ in $(seq 600); do [ "$(ls place | wc -l)" = 2 ] && break; sleep 0.1; done
        kill "-${signal%:*}" $pid
        wait $pid
        is "exit code after $signal" $? "${signal#*:}"
        exec 6>&-
        rm pipe
        is "what is beside it" "$(ls place)" v.npy
        same place/v.npy vectors.npy
    done
fi
if [ -z "${QKV_SANITIZED:-}" ]; then
    last="qkv embed of many lines with little memory"
    awk 'BEGIN { for (i = 0; i < 100000; i++) print "rose word" i % 100 }' > many
    (ulimit -v 400000; "$QKV" embed "$model" $one < many > out 2> err)
    is "exit code of many lines" $? 0
    is "many lines" "$(lines out)" 100000
    "$QKV" embed "$model" $one < many 2> err | head -n 1 > out
    is "exit code when the reader leaves" "${PIPESTATUS[0]}" 141
    empty err
fi
"$QKV" embed "$model" "$texts" $one > /dev/full 2> err
is "exit code with a full disk" $? 1
has err 'standard output: No space left on device'

run 2 embed
run 2 embed $one
has err 'MODEL is needed'
run 1 embed nowhere "$texts"
run 2 embed "$model" "$texts" --column 2 --format csv
has err '--column is for lines of text'
cp "$texts" mine.txt
ln -s mine.txt link.txt
cp "$model" mine.model
for place in mine.txt link.txt mine.model; do
    run 2 embed mine.model mine.txt -o $place
    has err "-o $place would overwrite the "
done
cmp -s mine.txt "$texts" && cmp -s mine.model "$model" || fail "embed wrote over its input"
run 2 embed "$model" "$texts" --normalise-vectors
has err 'did you mean --normalize-vectors'
finish
