# qkv predict: one line out for one line in.
. "$(dirname "$0")/lib.sh"
texts=$QKV_MODELS/texts.txt
dev=$QKV_MODELS/dev.tsv
one="--threads 1"

run 0 predict "$model" "$texts" $one
mv out plain
is lines "$(lines plain)" 120
is labels "$(sort -u plain | tr '\n' ' ')" "deep blue green red "
empty err

# The same answers from a pipe, from gzip, from a column, with CRLF, in another locale, beside other texts.
"$QKV" predict "$model" $one < "$texts" > out; same out plain
"$QKV" predict "$model" - $one < "$texts" > out; same out plain
gzip -c "$texts" > texts.gz
run 0 predict "$model" texts.gz $one; same out plain
run 0 predict "$model" "$dev" --column 2 $one; same out plain
sed 's/$/\r/' "$texts" > crlf
run 0 predict "$model" crlf $one; same out plain
locale=de_DE.UTF-8 run 0 predict "$model" "$texts" $one; same out plain
run 0 predict "$model" "$texts" --threads 2; same out plain
run 0 predict "$model" "$texts" --top 3 $one
mv out top
is "first label" "$(cut -f 1 top | cmp - plain && echo same)" same
awk -F '\t' 'NF != 6 || $2 < $4 || $4 < $6 || $2 + $4 + $6 < 0.99999 || $2 + $4 + $6 > 1.00001 { exit 1 }' top || fail "--top 3: $(head -n 2 top)"
head -n 1 "$texts" | "$QKV" predict "$model" --top 3 $one > out
is "a text alone" "$(cat out)" "$(head -n 1 top)"
run 0 predict "$model" "$texts" --top 99 $one; same out top
run 0 predict "$model" "$texts" --json $one
is "objects" "$(json out label | lines /dev/stdin)" 120
json out label > labels; same labels plain
at_least "probability of red" "$(json out probabilities.red | sort -rg | head -n 1)" 0.5
run 0 predict "$model" "$texts" --json --top 1 $one
is "one probability" "$(grep -c '^{"label":"[a-z ]*","probabilities":{"[a-z ]*":[0-9.e-]*}}$' out)" 120

# Only what is probable enough; a line stays a line.
run 0 predict "$model" "$texts" --min-probability 0 $one; same out plain
run 0 predict "$model" "$texts" --min-probability 1.0 --top 3 $one
is "lines at 1" "$(lines out)" 120
awk -F '\t' '{ out = ""; for (i = 1; i < NF; i += 2) if ($(i + 1) >= 0.2) out = out (out == "" ? "" : "\t") $i "\t" $(i + 1); print out }' top > expected
run 0 predict "$model" "$texts" --top 3 --min-probability 0.2 $one; same out expected
# between two answers in the middle, so that rounding to six digits cannot matter
least=$(cut -f 2 top | sort -u | awk '{ p[NR] = $1 } END { m = int(NR / 2); printf "%.8f", (p[m] + p[m + 1]) / 2 }')
awk -F '\t' -v least="$least" '{ if ($2 >= least) print $1; else print "" }' top > expected
run 0 predict "$model" "$texts" --min-probability "$least" $one; same out expected
at_least "lines without a label" "$(grep -c '^$' out)" 10
at_least "lines with a label" "$(grep -c . out)" 10
run 0 predict "$model" "$texts" --min-probability "$least" --threads 2; same out expected
run 0 predict "$model" "$texts" --min-probability "$least" --json $one
is "objects without a label" "$(grep -c '^{"label":null,"probabilities":{}}$' out)" "$(grep -c '^$' expected)"
is "objects with one" "$(grep -c '^{"label":"[a-z ]*","probabilities":{"[a-z ]*":[0-9.e-]*}}$' out)" "$(grep -c . expected)"
run 2 predict "$model" "$texts" --min-probability 1.5
has err '--min-probability=1.5: expected'
run 2 predict "$model" "$texts" --min-probability nan

