# qkv attend
. "$(dirname "$0")/lib.sh"

# (a) The worked example.
run 0 attend --example
has out '\[\[3\.5355, 1\.4142\]'
has out '\[2\.1213, 0\.7071\]\]'
has out '\[\[0\.8930, 0\.1070\]'
has out '\[0\.8044, 0\.1956\]\]'
has out '\[\[1\.0000, 0\.8930\]'
has out '\[1\.0000, 0\.8044\]\]'
for name in X Wq Wk Wv Q K V scores weights output; do has out "^  $name +\\[\\["; done
run 0 attend --example --json
json out output.0.1 | grep -q '^0\.89295' || fail "output: $(json out output.0.1)"

# (b) The calculator gives the same for the same matrices.
printf '1 2\n1 1\n' > q
printf '1,2\n0,1\n' > k
printf '# values\n1\t1\n\n1\t0 # the last row\n' > v
"$QKV_JSON" out output > example
run 0 attend --q q --k k --v v --json
"$QKV_JSON" out output > got
same got example
run 0 attend --q q --k k --v v --weights --lse
has out '^# output$'
has out '^# weights of head 0$'
has out '^0\.89295[0-9]* 0\.10704[0-9]*$'
has out '^# lse$'
has out '^3\.648[0-9]*$'
is "lines" "$(lines out)" 9
run 0 attend --q q --k k --v v --causal
is "the first query sees the first key alone" "$(head -n 1 out)" "1 1"
run 0 attend --q q --k k --v v --window 0,0 --weights
is "a window of itself" "$(tail -n 2 out | tr '\n' ' ')" "1 0 0 1 "
run 0 attend --q q --k k --v v --scale 1e-30
is "a scale of almost 0: the mean" "$(tail -n 1 out)" "1 0.5"

# Which neighbours: L to the left, R to the right, besides itself.
printf '0\n0\n0\n0\n0\n' > zeros
run 0 attend --q zeros --k zeros --v zeros --window 1,2 --weights
is "the row of query 2" "$(tail -n 5 out | sed -n 3p)" "0 0.25 0.25 0.25 0.25"
is "the row of query 0" "$(tail -n 5 out | sed -n 1p | tr ' ' '\n' | grep -c '^0\.333')" 3
printf '0\n0\n' > two
run 2 attend --q q --k k --v v --causal --window 5,7
has err 'contradict each other'
run 0 attend --q two --k zeros --v zeros --causal --weights
is "fewer queries than keys: the last stand together" "$(tail -n 2 out | tr '\n' ';')" "0.25 0.25 0.25 0.25 0;0.2 0.2 0.2 0.2 0.2;"
run 0 attend --q zeros --k two --v two --causal --lse
is "who sees nothing gets 0" "$(sed -n 2,4p out | tr '\n' ' ')" "0 0 0 "
is "and a log-sum-exp of -inf" "$(tail -n 5 out | head -n 3 | tr '\n' ' ')" "-inf -inf -inf "
run 0 attend --q zeros --k two --v two --causal --lse --json
is "null in JSON" "$(json out lse.0.0)" null

# Numbers read back to the same float: one key with weight 1 hands its value through.
printf '0 0\n' > zero
printf '1 1\n' > one
printf '0.1 16777217 1e-45 3.4028235e+38 -0.33333334 1.17549435e-38 123456.79\n' > many
run 0 attend --q zero --k one --v many
is "numbers" "$(cat out)" "0.1 16777216 1e-45 3.4028235e+38 -0.33333334 1.1754944e-38 123456.79"
locale=de_DE.UTF-8 run 0 attend --q zero --k one --v many
is "numbers in another locale" "$(cat out)" "0.1 16777216 1e-45 3.4028235e+38 -0.33333334 1.1754944e-38 123456.79"
printf 'nan inf -inf\n' > special
run 0 attend --q zero --k one --v special
is "nan and inf" "$(cat out)" "nan inf -inf"
printf '1 nan\n' > nanq
run 0 attend --q nanq --k one --v one
is "NaN in a visible input stays" "$(cat out)" "nan nan"

