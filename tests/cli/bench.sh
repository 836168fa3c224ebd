# qkv bench: cases, sizes, table, JSON, refusals, Ctrl-C. How fast anything is fails nothing here.
. "$(dirname "$0")/lib.sh"
set -m
little="--quick --seconds 0.01 --threads 1"

# Bare, it says what there is.
run 2 bench
empty out
has err 'qkv bench \[peak\|gemm\|'
has err '--quick'

# The list, without measuring.
run 0 bench --list
empty err
for name in gemm.nt gemm.nn gemm.tn attention.forward attention.backward attention.decode pointwise.adamw layer.both train.step predict.texts; do
    has out "^$name(,|  )"
done
has out '^attention\.decode, by heads  n 4096 d 64 heads 8 layout heads$'
has out '^attention\.backward, causal  n 1024 d 64 heads 8 window -1,0$'
has out '^attention\.forward, global  n 131072 d 64 heads 8 global first 1 global every 512 window 64,64$'
has out '^attention\.backward, sparse  n 512 d 64 heads 8 global first 64 random blocks 3 of 64 window 64,64$'
has out '^train\.step  n 512 d 512 heads 8 batch 16 layers 6 ffn 2048 dropout 0\.1$'
all=$(lines out)
run 0 bench --list --quick
at_least "cases less the short list" $((all - $(lines out))) 20
run 0 bench attention.decode --list
hasnt out '^attention\.(for|back)ward'
run 0 bench attention --n 2048 --list
is "cases of a size" "$(lines out)" 3
run 0 bench attention --n 2048 --window 8,8 --global-first 2 --global-every 64 --list
is "cases with global tokens" "$(lines out)" 2
has out '^attention\.backward  n 2048 d 64 heads 8 global first 2 global every 64 window 8,8$'
run 0 bench attention.forward --window 8,8 --random-blocks 2 --list
has out 'random blocks 2 of 64 window 8,8$'
run 0 bench peak --list
has out '^multiply-adds f32$'
has out '^L2, copy$'
is "ceilings" "$(lines out)" 14

# The table.
# shellcheck disable=SC2086
run 0 bench attention.forward --n 64 --dim 16 --heads 1 --window 4,4 --global-first 1 --random-blocks 1 --block 8 $little --json j
is "global tokens" "$(json j cases.0.global_first)" 1
is blocks "$(json j cases.0.random_blocks)" 1
# shellcheck disable=SC2086
run 0 bench gemm.nt --m 9 --n 33 --k 17 $little
has out '^ceilings, measured; threads +1$'
has out '^  multiply-adds f32 +[0-9.]+ GFLOP/s$'
has out '^  memory, read +[0-9.]+ GB/s$'
has out '^case +shape +threads +dtype +rate +share +floor +min +median +max$'
has out '^gemm\.nt +m 9 n 33 k 17 +1 +f32 +[0-9.]+ G(FLOP|B)/s +[0-9.]+ % +([0-9.]+ [mun]?s *){4}$'
is rows "$(grep -c '^gemm' out)" 1
# shellcheck disable=SC2086
run 0 bench peak $little
hasnt out '^case'
# Without --threads: one thread and all, where there are several.
run 0 info --json
threads=$(json out threads)
run 0 bench pointwise.norm --n 64 --dim 32 --quick --seconds 0.01
is "rows without --threads" "$(grep -c '^pointwise' out)" $((threads > 1 ? 2 : 1))

# JSON, beside the table or instead of it.
# shellcheck disable=SC2086
run 0 bench attention.forward --n 48 --dim 16 --heads 2 --window 8,8 --dropout 0.1 $little --json j
has out '^attention\.forward'
is case "$(json j cases.0.case)" attention.forward
is n "$(json j cases.0.n)" 48
is d "$(json j cases.0.d)" 16
is heads "$(json j cases.0.heads)" 2
is window "$(json j cases.0.window.1)" 8
is threads "$(json j cases.0.threads)" 1
is dtype "$(json j cases.0.dtype)" f32
is stopped "$(json j stopped)" false
is isa "$(json j machine.ceilings.0.threads)" 1
for number in gflops gbs share min_s median_s max_s floor_s flops bytes ceiling_gflops; do
    at_least "$number" "$(json j cases.0.$number)" 1e-12
done
at_least repeats "$(json j cases.0.repeats)" 1
at_least peak "$(json j machine.ceilings.0.fma_gflops)" 1e-6
at_least memory "$(json j machine.ceilings.0.memory.read_gbs)" 1e-6
# shellcheck disable=SC2086
run 0 bench gemm.tn --m 8 --n 8 --k 8 $little --json -
is "case on standard output" "$(json out cases.0.case)" gemm.tn
# shellcheck disable=SC2086
QKV_ISA=scalar run 0 bench gemm.nt --m 8 --n 8 --k 8 $little --json -
is isa "$(json out machine.isa)" scalar
# shellcheck disable=SC2086
run 0 bench attention.decode --n 64 --dim 16 --heads 2 --layout heads $little --json -
is layout "$(json out cases.0.layout)" heads
at_least "a read loop over its own bytes" "$(json out cases.0.ceiling_gbs)" 1e-6

# bf16: a case says what it ran in.
# shellcheck disable=SC2086
run 0 bench gemm.nt --m 8 --n 8 --k 8 $little --dtype bf16 --json j
has out '^gemm\.nt +m 8 n 8 k 8 +1 +bf16 '
is dtype "$(json j cases.0.dtype)" bf16
hasnt err 'runs in f32'
for case in pointwise.norm attention.decode recurrence.gru; do
    # shellcheck disable=SC2086
    run 0 bench $case --n 16 --dim 16 $little --dtype bf16 --json j
    is "dtype of $case" "$(json j cases.0.dtype)" f32
    is "notes on $case" "$(grep -c "^qkv: note: $case runs in f32 whatever --dtype says" err)" 1
