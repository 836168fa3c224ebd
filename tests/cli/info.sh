# qkv info
. "$(dirname "$0")/lib.sh"

run 0 info
has out '^instruction set +(scalar|avx2|avx512|neon)$'
has out '^  why +[a-z]'
has out '^  present .*scalar'
has out '^cores allowed +[0-9]+$'
has out '^threads +[0-9]+$'
has out '^FMA peak, measured +[0-9.]+ [kMGT]?FLOP/s'
has out '^memory read +[0-9.]+ [kMG]B/s'
has out '^memory update +[0-9.]+ [kMG]B/s'
has out '^build +(gcc|clang)'
empty err
run 0 info --json --threads 1
is threads "$(json out threads)" 1
at_least "FMA peak" "$(json out fma_gflops_core)" 0.001
is version "qkv $(json out version)" "$("$QKV" --version)"
json out present | grep -q scalar || fail "scalar is not present"
QKV_ISA=scalar run 0 info --json --threads 1
is isa "$(json out isa)" scalar
has out 'asked for'

run 0 info "$model"
has out '^task +classify$'
has out '^labels +3: deep blue, green, red$'
has out '^parameters +[0-9,]+$'
has out '^in memory +[0-9.]+ [kM]B \(weights, copies laid out for the kernels(, the linear model)?\)$'
is "of a linear model" "$(grep -c '^linear ' out)" "$(grep -c 'the linear model)' out)"
has out 'FLOP a token$'
for name in vocab classes layers dim heads kv_heads ffn max_length position pooling norm activation bias dropout; do
    has out "^  $name +[^ ]"
done
has out '^  kind +bpe$'
has out '^  lowercase +yes$'
has out '^[a-z0-9_.]+\.weight +[0-9]+ x [0-9]+ +[0-9,]+ +(yes|no)$'
has out '^  seed|^    seed'
empty err
run 0 info "$model" --json
is task "$(json out task)" classify
is labels "$(json out labels.2)" red
# The table adds up.
count=$(json out parameter_count)
sum=0
i=0
while n=$("$QKV_JSON" out "parameters.$i.count" 2> /dev/null) && [ -n "$n" ]; do
    sum=$((sum + n))
    i=$((i + 1))
done
is "sum of the parameters" "$sum" "$count"

run 1 info nowhere
has err 'nowhere: No such file'
run 1 info max_length # the name of an option, but here of a file
has err '^qkv: max_length: No such file'
run 1 info "$QKV_MODELS/train.tsv"
run 2 info "$model" another
finish
