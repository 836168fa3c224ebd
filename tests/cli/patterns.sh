# Patterns of attention: what a name stands for, that each trains, is saved and read again, what is counted, and what is refused.
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv
small="--dim 16 --heads 2 --layers 3 --steps 3 --ngrams 0 --threads 2"

# name or options | lines of the config
while IFS='|' read -r given lines; do
    # shellcheck disable=SC2086
    run 0 train classify "$train" -o m $small $given
    run 0 info m
    for line in $lines; do has out "^  ${line%=*}  *${line#*=}\$"; done
    run 0 test m "$train"
    run 0 attend m "some words of a text that is read" --json
done << 'END'
--pattern local|span_left=64 span_right=64
--pattern global --window 2,2|span_left=2 global_first=1
--pattern alternating --position rope|full_every=3 rope_base=160000 local_rope_base=10000
--pattern sparse --window 1,1 --block 4|random_blocks=3 block=4 global_first=4
--window 2,1 --dilation 3 --global-every 5|dilation=3 global_every=5
--window 1,1 --global-first 1 --global-projection|global_projection=yes
END
run 0 train classify "$train" -o m $small --pattern global --global-projection --causal --window 3,0 --json
has err '^model +3 layers, dim 16, 2 heads, ffn 64, window 3,0, global tokens: the first 1 with projections of their own, positions '
is "the network" "model $(json out plan.network)" "$(sed -n 's/^model  */model /p' err | head -n 1)"
run 0 info m
has out '^network +3 layers, dim 16, 2 heads, ffn 64, window 3,0,'
has out '^encoder\.2\.attention\.global\.q\.weight '

# Pairs: 10 tokens, neighbours on both sides 28; with token 0 global 8 more that see it, 8 more that it sees.
run 0 flops --dim 8 --heads 1 --seq 10 --window 1,1 --no-output-projection --no-time --json
is pairs "$(json out 'macs.operations.weights x values')" $((28 * 8))
run 0 flops --dim 8 --heads 1 --seq 10 --window 1,1 --global-first 1 --no-output-projection --no-time --json
is pairs "$(json out 'macs.operations.weights x values')" $(((28 + 16) * 8))
run 0 flops --layers 6 --dim 64 --heads 2 --seq 4096 --pattern alternating --no-time
has out ', window 64,64, one layer in 3 full, '
run 0 flops --layers 2 --dim 64 --heads 2 --seq 4096 --pattern sparse --no-time
has out ', window 64,64, global tokens: the first 64, 3 random blocks of 64, '
# Twice the tokens, twice the pairs.
run 0 flops --dim 64 --heads 1 --seq 65536 --window 64,64 --global-first 4 --no-time --json
far=$(json out 'macs.operations.weights x values')
run 0 flops --dim 64 --heads 1 --seq 32768 --window 64,64 --global-first 4 --no-time --json
at_least "twice the tokens" $((2 * $(json out 'macs.operations.weights x values') * 101 / 100)) "$far"

# One line each: what is wrong | what is said.
while IFS='|' read -r given said; do
    # shellcheck disable=SC2086
    run 2 train classify "$train" -o m --steps 2 $given
    has err "$said"
done << 'END'
--global-first 1|global tokens without a window: every token sees all anyway
--random-blocks 2|random_blocks without a window
--window 4,4 --global-projection|global_projection without global tokens
--window 4,4 --random-blocks 2 --dilation 2|random_blocks=2 and dilation=2
--window 4,4 --block 16|block=16 is of random_blocks
--window 4,4 --global-first 1 --position shaw|position=shaw goes with windows, not with
--window 4,4 --local-rope-base 100|has no effect
--position rope --window 4,4 --local-rope-base 100|set full_every
--model lstm --pattern local|pattern has no effect with --model lstm
--window 4,4 --global-first 1 --global-projection --qk-norm|not normalised
END
finish
