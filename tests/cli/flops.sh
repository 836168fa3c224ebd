# qkv flops: exact figures, sums, lengths of all sorts, refusals. What a machine reaches fails nothing here.
. "$(dirname "$0")/lib.sh"
layer="--dim 512 --seq 1024 --batch 32 --no-time"

# The same layer in two ways that articles count it, and what makes the difference.
# shellcheck disable=SC2086
run 0 flops --heads 8 $layer
empty err
has out '^one attention layer alone, dim 512, 8 heads, no biases, with an output projection$'
has out '^32 sequences of 1024 tokens; forward, f32$'
has out '^total +1,048,576 +68\.7 G +68\.7 G +138 G '
has out '^queries x keys +- +17\.2 G +17\.2 G +34\.4 G '
has out 'with it 68\.7 G multiply-adds and 1,048,576 parameters,$'
has out '^without it 60\.1 G and 786,432\. The number of heads changes neither\.$'
hasnt out '^time '
# shellcheck disable=SC2086
run 0 flops --heads 1 $layer --no-output-projection
has out '^total +786,432 +60\.1 G +60\.1 G '
# shellcheck disable=SC2086
run 0 flops --heads 8 $layer --json
is parameters "$(json out parameters.total)" 1048576
is multiply-adds "$(json out macs.total)" 68719476736
is "of the variant" "$(json out variants.without_output_projection.macs)" 60129542144
is "its weights" "$(json out variants.without_output_projection.parameters)" 786432
is "of one head" "$(json out variants.one_head.macs)" 68719476736
is time "$(json out time)" null
at_least "FLOP" "$(json out flops.total)" 137438953472
for part in parameters macs flops executed_macs bytes; do
    for by in layers operations; do
        total=$(json out $part.total)
        parts=$("$QKV_JSON" out $part.$by | tr -dc '0-9.:,eE+' | tr ',' '\n' | sed 's/.*://' | awk '{ s += $1 } END { printf "%.0f", s }')
        is "sum of $part by $by" "$parts" "$total"
    done
done
# A window, causal, grouped keys.
run 0 flops --seq 1024 --causal --kv-heads 1 --no-time
has out '^one attention layer alone, dim 512, 8 heads \(1 of keys and values\), causal,'
has out '^pairs of tokens that see each other: 525 k of 1\.05 M \(50\.0 %\)$'
hasnt out 'heads changes neither'
run 0 flops --seq 1000 --window 2,0 --no-time --json
is pairs "$(json out pairs)" 2997
at_least executed "$(json out executed_macs.total)" "$(json out macs.total)"

# Biases only where they are asked for; of a network unless they are not.
run 0 flops --bias --no-time --json
is "with biases" "$(json out parameters.total)" $((1048576 + 4 * 512))
run 0 flops --layers 1 --dim 8 --heads 2 --vocab 10 --position none --no-time --json
with=$(json out parameters.total)
run 0 flops --layers 1 --dim 8 --heads 2 --vocab 10 --position none --no-bias --no-time --json
is "biases" $((with - $(json out parameters.total))) $((3 * 8 + 8 + 32 + 8 + 3 * 8))

