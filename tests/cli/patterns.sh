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
--pattern global --window 2,2|span_left=2 global_first=64
--pattern alternating --position rope|full_every=3 rope_base=160000 local_rope_base=10000
--pattern sparse --window 1,1 --block 4|random_blocks=3 block=4 global_first=4
--window 2,1 --dilation 3 --global-every 5|dilation=3 global_every=5
--window 1,1 --global-first 1 --global-projection|global_projection=yes
--window 1,1 --global-first 1 --global-projection --qk-norm|qk_norm=yes
--window 2,1 --dilation 2 --global-every 5 --position shaw|position=shaw dilation=2
--pattern sparse --window 1,1 --block 4 --global-projection --position shaw|random_blocks=3 position=shaw
--window 1,1 --global-at 5,0|span_left=1
--max-length 2000|span_left=64 full_every=3
--max-length 2000 --causal|span_left=64 span_right=0 full_every=3
--max-length 2000 --pattern full|span_left=-1
--max-length 2000 --window 3,3|span_left=3
END

# What nobody asked for is said, and only that.
run 0 train classify "$train" -o m $small --max-length 1025
has err 'texts of up to 1025 tokens: one layer in 3 sees all of a text, the others 64 tokens on each side \(--pattern full'
for given in "--max-length 1024" "--max-length 2000 --layers 2" "--max-length 2000 --pattern alternating" "--max-length 2000 --segment tokens"; do
    # shellcheck disable=SC2086
    run 0 train classify "$train" -o m $small $given
    hasnt err 'one layer in 3 sees all of a text'
done
run 0 flops --layers 3 --dim 16 --heads 2 --seq 1025 --no-time
has out ', window 64,64, one layer in 3 full'
run 0 flops --layers 3 --dim 16 --heads 2 --seq 1024 --no-time
hasnt out 'window'

# Global tokens by what they are: in training, in a file, in a map, in a count.
i=0
while [ $i -lt 30 ]; do
    printf 'yes\tone two? three four five six. seven eight\tis two there\nno\tone six? three four\tis six or five seven there? yes\n'
    i=$((i + 1))
done > pairs.tsv
cut -f 1,2 pairs.tsv > single.tsv
run 0 train classify pairs.tsv -o m $small --pair --window 1,1 --global-token '<sep>'
has err 'global tokens: each "<sep>"'
run 0 train classify single.tsv -o m $small --window 1,1 --global-token '? .' --json
has err ', window 1,1, global tokens: each "\." "\?", '
words=$(json out plan.network)
run 0 info m --json
is "the network of info" "$(json out network)" "$words"
is "global tokens of the file" "$(json out config.global_token.1)" "$(($(json out config.global_token.0) + 17))" # . and ? are 17 apart
run 0 attend m 'one two? three four five six. seven eight' --json
python3 - out << 'END' || fail "the map of a model with global tokens"
import json, sys
map = json.load(open(sys.argv[1]))
tokens, rows = [t["text"] for t in map["tokens"]], map["weights"]
at = [i for i, t in enumerate(tokens) if t in "?."]
ok = len(at) == 2
for i, row in enumerate(rows):
    for j, w in enumerate(row):
        ok = ok and (w > 0) == (i in at or j in at or abs(i - j) <= 1)
sys.exit(not ok)
END
run 0 flops m --data single.tsv --no-time
has out '^pairs of tokens that see each other:'
run 2 flops m --no-time
has err 'which tokens are global this model tells by what they are, .*--data'
run 0 test m single.tsv
cp m m1
run 0 predict m1 single.tsv
cp out all
head -n 1 single.tsv > first.tsv
run 0 predict m1 first.tsv
is "a text alone and among others" "$(cat out)" "$(head -n 1 all)"
for more in "-o m2 --segment sentences" "-o m2 --pretrain 0.5" "-o m2 --global-projection --recompute blocks" "--folds 2"; do
    # shellcheck disable=SC2086
    run 0 train classify single.tsv $small --window 1,1 --global-token '? .' $more
