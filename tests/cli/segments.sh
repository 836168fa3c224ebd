# Texts that are read by segments: every kind trains, is saved, described, counted, tested, shown and predicts, whatever the text.
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv
one="--threads 1"
small="--dim 32 --layers 1 --steps 6 --ngrams 0 --vocab 300 --max-length 64"

# shellcheck disable=SC2086
for segment in words sentences tokens; do
    run 0 train classify "$train" -o "$segment" --segment $segment --segment-length 5 --segment-layers 2 $small --threads 2
    run 0 train classify "$train" -o alone --segment $segment --segment-length 5 --segment-layers 2 $small $one
    same "$segment" alone
    run 0 info "$segment"
    has out "^  segment  *$segment\$"
    has out '^  segment_length  *5$'
    has out '^  segment_layers  *2$'
    has out '^segments\.1\.ffn\.in\.weight '
    has out '^segments\.pool\.query '
    run 0 test "$segment" "$train"
    run 0 embed "$segment" "$train"
    # The answer to a text is the same alone and among others, also where there is nothing in it.
    printf 'One. Two? Three\n\n  \n\303\251\377. \344\270\255\343\200\202\345\233\275\na\nOne. Two? Three\n' > texts
    run 0 predict "$segment" texts --top 9 --format text
    is lines "$(lines out)" 6
    is "the same text" "$(sed -n 1p out)" "$(sed -n 6p out)"
    cp out all
    sed -n 4p texts > fourth
    run 0 predict "$segment" fourth --top 9 --format text
    is "alone" "$(cat out)" "$(sed -n 4p all)"
    # Rows of the weights add up to 1, of tokens and of segments.
    for layer in 0 1 2; do
        run 0 attend "$segment" "One two three. Four five six seven." --layer $layer --json
        n=$(json out weights | tr -d ' ' | awk -F '],' '{ print NF }')
        at_least "rows of layer $layer" "$n" 7
    done
    run 2 attend "$segment" "a text" --layer 3
    has err 'layer 3 is out of range: the model has 3'
    run 0 flops "$segment" --data "$train" --no-time --by layer
    has out 'segments? of at most 5 tokens, 2 layers over them|(words|sentences) of at most 5 tokens, 2 layers over them'
    has out '^segments\.1 '
    has out ' [0-9,]+ segments; forward'
done

# shellcheck disable=SC2086
run 0 train classify "$train" -o gru --model bigru --segment sentences $small
run 0 info gru
has out '^segments\.0\.forth\.weight '
# shellcheck disable=SC2086
run 0 train classify "$train" -o pre --segment tokens --pooling first --pretrain 0.2 $small
run 0 predict pre "$train"
# shellcheck disable=SC2086
run 0 train classify "$train" -o tuned --segment words --autotune-trials 2 $small
run 0 train classify "$train" -o tight --segment sentences --segment-length 8 --max-length 64 --dim 32 --epochs 1 --ngrams 0 --vocab 300 --memory 24M
run 0 flops --layers 2 --dim 32 --heads 2 --seq 100 --batch 3 --segment tokens --segment-length 30 --train --no-time
has out '3 sequences of 100 tokens, 12 segments'

# One line each: what is wrong | what is said.
while IFS='|' read -r given said; do
    # shellcheck disable=SC2086
    run "${said%% *}" train classify "$train" -o m --steps 2 $given
    has err "${said#* }"
done << 'END'
--segment-length 5|2 --segment-length has no effect without --segment words
--segment-layers 2|2 --segment-layers has no effect without --segment words
--segment lines|2 segment=lines
END
finish