# A whole network, by layer, trained, recomputed.
run 0 flops --layers 2 --dim 64 --heads 4 --seq 33-95 --batch 3 --train --recompute blocks --by layer --no-time
has out '^3 sequences of 33 to 95 tokens, 192 in all; forward, backward, update, f32; blocks computed again$'
for part in embedding encoder.0 encoder.1 norm pooling head loss optimizer total forward backward recompute optimizer; do has out "^$part +"; done
run 0 flops --layers 2 --dim 64 --heads 4 --seq 33-95 --batch 3 --train --json --no-time
is recompute "$(json out macs.passes.recompute)" 0
at_least backward "$(json out macs.passes.backward)" "$(json out macs.passes.forward)"
# What is computed again instead of being kept: more operations, less memory; kept ones cost what they cost without.
again="--layers 4 --dim 64 --heads 4 --seq 200 --batch 3 --train --json --no-time"
# shellcheck disable=SC2086
run 0 flops $again
kept="$(json out macs.passes.forward) $(json out macs.passes.backward)"
peak=$(json out memory.activations)
for ways in 'pointwise|pointwise 0 0|' 'attention|attention 0 0|' 'attention --ffn-chunk 64|attention 0 64|' 'sqrt|none 2 0|' \
    'blocks --recompute-every 3|none 3 0|' 'blocks|none 1 0|'; do
    way=${ways%%|*} said=${ways#*|}
    # shellcheck disable=SC2086
    run 0 flops $again --recompute $way
    is "of $way" "$(json out recompute) $(json out recompute_part) $(json out recompute_every) $(json out ffn_chunk)" "true ${said%|}"
    is "passes of $way" "$(json out macs.passes.forward) $(json out macs.passes.backward)" "$kept"
    at_least "operations of $way" "$(json out flops.passes.recompute)" 1
    at_least "memory without $way" "$peak" "$(($(json out memory.activations) + 1))"
done
# shellcheck disable=SC2086
run 0 flops --layers 2 --dim 64 --train --recompute blocks --recompute-every 2 --ffn-chunk 1 --no-time
has out ' update, f32; blocks computed again, 2 in a row; feed-forward by 1 row$'
# A table shorter than the texts.
run 2 flops --layers 1 --dim 64 --seq 100 --max-length 40 --no-time
has err 'sequence 0 has 100 tokens; this network takes 0 to 40: its table of positions ends there .position-beyond=error.$'
for beyond in clamp tile interpolate; do
    run 0 flops --layers 1 --dim 64 --seq 100 --max-length 40 --position-beyond $beyond --vocab 10 --no-time --json
    is "rows of the tables" "$(json out parameters.layers.embedding)" $(((10 + 40) * 64))
done
run 0 flops --model bigru --dim 64 --seq 5 --no-time
has out '^one layer alone of bigru, 32 units a direction, dim 64$'
has out '^recurrence +'
hasnt out 'output projection'
run 0 flops --model lstm --dim 101 --seq 5 --batch 2 --train --no-time
hasnt out '^sums'
run 2 flops --model lstm --dim 100 --heads 4
has err '--heads has no effect with --model lstm$'
run 2 flops --model bilstm --dim 65
has err 'dim=65 is odd: '
run 2 flops --model lstm --layers 1 --dim 100 --pooling attention
has err 'heads=8 does not divide dim=100 '
run 0 flops --model lstm --layers 1 --dim 100 --heads 4 --pooling attention --no-time

# Lengths from a file, 0 and 1 among them; a batch of nothing.
printf '0 1\n33\t95,2\n\n' > lengths
run 0 flops --lengths lengths --no-time --json
is sequences "$(json out sequences)" 5
is tokens "$(json out tokens)" 131
is pairs "$(json out pairs)" $((1 + 33 * 33 + 95 * 95 + 4))
for given in "--layers 2" "--layers 3 --window 4,4 --full-every 2" "--layers 2 --window 4,4 --global-first 2" "--layers 2 --segment tokens"; do
    # shellcheck disable=SC2086
    run 0 flops --lengths lengths --no-time --json --dim 16 --heads 2 $given
    cp out plain
    # shellcheck disable=SC2086
    run 0 flops --lengths lengths --no-time --json --dim 16 --heads 2 $given --position shaw
    is "pairs with vectors by distance, $given" "$(json out pairs)" "$(json plain pairs)"
done
run 0 flops --lengths - --no-time < lengths
has out '^5 sequences of 0 to 95 tokens, 131 in all'
run 0 flops --seq 0 --batch 3 --no-time
has out '^3 sequences of 0 tokens'
run 0 flops --batch 0
hasnt out '(output projection makes|^time)'
run 0 flops --seq 0 --measure --json
is "time of nothing" "$(json out time)" null
run 0 flops --batch 0 --layers 1 --train --no-time --json
is "of nothing" "$(json out macs.total)" 0
printf '5\n7 x\n' > wrong
run 1 flops --lengths wrong --no-time
has err "^qkv: wrong:2: 'x' is no number of tokens, from 0 to 16777216\$"
printf '99999999999999999999\n' > wrong
run 1 flops --lengths wrong
run 1 flops --lengths nowhere
has err 'nowhere: No such file'

# The network in words: what is not usual, with the numbers that 0 stands for.
run 0 flops --layers 2 --segment sentences --seq 0 --no-time
has out ', sentences of at most 128 tokens, 1 layer over them, pooling mean,'
run 0 flops --dilation 2 --no-time
has out ', 8 heads, tokens see those that stand a multiple of 2 away, no biases'
run 0 flops --layers 2 --window 8,8 --dilation 2 --position rope --rope-part 0.5 --norm-place sandwich --softcap 50 --qk-norm --no-time
has out 'ffn 2048, sandwich-norm, queries and keys normalised, scores capped at 50, window 8,8 of tokens 2 apart, positions rope .base 10000, 32 of 64 columns turned., pooling'
run 0 flops --layers 4 --pattern alternating --position t5 --reversible --no-time
has out ', reversible, window 64,64, one layer in 3 full, positions t5 .32 buckets, reach 128., pooling'

# A model: its own limit, a length, a file of texts; and the numbers of info.
run 0 flops "$model" --no-time
has out '^1 layer, dim 64, 2 heads, ffn 256, positions learned, pooling attention,'
has out '^1 sequence of 24 tokens; forward, f32$'
run 0 flops "$model" --no-time --json
flops=$(json out flops.total)
parameters=$(json out parameters.total)
linear="$(json out linear.features) $(json out linear.weights) $(json out linear.flops_at_most)"
run 0 info "$model" --json
is "parameters in info" "$(json out parameter_count)" "$parameters"
# The linear model beside it: a weight a class of each run, and a bias; 24 tokens begin 4 runs each at most.
features=$(json out linear.runs)
classes=$(json out config.classes)
is "linear model" "$linear" "$features $(((features + 1) * classes)) $((24 * ($(json out config.ngrams) + 2) * classes))"
awk -v a="$flops" -v b="$(json out flops_per_token.24)" 'BEGIN { exit !((a / 24 - b) ^ 2 < 1e-12 * b * b) }' || fail "info and flops differ: $flops"
run 0 flops "$model" --seq 3 --batch 7 --train --dtype bf16 --no-time
has out '^7 sequences of 3 tokens; forward, backward, update, bf16$'
run 0 flops "$model" --data "$QKV_MODELS/texts.txt" --no-time --json
is texts "$(json out sequences)" "$(lines "$QKV_MODELS/texts.txt")"
# A labelled file: its texts, cut at what the model reads, are what training books; --format text reads its lines.
run 0 flops "$model" --data "$QKV_MODELS/train.tsv" --no-time --json
is rows "$(json out sequences)" "$(lines "$QKV_MODELS/train.tsv")"
labelled=$(json out tokens)
cut -f 2- "$QKV_MODELS/train.tsv" > texts
run 0 flops "$model" --data texts --no-time --json
is "tokens without labels" "$(json out tokens)" "$labelled"
run 0 flops "$model" --data "$QKV_MODELS/train.tsv" --format text --no-time --json
[ "$(json out tokens)" -gt "$labelled" ] || fail "labels are no text in lines of text"
run 1 flops "$model" --data "$QKV" --no-time
has err 'this is .*; expected UTF-8 text$'
run 1 flops "$model" --data "$QKV_MODELS/train.tsv" --format jsonl
run 2 flops "$model" --data texts --label-field x
has err '--label-field has no effect: no labels are read here$'
run 2 flops "$model" --data texts --text-column-2 x
run 2 flops "$model" --format tsv
has err '--format has no effect without --data$'
# Texts of nothing, of a model that reads them by segments.
run 0 train classify "$QKV_MODELS/train.tsv" -o cut --dim 8 --heads 1 --layers 1 --steps 1 --ngrams 0 --segment words
printf '\n\n\n' > blank
run 0 flops cut --data blank --no-time --json
is "texts of nothing" "$(json out sequences) $(json out tokens)" "3 0"
run 2 flops "$model" --seq 4 --data texts
has err '--seq has no effect with --data texts$'
run 2 flops "$model" --recompute blocks
has err '--recompute has no effect without --train$'
run 2 flops "$model" --seq 25
has err 'sequence 0 has 25 tokens; this network takes 0 to 24'
run 2 flops "$model" --dim 64
has err '^qkv flops: --dim is of a network that is described, and MODEL is one$'
run 2 flops "$model" --bias
run 1 flops "$QKV_MODELS/train.tsv"

# Wrong use.
run 2 flops
run 2 flops --heads 6
has err 'heads=6 does not divide dim=512 \(try 4 or 8\)'
run 2 flops --seq x
run 2 flops --seq 5-3
has err '--seq=5-3: expected N or A-B, from 0 to 16777216'
run 2 flops --seq -5
run 2 flops --seq 3-9
has err '--seq 3-9: one sequence has one length; --batch 2 or more spreads them'
run 2 flops --causal --window 5,7
has err 'causal and window=5,7 contradict each other'
run 2 flops --by head
has err '--by=head: expected op or layer'
run 2 flops --ffn 100
has err '--ffn has no effect without --layers'
run 2 flops --layers 1 --no-output-projection
has err '--output-projection has no effect with --layers 1'
run 2 flops --model lstm --causal
run 2 flops --layers 1 --recompute sqrt
has err '--recompute has no effect without --train'
run 2 flops --layers 1 --train --recompute auto
has err 'recompute=auto: expected one of none.blocks.sqrt.attention.pointwise'
run 2 flops --layers 1 --train --recompute-every 2
has err '--recompute-every has no effect without --recompute blocks'
run 2 flops --train --ffn-chunk 64
has err '--ffn-chunk has no effect without --layers'
run 2 flops --model lstm --layers 2 --train --recompute attention
has err 'recompute=attention has no effect on layers of lstm; try recompute=blocks'
run 2 flops --layers 2 --train --reversible --recompute blocks
has err '--recompute has no effect with --reversible$'
run 2 flops --layers 2 --position-beyond tile
has err '--position-beyond has no effect without --max-length'
run 2 flops --data x
has err '--data has no effect without MODEL'
run 2 flops --lengths lengths --batch 3
run 2 flops --layers 1 --bias
run 2 flops one two
run 2 flops --measur
has err 'did you mean --measure'

# Huge numbers are answered, or refused in one sentence.
run 2 flops --seq 1000000000000
run 2 flops --batch 1000000000000
run 2 flops --seq 99999999999999999999
run 2 flops --seq 16777216 --layers 4096
has err 'too large to walk: tokens=16777216, sequences=1, heads=8 and layers=4096 make 68719509504 steps; the most is 536870912$'
run 0 flops --seq 16777216 --causal --no-time
has out '^total +1,048,576 +144 P '
run 0 flops --seq 16777216 --layers 1 --dim 65536 --heads 4096 --ffn 1048576 --activation swiglu --train --no-time
has out '^total '

# The decimal point is a point everywhere.
# shellcheck disable=SC2086
locale=de_DE.UTF-8 run 0 flops $layer
has out '^total +1,048,576 +68\.7 G '
locale=de_DE.UTF-8 run 0 flops --no-time --json
hasnt out '[0-9],[0-9]'

# The time: a floor, with what it was measured by.
run 0 flops --dim 32 --heads 2 --seq 16 --threads 1
has out '^time +at least [0-9.e-]+ [mu]?s: the useful multiply-adds at the FMA peak measured now, [0-9.]+ [kMGT]?FLOP/s \(the highest of 5, 1 thread\)$'
has out '^ +at most [0-9.]+ [kMGT]?tokens/s$'
run 0 flops --dim 32 --heads 2 --seq 16 --threads 1 --measure --json
is threads "$(json out time.threads)" 1
at_least passes "$(json out time.passes)" 3
at_least floor "$(json out time.floor_s)" 1e-12
at_least expected "$(json out time.expected_s)" 1e-12
at_least share "$(json out time.share)" 1e-9
# A real pass of whatever is described, and of a model on a file of texts.
while read -r what; do
    # shellcheck disable=SC2086
    run 0 flops $what --dim 32 --seq 16 --threads 2 --measure
    has out '^ +expected [0-9.e-]+ [mu]?s, the median of [0-9,]+ passes just now: [0-9.]+ % of that peak$'
done << 'END'
--heads 2 --kv-heads 1 --causal --train
--heads 2 --layers 1 --pattern sparse --train --recompute blocks
--model bilstm --train
--model rnn --cell relu --batch 2
--model gru --cell reset-before --layers 2 --dtype bf16
END
run 0 flops "$model" --data "$QKV_MODELS/texts.txt" --measure --threads 2
has out '^ +expected .* of that peak$'
run 2 flops --measure --no-time
run 2 flops --json --by layer
has err '--by has no effect with --json$'
# A machine that is not this one.
run 0 flops --dim 512 --heads 8 --seq 1024 --peak 19500
has out '^time +at least 220 us: the useful multiply-adds at the peak that was given, 19\.5 TFLOP/s$'
has out '^ +at most 4\.65 Mtokens/s$'
run 0 flops --dim 512 --heads 8 --seq 1024 --peak 19500 --json
is threads "$(json out time.threads)" null
at_least tokens "$(json out time.tokens_per_s)" 4649000
run 2 flops --peak 5 --measure
run 2 flops --peak 0
finish