done
run 0 train classify pairs.tsv -o m $small --pair --window 1,1 --global-question --json
has err ', global tokens: the first text of a pair, '
run 0 flops m --data pairs.tsv --no-time
run 0 flops --dim 8 --heads 1 --seq 10 --window 1,1 --global-at 0 --no-output-projection --no-time --json
is pairs "$(json out 'macs.operations.weights x values')" $(((28 + 16) * 8))
run 0 train classify "$train" -o m $small --pattern global --global-projection --causal --window 3,0 --json
has err '^model +3 layers, dim 16, 2 heads, ffn 64, window 3,0, global tokens: the first 64 with projections of their own, positions '
is "the network" "model $(json out plan.network)" "$(sed -n 's/^model  */model /p' err | head -n 1)"
words=$(json out plan.network)
run 0 info m --json
is "the network of info" "$(json out network)" "$words"
run 0 info m
has out '^network +3 layers, dim 16, 2 heads, ffn 64, window 3,0,'
has out '^encoder\.2\.attention\.global\.q\.weight '

# A token of letters of two bytes: what is said of the network is text everywhere.
i=0
while [ $i -lt 30 ]; do
    printf 'a\tда приветствие нет приветствие\nb\tнет да нет\n'
    i=$((i + 1))
done > letters.tsv
run 0 train classify letters.tsv -o m $small --window 1,1 --global-token приветствие --json
has err ', global tokens: each " приветствие", positions '
words=$(json out plan.network)
run 0 info m
run 0 info m --json
is "the network of info" "$(json out network)" "$words"
run 0 flops m --data letters.tsv --no-time
has out ', global tokens: each " приветствие", positions '

# What a short text makes of long patterns.
run 0 train classify letters.tsv -o m $small --pattern global --max-length 32
has err 'the first 64 tokens are global, and a text has at most 32: every token sees all'
run 0 train classify letters.tsv -o m $small --pattern global --max-length 65
hasnt err 'tokens are global'
run 2 train classify letters.tsv -o m $small --pattern alternating --layers 1
has err 'pattern=alternating with layers=1: the first layer sees everything'

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

# shellcheck disable=SC2086
run 2 train classify "$train" -o m $small --window 4,4 --global-token ' '
has err 'global-token has no token: .* one that is meant is .s$'

# One line each: what is wrong | what is said.
while IFS='|' read -r given said; do
    # shellcheck disable=SC2086
    run 2 train classify "$train" -o m --steps 2 $given
    has err "$said"
done << 'END'
--global-first 1|global tokens without a window .such as window=64,64.: every token sees all anyway
--random-blocks 2|random-blocks without a window
--window 4,4 --global-projection|global-projection without global tokens
--window 4,4 --random-blocks 2 --dilation 2|random-blocks=2 and dilation=2
--window 4,4 --block 16|block=16 is of random-blocks
--window 4,4 --global-at 3,x|global-at=3,x: expected up to 16 whole numbers from 0 to
--window 4,4 --segment tokens --segment-length 6 --global-at 6|global-at=6: expected up to 16 whole numbers from 0 to 5
--window 4,4 --max-length 8 --global-at 8|global-at=8: expected up to 16 whole numbers from 0 to 7
--window 4,4 --global-token to-and-fro|global-token: "to-and-fro" is no token of this tokenizer, which cuts it into
--window 4,4 --global-token a\q|behind a backslash stands n, t, s
--global-token a|global tokens without a window
--window 4,4 --global-question|global-question has no effect without --pair
--window 4,4 --global-token <sep>|global-token: <sep> parts the two texts of a pair, and without pair there is none
--pattern full --window 4,4|pattern=full and window=4,4 contradict each other: with full every token sees all
--pattern full --dilation 3|pattern=full and dilation=3 contradict each other
--pattern local --window -1,-1|--window -1,-1 and --pattern local contradict each other
--window 4,4 --local-rope-base 100|has no effect
--position rope --window 4,4 --local-rope-base 100|set full-every
--model lstm --pattern local|pattern has no effect with --model lstm
END
finish
