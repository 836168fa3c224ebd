# Recurrent models: every kind trains, is saved, described, tested and predicts; what has no effect or cannot be is refused.
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv

for model in rnn lstm gru birnn bilstm bigru; do
    run 0 train classify "$train" -o "$model" --model $model --dim 32 --steps 6 --layers 2 --ngrams 0 --threads 2
    has err "2 layers of $model(, 16 units a direction)?, dim 32, pooling attention, "
    run 0 info "$model"
    has out "^  model  *$model\$"
    hasnt out '^  (ffn|position|norm|kv_heads) '
    has out '^encoder\.1\.forth\.weight '
    run 0 predict "$model" "$train"
    run 2 attend "$model" "a text"
    has err "no attention weights to show: its encoder is of kind $model"
done

run 0 train classify "$train" -o cell --model lstm --cell peepholes --dim 16 --steps 2
run 0 info cell
has out '^  cell  *peepholes$'
# A forget-gate bias of the start: the usual 1 makes the same file as none, 0 another one; the network in it is the same.
for bias in 0 1 usual; do
    run 0 train classify "$train" -o "forget-$bias" --model lstm --dim 16 --steps 2 --ngrams 0 $([ $bias = usual ] || echo "--forget-bias $bias")
    [ $bias != 0 ] || has err '1 layer of lstm, forget bias 0, dim 16,'
    [ $bias = 0 ] || has err '1 layer of lstm, dim 16,'
    run 0 predict "forget-$bias" "$train"
    cp out "said-$bias"
    run 0 info "forget-$bias" --json
    is "bias in the network" "$(grep -c forget_bias out)" 0
done
cmp -s said-1 said-usual || fail "--forget-bias 1 is not the usual one"
! cmp -s said-0 said-1 || fail "--forget-bias 0 changed nothing"
run 0 train classify "$train" -o pre --model bigru --cell reset-before --dim 16 --steps 2 --pretrain 0.1 --pooling max
# Without attention pooling there are no heads to divide the width.
run 0 train classify "$train" -o odd --model lstm --dim 33 --steps 2 --pooling mean
run 0 test odd "$train"
run 0 info odd
hasnt out '^  heads '
run 0 train classify "$train" -o ends --model bilstm --dim 16 --steps 2 --pooling last
run 0 info ends
has out '^  pooling  *last$'
run 0 test ends "$train"

# One line each: what is wrong | what is said.
while IFS='|' read -r given said; do
    # shellcheck disable=SC2086
    run "${said%% *}" train classify "$train" -o m --steps 2 $given
    has err "${said#* }"
done << 'END'
--model lstm --position none|2 --position has no effect with --model lstm
--model gru --ffn 100|2 --ffn has no effect with --model gru
--model bilstm --window 4,4|2 --window has no effect with --model bilstm
--model rnn --attention-dropout 0.1|2 --attention-dropout has no effect with --model rnn
--cell relu|2 --cell has no effect without --model rnn
--model gru --cell peepholes|2 cell=peepholes is of model=lstm or bilstm, not of gru
--model gru --forget-bias 1|2 --forget-bias has no effect with --model gru
--model lstm --forget-bias 1e9|2 forget-bias=1e9
--model lstm --pooling first|2 pooling=first: the first row of a text has seen nothing of it with model=lstm
--model lstm --pretrain 1|2 in a lstm a hidden token is told from what stands to its left alone; try model=bilstm
--model lstm --pooling mean --heads 2|2 --heads has no effect with --model lstm
--model bilstm --dim 65|2 dim=65 is odd
--causal --window 5,7|2 causal and window=5,7 contradict each other
--model tree|2 model=tree
END
finish