# Heads: each works on its columns; grouped heads share keys and values.
printf '1 2 0 1\n1 1 1 3\n' > q4
printf '1 2 5 1\n0 1 2 2\n' > k4
printf '1 1 7 8\n1 0 9 1\n' > v4
run 0 attend --q q4 --k k4 --v v4 --heads 2
mv out both
for columns in '1,2' '3,4'; do
    for m in q k v; do cut -d ' ' -f "$columns" ${m}4 > $m.part; done
    run 0 attend --q q.part --k k.part --v v.part
    cut -d ' ' -f "$columns" both > expected
    same out expected
done
run 0 attend --q q4 --k k --v v --heads 2 --kv-heads 1
for columns in '1,2' '3,4'; do
    cut -d ' ' -f "$columns" out > got
    cut -d ' ' -f "$columns" q4 > q.part
    "$QKV" attend --q q.part --k k --v v > expected
    same got expected
    run 0 attend --q q4 --k k --v v --heads 2 --kv-heads 1
done

# .npy: the header as NumPy writes it, little-endian f4 and f8.
npy() { # FILE VERSION DESCR SHAPE ORDER: the bytes of the numbers come from standard input
    local header="{'descr': '$3', 'fortran_order': $5, 'shape': $4, }" length
    while [ ${#header} -lt 117 ]; do header="$header "; done
    length=$((${#header} + 1))
    {
        printf '\x93NUMPY'
        # shellcheck disable=SC2059
        if [ "$2" = 1 ]; then printf "\\x01\\x00\\x$(printf %02x $length)\\x00"; else printf "\\x02\\x00\\x$(printf %02x $length)\\x00\\x00\\x00"; fi
        printf '%s\n' "$header"
        cat
    } > "$1"
}
printf '\0\0\x80\x3f\0\0\0\x40\0\0\x80\x3f\0\0\x80\x3f' > f4 # 1 2 1 1
printf '\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\xf0\x3f' > f8
run 0 attend --q q --k k --v v
mv out expected
npy q.npy 1 '<f4' '(2, 2)' False < f4
run 0 attend --q q.npy --k k --v v; same out expected
npy q.npy 2 '<f8' '(2, 2)' False < f8
run 0 attend --q q.npy --k k --v v; same out expected
npy q.npy 1 '>f4' '(2, 2)' False < f4
run 1 attend --q q.npy --k k --v v
has err "q.npy: numbers of type '>f4'; known are '<f4' and '<f8'"
npy q.npy 1 '<i8' '(2, 2)' False < f8
run 1 attend --q q.npy --k k --v v
npy q.npy 1 '<f4' '(2, 2)' True < f4
run 1 attend --q q.npy --k k --v v
has err 'Fortran order'
npy q.npy 1 '<f4' '(2, 3)' False < f4
run 1 attend --q q.npy --k k --v v
has err '2 x 3 numbers of 4 bytes are announced, 16 bytes follow'
npy q.npy 1 '<f4' '(999999999, 999999999)' False < f4
run 1 attend --q q.npy --k k --v v
npy q.npy 1 '<f4' '(99999999999999999999, 2)' False < f4
run 1 attend --q q.npy --k k --v v
npy q.npy 1 '<f4' '(2, 1)' False < f4
run 1 attend --q q.npy --k k --v v
has err '16 bytes follow the header, 2 x 1 numbers need 8'
npy q.npy 1 '<f4' '(1, 2, 2)' False < f4
run 1 attend --q q.npy --k k --v v
has err 'not that of a matrix'
for bytes in 6 7 8 9 10 60 128; do
    npy q.npy 1 '<f4' '(2, 2)' False < f4
    head -c $bytes q.npy > short.npy
    run 1 attend --q short.npy --k k --v v
done
last="a .npy file from a pipe"
"$QKV" attend --q - --k k --v v < q.npy > out 2> err
is "exit code" $? 1
has err 'a .npy file can be read only by its name'

# Pipes, and matrices without rows.
"$QKV" attend --q - --k k --v v < q > out 2> err; same out expected
"$QKV" attend --q <(cat q) --k <(cat k) --v <(cat v) > out 2> err; same out expected
: > none
run 0 attend --q none --k k --v v
empty out
run 0 attend --q q --k none --v none
is "no keys" "$(tr '\n' ';' < out)" "0 0;0 0;"

# Refusals with numbers.
printf '1 2 3 4 5\n' > k5
printf '1 2 3 4\n1 2 3 4\n1 2 3 4\n' > q34
run 2 attend --q q34 --k k5 --v v
has err 'q is 3 x 4 but k has width 5'
run 2 attend --q q --k k --v many
has err 'k has 2 rows but v has 1'
run 2 attend --q q34 --k q34 --v q34 --heads 3
has err 'q is 3 x 4; its width does not split into 3 heads'
run 2 attend --q q34 --k q34 --v q34 --heads 4 --kv-heads 3
has err '--kv-heads 3 does not divide --heads 4'
run 2 attend --q q34 --k q34 --v q34 --heads 4 --kv-heads 2
has err 'k in 2 heads has width 2, not 4'
run 2 attend --q q --k k
has err '--v FILE is missing'
run 2 attend --example --q q --k k --v v
run 2 attend --q - --k - --v v
printf '1 2\n3\n' > ragged
run 1 attend --q ragged --k k --v v
has err 'ragged:2: 1 number, the rows above have 2'
printf '1 two\n' > word
run 1 attend --q word --k k --v v
has err "word:1: 'two' is not a number"
for line in '1,,2' '1, ,2' '1 ,	,2' '1,,2 # two' ',1' '1,2,' '1,2, # end'; do
    printf '# cells\n%s\n' "$line" > cells
    run 1 attend --q cells --k k --v v
    case $line in ,*) column=1 ;; 1,2,*) column=3 ;; *) column=2 ;; esac
    has err "^qkv: cells:2: column $column is empty"
done
printf '1 ,\t2#two\n 1,1 \n' > cells
run 0 attend --q cells --k k --v v --json
"$QKV_JSON" out output > got
same got example
printf '1 1e39\n' > large
run 1 attend --q large --k k --v v
has err '1e39 is too large for 32 bits'
run 1 attend --q nowhere --k k --v v
has err 'nowhere: No such file'
run 2 attend --q q --k k --v v --window 1
run 2 attend --q q --k k --v v --heads 0
for window in 16777217,0 -1,16777217 99999999999,0; do
    run 2 attend --q q --k k --v v --window=$window
    has err "^qkv attend: --window=$window: the most is 16777216"
done
run 0 attend --q q --k k --v v --window 16777216,16777216

# An option of another kind of attend would be ignored: it is refused.
for option in --causal --weights --lse --scale=1 --window=1,1 --heads=1 --kv-heads=1; do
    run 2 attend "$model" "text" "$option"
    has err "^qkv attend: ${option%=*} does not go with MODEL$"
    run 2 attend --example "$option"
    has err "^qkv attend: ${option%=*} does not go with --example$"
done
for option in --layer=0 --head=0 --max-length=8 --rope-stretch=ntk; do
    run 2 attend --q q --k k --v v "$option"
    has err "^qkv attend: ${option%=*} does not go with --q, --k and --v$"
    run 2 attend --example "$option"
done
run 0 attend --example --json --threads 1

# (c) The weights of a trained model.
run 0 attend "$model" "The rose, the SEA" --threads 1
has out '^layer 0, head 0'
has out '(_SEA|SEA)'
run 0 attend "$model" "The rose, the SEA" --layer 0 --head 1 --json --threads 1
is head "$(json out head)" 1
n=$(json out tokens_before_cut)
at_least tokens "$n" 2
i=0
while row=$("$QKV_JSON" out "weights.$i" 2> /dev/null) && [ -n "$row" ]; do
    echo "$row" | tr -d '[]' | awk -F , -v n="$n" '{ s = 0; for (j = 1; j <= NF; j++) s += $j; exit !(NF == n && s > 0.9999 && s < 1.0001) }' ||
        fail "row $i does not add up to 1: $row"
    i=$((i + 1))
done
is "rows" "$i" "$n"
run 0 attend "$model" "" --threads 1
has err 'the text has no tokens'
is "output of no tokens" "$(cat out)" ""
run 2 attend "$model" "text" --layer 1
has err 'layer 1 is out of range: the model has 1'
run 2 attend "$model" "text" --head 2
run 2 attend "$model"
has err 'which text'
run 1 attend nowhere "text"
finish