done
# shellcheck disable=SC2086
QKV_ISA=scalar run 0 bench gemm.nt --m 8 --n 8 --k 8 $little --dtype bf16
is "notes on an emulation" "$(grep -c 'bf16 is emulated here (scalar)' err)" 1

# What cannot be.
run 2 bench atention
has err "there is no case 'atention'"
run 2 bench gemm attention
run 2 bench gemm --heads 8
has err "heads is not a size of 'gemm'"
run 2 bench --n 100
has err "n is not a size of 'all'"
run 0 bench train.step --dim 32 --heads 2 --layers 1 --n 8 --batch 1 $little
has out '^train.step .* d 32 .* ffn 128 '
run 0 bench train.step --dim 32 --ffn 48 --heads 2 --layers 1 --n 8 --batch 1 $little
has out '^train.step .* d 32 .* ffn 48 '
run 2 bench attention --global-first 1
has err 'global tokens without a window: every token sees all anyway'
run 2 bench attention.decode --dropout 0.1
has err 'dropout are of attention\.forward and attention\.backward, not of attention\.decode'
run 2 bench attention.forward --layout heads
has err 'layout is of attention\.decode, which has no windows'
run 2 bench gemm --layout heads
run 2 bench attention.decode --layout columns
has err '--layout=columns: expected rows or heads'
run 2 bench attention.decode --window 8,8
has err 'dropout are of attention\.forward and attention\.backward, not of attention\.decode'
run 2 bench attention --window 8,8 --block 16
has err 'block=16 is of random-blocks'
run 2 bench layer --global-every 4
has err "global-every is not a size of 'layer'"
run 2 bench gemm --m 0
has err '--m=0: expected a whole number from 1 to'
run 2 bench gemm --m 99999999999
run 2 bench attention --dropout 1
run 2 bench attention --heads 6 --kv-heads 4
has err 'kv-heads=4 does not divide heads=6'
run 2 bench layer --dim 100 --heads 3
run 2 bench gemm --dtype f16
has err '--dtype=f16: expected f32 or bf16'
run 2 bench gemm --threads 0
run 1 bench gemm.nt --m 8 --n 8 --k 8 --json nowhere/j
has err 'nowhere/j: JSON could not be written there: No such file'
# shellcheck disable=SC2086
run 1 bench gemm.nt --m 16777216 --n 16777216 --k 16 $little
has err 'needs 1\.13e\+06 GB of memory'
empty out # refused before anything was measured
# shellcheck disable=SC2086
run 1 bench gemm --m 16777216 --n 16777216 $little
has err 'GB of memory'
empty out
# Among several, what does not fit is left out, with the reason.
if [ -z "${QKV_SANITIZED:-}" ]; then
    last="qkv bench in a small address space"
    # shellcheck disable=SC2086
    (ulimit -v 250000; "$QKV" bench attention --n 100000 --dim 16 --heads 8 --window 1,1 $little --json j > out 2> err)
    is "exit code with little memory" $? 0
    has out '^attention\.backward .*not measured: '
    is "left out" "$(json j left_out.1.case) $(json j left_out.1.n)" "attention.backward 100000"
    json j left_out.1.why | grep -q memory || fail "no reason in left_out"
fi

# Ctrl-C: what is done is printed and written.
for signal in INT:130 TERM:143; do
    rm -f j out # the last round's
    last="qkv bench, then ${signal%:*}"
    # shellcheck disable=SC2086
    "$QKV" bench attention --n 64 --dim 16 --heads 1 $little --seconds 3600 --json j > out 2> err &
    pid=$!
    wait_for out '^case' $pid
    sleep 0.3
    kill "-${signal%:*}" $pid
    wait $pid
    is "exit code after $signal" $? "${signal#*:}"
    has err 'stopping after the step or repeat at hand'
    has err '^qkv: stopped; 0 of 3 cases are done$'
    at_least "peak in the JSON of a stopped run" "$(json j machine.ceilings.0.fma_gflops)" 1e-6
    is "stopped" "$(json j stopped)" true
done

# While the machine is measured, too.
last='qkv bench peak, then INT'
"$QKV" bench peak > out 2> err &
pid=$!
sleep 0.5
kill -INT $pid
wait $pid
is 'exit code of ceilings that are stopped' $? 130

run 2 bench --list --json j
has err '--list measures nothing'

# Killed, it leaves the file that was there.
mkdir place
echo old > place/j
last="qkv bench, then KILL"
# shellcheck disable=SC2086
"$QKV" bench attention --n 64 --dim 16 --heads 1 $little --seconds 3600 --json place/j > out 2> err &
pid=$!
wait_for out '^case' $pid
kill -KILL $pid
wait $pid 2> /dev/null
is "what a killed run leaves" "$(ls place) $(cat place/j)" "j old"

# A reader that has enough ends it, without a word.
last="qkv bench | head -1"
# shellcheck disable=SC2086
"$QKV" bench pointwise --n 64 --dim 32 $little --seconds 1 --json j 2> err | head -1 > out
is "exit code without a reader" "${PIPESTATUS[0]}" 141
empty err
is "stopped" "$(json j stopped)" true
[ "$(json j cases | grep -o '"case":' | wc -l)" -le 2 ] || fail "went on without a reader"
finish
