# Options that would have no effect are refused with what they need; names of fastText and slips are recognised.
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv

# One line each: what is wrong | what is said.
while IFS='|' read -r given said; do
    # shellcheck disable=SC2086
    run 2 train classify "$train" -o m $given
    is "what is said of '$given'" "$(head -n 1 err)" "qkv train classify: --$said"
done << 'END'
--mask 0.2|mask has no effect without --pretrain
--mask 0.3|mask has no effect without --pretrain
--pretrain-lr 0.01|pretrain-lr has no effect without --pretrain
--pretrain-text x.txt|pretrain-text has no effect without --pretrain
--ema-decay 0.99|ema-decay has no effect without --average ema
--ema-decay 0.99 --average checkpoints|ema-decay has no effect with --average checkpoints
--average-last 5|average-last has no effect without --average checkpoints
--average ema --average-last 5|average-last has no effect with --average ema
--steps 3 --epochs 2|epochs has no effect with --steps 3
--patience 3 --evaluate 0|patience has no effect with --evaluate 0
--ngrams 0 --ngram-min-rows 3|ngram-min-rows has no effect with --ngrams 0
--tokenizer byte --vocab 300|vocab has no effect with --tokenizer byte
--format tsv --separator comma|separator has no effect with --format tsv
--format csv --label-field kind|label-field has no effect with --format csv
--text-field=body --format tsv|text-field has no effect with --format tsv
--format jsonl --label-column x|label-column has no effect with --format jsonl
--format fasttext --text-column x|text-column has no effect with --format fasttext
--format jsonl --label-prefix x|label-prefix has no effect with --format jsonl
--label-separator ;|label-separator has no effect without --multi-label
--segment-length 8|segment-length has no effect without --segment words, sentences or tokens
--text-field-2 b|text-field-2 has no effect without --pair
--text-column-2 b|text-column-2 has no effect without --pair
--autotune 1 --checkpoint 3|checkpoint has no effect with --autotune 1
--autotune-trials 2 --checkpoint 3|checkpoint has no effect with --autotune-trials 2
END
run 2 train classify "$train" --folds 2 --checkpoint 1
has err '--checkpoint has no effect without --output$'
# With what they need they are taken; so is what is set to its default.
quick="--size tiny --threads 1 --steps 2 --max-length 16"
# shellcheck disable=SC2086
run 0 train classify "$train" -o m $quick --average ema --ema-decay 0.9 --pretrain 0.01 --mask 0.2 --ngram-min-rows 2 --label-column x
# shellcheck disable=SC2086
run 0 train classify "$train" -o m --size tiny --threads 1 --epochs 0.1 --steps 0 --average checkpoints --average-last 2

# What a model makes of them.
run 2 test "$model" "$train" --label-separator ';'
has err '--label-separator has no effect: the model gives one label to a text$'
run 2 test "$model" "$train" --text-field-2 b
has err '--text-field-2 has no effect: the model reads one text a row$'
run 2 test "$model" "$train" --bootstrap 0 --seed 3
has err '--seed has no effect with --bootstrap 0$'
run 2 predict "$model" "$train" --label-field kind
has err '--label-field has no effect: no labels are read here$'
run 2 predict "$model" "$train" --label-separator ';'
has err '--label-separator has no effect: the model gives one label to a text$'
run 2 predict "$model" "$train" --format text --text-column x
has err '--text-column has no effect with --format text$'
run 2 embed "$model" "$train" --label-separator ';'
has err '--label-separator has no effect: no labels are written here$'
run 2 info "$model" --threads 1
has err '--threads has no effect'
run 0 help predict
hasnt out 'label-(field|column)'
has out '--label-separator'
run 0 help embed
hasnt out '--label-(field|column|separator)'

# fastText's names, one dash or two; an -output is not -o utput.
while IFS='|' read -r given said; do
    # shellcheck disable=SC2086
    run 2 $given
    has err "$said"
done << END
train classify -input $train -output m|there is no option -input; the file stands by itself
train classify $train -output m|there is no option -output; did you mean -o MODEL\\?
train classify $train -o m -lr 0.5|there is no option -lr; did you mean --lr\\?
train classify $train -o m -epoch 25|there is no option -epoch; did you mean --epochs\\?
train classify $train -o m --epoch 25|there is no option --epoch; did you mean --epochs\\?
train classify $train -o m -wordNgrams 2|there is no option -wordNgrams; did you mean --ngrams\\?
train classify $train -o m --minCount 2|there is no option --minCount; did you mean --ngram-min-rows\\?
train classify $train -o m -dim 10|there is no option -dim; did you mean --dim\\?
train classify $train -o m -loss ova|there is no option -loss; .*--multi-label
train classify $train -o m -threads 1|there is no option -threads; did you mean --threads\\?
supervised -input $train|there is no verb 'supervised'; that is: qkv train classify TRAIN
predict-prob $model $train 2|there is no verb 'predict-prob'; that is: qkv predict
predict $model $train -treads 1|there is no option -treads; did you mean --threads\\?
END
[ ! -e utput ] || fail "-output was taken for -o"
finish