# Any input.
printf 'rose\n\nnul \000 byte\n\xff\xfe\n\t\tsea\n   \nsky' > odd
run 0 predict "$model" odd $one
is "answers to odd lines" "$(lines out)" 7
{ head -c 1000000 /dev/zero | tr '\0' x; echo; echo leaf; } > huge
run 0 predict "$model" huge $one
is "answers to a megabyte without a space" "$(lines out)" 2
is "after it" "$(tail -n 1 out)" green
: > nothing
run 0 predict "$model" nothing $one
empty out
"$QKV" predict "$model" $one < /dev/null > out 2> err; is "empty input" $? 0
empty out
last="qkv predict, standard input closed"
"$QKV" predict "$model" $one <&- > out 2> err; is "standard input closed" $? 1
has err '^qkv: standard input: '
empty out
printf 'red\trose\nred\nred\tsea\tsky\n' > short
run 0 predict "$model" short --column 2 $one
is "a line without the column" "$(lines out)" 3
has err '^qkv: warning: no column 2 in 1 of 3 lines, first in line 2'

# Answers come before the input ends.
last="qkv predict on a pipe"
coproc P { exec "$QKV" predict "$model" $one 2> err; }
exec 4>&"${P[1]}" 5<&"${P[0]}"
pid=$P_PID
for word in rose leaf sea; do
    echo "$word" >&4
    answer=none
    read -r -t 60 answer <&5
    case "$word $answer" in
    'rose red' | 'leaf green' | 'sea deep blue') checks=$((checks + 1)) ;;
    *) fail "the answer to $word, while the pipe is open: $answer" ;;
    esac
done
printf 'moss' >&4
eval "exec 4>&- ${P[1]}>&-"
read -r -t 60 answer <&5
is "the answer to a last line without a break" "$answer" green
wait "$pid"
is "exit code" $? 0

# Memory does not grow: 200,000 lines in a small address space.
if [ -z "${QKV_SANITIZED:-}" ]; then
    last="qkv predict of many lines with little memory"
    awk 'BEGIN { for (i = 0; i < 200000; i++) print "rose word" i % 100 }' > many
    (ulimit -v 400000; "$QKV" predict "$model" $one < many > out 2> err)
    is "exit code of many lines" $? 0
    is "many lines" "$(lines out)" 200000
    # Who reads may leave.
    "$QKV" predict "$model" $one < many 2> err | head -n 1 > out
    is "exit code when the reader leaves" "${PIPESTATUS[0]}" 141
    empty err
fi
"$QKV" predict "$model" "$texts" $one > /dev/full 2> err
is "exit code with a full disk" $? 1
has err 'standard output: No space left on device'

if ! thread_sanitizer; then # its own run-time dies at such a limit
    (ulimit -f 1; "$QKV" predict "$model" $one --top 3 < "$texts" > out 2> err)
    is "exit code at a limit on the size of files" $? 1
    has err 'standard output: File too large'
fi

# Refusals.
run 1 predict "$model" nowhere $one
has err 'nowhere: No such file'
run 1 predict nowhere "$texts"
has err 'nowhere: No such file'
run 1 predict "$texts" "$texts"
head -c 60 texts.gz > cut.gz
run 1 predict "$model" cut.gz $one
has err 'cut.gz'

# Weights that are finite, but whose sums are not: never a nan for an answer.
"$QKV_OVERFLOW" "$model" huge || fail "no model with huge weights"
printf '\n\nrose one\n' > overflow.txt
run 1 predict huge overflow.txt --top 3 --threads 1
has err "^qkv: overflow.txt:3: the model's answer is not a number: its weights are finite but so large"
hasnt out 'nan|inf'
is "answers before it" "$(lines out)" 2
run 1 predict huge --json --threads 1 < overflow.txt
has err '^qkv: standard input:3: '
hasnt out 'nan|null'
run 1 embed huge overflow.txt --threads 1
has err '^qkv: overflow.txt:3: '
is "vectors before it" "$(lines out)" 2
run 1 embed huge overflow.txt --threads 1 -o v.npy
[ ! -e v.npy ] || fail "vectors that are not whole"
awk '{ print "red\t" $0 }' overflow.txt > overflow.tsv
run 1 attend huge "rose one" --threads 1
has err "the text: the model's answer is not a number"
run 1 test huge overflow.tsv --threads 1
has err "^qkv: overflow.tsv:3: the model's answer is not a number"
empty out
finish
