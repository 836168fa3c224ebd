# Every way in which places enter: training, what info says, and texts beyond the length of training.
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv
quick="--size tiny --threads 1 --steps 2 --max-length 8 --ngrams 0"
long="rose sea leaf word1 word2 moss ink grass sky rose sea leaf word1 word2 moss ink grass sky"
printf '%s\n' "$long" > long.txt

for position in none sinusoidal learned shaw t5 alibi rope; do
    # shellcheck disable=SC2086
    run 0 train classify "$train" -o "$position" $quick --position "$position"
    run 0 info "$position" --json
    is "the position of $position" "$(json out config.position)" "$position"
    run 0 predict "$position" long.txt --top 3 --threads 1
    has err '1 of 1 row longer than the model reads.* 14 tokens dropped'
    mv out short
    [ "$position" = learned ] && continue
    run 0 predict "$position" long.txt --top 3 --max-length 64 --threads 1
    empty err # nothing is cut
    checks=$((checks + 1))
    cmp -s out short && fail "with $position the rest of the text changes nothing"
    run 0 test "$position" "$train" --max-length 64 --bootstrap 0 --threads 1
    run 0 embed "$position" long.txt --max-length 64 --threads 1
    run 0 attend "$position" "$long" --json --threads 1
    has err 'the text has [0-9]* tokens; the model reads the first 8'
    run 0 attend "$position" "$long" --max-length 64 --json --threads 1
    empty err
    sum=$(json out weights.21 | tr -d '[] ' | tr ',' '\n' | awk '{ s += $1 } END { printf "%d %.3f", NR, s }')
    is "weights of the last token" "$sum" "22 1.000"
done

# A learned table ends, unless something is said of what comes after it.
run 2 predict learned long.txt --max-length 64
has err 'learned: max-length=64: this model has learned positions for 8 tokens; position-beyond says what is to follow'
run 0 predict learned long.txt --max-length 6 --threads 1
for beyond in clamp tile interpolate; do
    run 0 predict learned long.txt --top 3 --max-length 64 --position-beyond $beyond --threads 1
    mv out $beyond
    run 0 attend learned "$long" --max-length 64 --position-beyond $beyond --threads 1
    mv out map.$beyond
done
checks=$((checks + 1))
cmp -s clamp tile && fail "clamped and tiled positions are the same"
checks=$((checks + 1))
cmp -s map.clamp map.tile && fail "clamped and tiled positions give the same map"
run 2 attend learned "$long" --max-length 64
has err 'learned: max-length=64: this model has learned positions for 8 tokens'
# shellcheck disable=SC2086
run 0 train classify "$train" -o tiled $quick --position-beyond tile
run 0 predict tiled long.txt --top 3 --max-length 64 --threads 1
same out tile
run 0 attend tiled "$long" --max-length 64 --threads 1
same out map.tile
run 0 info tiled --json
is "what is beyond" "$(json out config.position_beyond)" tile
run 2 predict rope long.txt --position-beyond clamp
has err 'position-beyond is of learned positions; this model has none'
run 2 test tiled learned "$train" --max-length 64
has err 'qkv: learned: max-length=64'
run 2 predict learned long.txt --position-beyond wrap
has err 'position-beyond=wrap: expected one of error.clamp.tile.interpolate'

# Angles are stretched as far as the texts are longer, or by what is asked for.
run 0 predict rope long.txt --top 3 --max-length 64 --rope-stretch linear --threads 1
mv out linear
run 0 predict rope long.txt --top 3 --max-length 64 --rope-stretch linear --rope-factor 8 --threads 1
same out linear
for stretch in ntk yarn; do
    run 0 predict rope long.txt --top 3 --max-length 64 --rope-stretch $stretch --threads 1
    checks=$((checks + 1))
    cmp -s out linear && fail "$stretch does what linear does"
    run 0 attend rope "$long" --max-length 64 --rope-stretch $stretch --threads 1
done
run 2 predict rope long.txt --rope-factor 3
has err 'rope-factor=3 has no effect without a rope-stretch'
run 2 test t5 "$train" --rope-stretch ntk
has err 'rope-stretch and rope-factor are of rotary positions; this model has none'
run 2 predict rope long.txt --rope-stretch linear --rope-factor 0.5
has err 'rope-factor=0.5 is not in 1..1000000'

# Details, and what has no use for them.
# shellcheck disable=SC2086
run 0 train classify "$train" -o details $quick --position rope --rope-base 500 --rope-pairs interleaved --rope-part 0.5 --rope-stretch yarn \
    --rope-factor 4 --rope-length 2
run 0 info details --json
is "base" "$(json out config.rope_base)" 500.0
is "pairs" "$(json out config.rope_pairs)" interleaved
is "stretch" "$(json out config.rope_stretch)" yarn
# shellcheck disable=SC2086
run 0 train classify "$train" -o details $quick --position t5 --position-buckets 8 --position-reach 20
run 0 info details
has out 'positions t5 .8 buckets, reach 20.,'
run 0 info details --json
is "buckets" "$(json out config.position_buckets)" 8
while IFS='|' read -r given said; do
    # shellcheck disable=SC2086
    run 2 train classify "$train" -o m $given
    has err "$said"
done << 'END'
--position-layout split|--position-layout has no effect without --position sinusoidal
--position t5 --position-beyond tile|--position-beyond has no effect with --position t5
--position alibi --position-reach 9|--position-reach has no effect with --position alibi
--position-reach 9|--position-reach has no effect without --position shaw or t5
--position-buckets 8|--position-buckets has no effect without --position t5
--rope-base 500|--rope-base has no effect without --position rope
--position rope --rope-factor 2|--rope-factor has no effect without --rope-stretch
--position rope --rope-stretch ntk --rope-length 9|--rope-length has no effect with --rope-stretch ntk
--position t5 --position-buckets 7|position-buckets=7: expected an even number from 4 on
--position t5 --position-reach 8|position-reach=8 is too small for position-buckets=32
--position shaw --position-reach 200|position-reach=200: with position=shaw at most 127
--position rope --dim 4 --heads 4|head_dim=1: position=rope turns pairs of columns
END

# What they cost.
for position in shaw t5 alibi rope; do
    run 0 flops --layers 2 --dim 64 --heads 4 --seq 100 --no-time --position $position --json
    flops=$(json out flops.total)
    run 0 flops --layers 2 --dim 64 --heads 4 --seq 100 --no-time --position none --json
    at_least "operations with $position" "$flops" "$(json out flops.total)"
    checks=$((checks + 1))
    [ "$flops" = "$(json out flops.total)" ] && fail "$position costs nothing"
done
run 2 flops --layers 2 --position alibi --rope-part 0.5
has err '--rope-part has no effect with --position alibi'

finish
