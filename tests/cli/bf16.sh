# --dtype bf16: training, what the model remembers, what predict and test make of it.
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv
dev=$QKV_MODELS/dev.tsv
texts=$QKV_MODELS/texts.txt
small="--size tiny --epochs 5 --max-length 24"

run 0 train classify "$train" "$dev" -o one $small --threads 1 --dtype bf16
mv err said
run 0 info --json
peak="bf16 peak"
[ "$(json out bf16_gflops)" != null ] || peak="FMA peak" # it is emulated with f32's operations
has said "^machine .*, $peak [0-9.]+ "
has said "^done .* % of $peak\$"
run 0 train classify "$train" "$dev" -o two $small --threads 2 --dtype bf16
same one two # for any number of threads
hasnt err 'attention in f32'
run 0 train classify "$train" "$dev" -o turned $small --dtype bf16 --position rope
has err 'linear maps run in bf16, attention in f32: .* positions rope, t5 or shaw'
for given in "--position alibi" "--position t5" "--window 4,4 --global-first 1" "--window 4,4"; do
    # shellcheck disable=SC2086
    run 0 flops --layers 2 --dim 16 --heads 2 --seq 20 --dtype bf16 --no-time $given
    case $given in
    *t5 | *global*) has out '; forward, bf16, attention in f32$' ;;
    *) has out '; forward, bf16$' ;;
    esac
done
run 0 train classify "$train" "$dev" -o again $small --threads 2 --dtype bf16 --recompute blocks
"$QKV" predict one "$texts" --top 3 > first
"$QKV" predict again "$texts" --top 3 > out
same out first
run 0 info one --json
is "the file remembers" "$(json out config.bf16)" true
run 0 test one "$dev" --json --threads 1
at_least "accuracy on rows it has not seen" "$(json out accuracy)" 0.95

# A text's answer does not depend on what stands beside it.
head -n 1 "$texts" | "$QKV" predict one --top 3 > out
is "a text alone" "$(cat out)" "$(head -n 1 first)"

# Either way of computing, whatever the model was trained with; the answers are close, and not the same bits.
run 0 predict one "$texts" --top 3 --dtype bf16; same out first
run 0 predict one "$texts" --top 3 --dtype f32
mv out exact
cmp -s exact first && fail "f32 and bf16 give the same digits"
paste exact first | awk -F '\t' '{ d = $2 - $8; if (d < -0.02 || d > 0.02) exit 1 }' || fail "f32 and bf16 are far apart"
run 0 test "$model" "$dev" --json --dtype bf16 --threads 1
at_least "accuracy of a model trained with f32" "$(json out accuracy)" 0.95
run 0 info "$model" --json
hasnt out 'bf16'

# Where it is emulated that is said, once.
QKV_ISA=scalar run 0 predict one "$texts"
is "said" "$(grep -c 'bf16 emulated here (scalar kernels): slower than f32' err)" 1
QKV_ISA=scalar run 0 predict one "$texts" --dtype f32
empty err

run 2 predict one "$texts" --dtype f16
has err 'dtype=f16: expected f32 or bf16'
run 2 train classify "$train" "$dev" -o x --dtype half
has err 'dtype=half: expected one of f32\|bf16'
finish
