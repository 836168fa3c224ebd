# The model that the other transcripts use, and that a plain training says what it should.
. "$(dirname "$0")/lib.sh"
mkdir -p "$QKV_MODELS"
data 500 7 > "$QKV_MODELS/train.tsv"
data 120 99 > "$QKV_MODELS/dev.tsv"
cut -f 2 "$QKV_MODELS/dev.tsv" > "$QKV_MODELS/texts.txt"
rm -f "$model"

run 0 train classify "$QKV_MODELS/train.tsv" "$QKV_MODELS/dev.tsv" -o "$model" --size tiny --epochs 5 --threads 1 --max-length 24
empty out
has err '^rows +500 to train on, 120 to evaluate on$'
hasnt err 'held out'
has err '^classes +3: (red|green|deep blue) [0-9]+, (red|green|deep blue) [0-9]+, (red|green|deep blue) [0-9]+$'
has err '^tokens +[0-9,]+ to train on; a row has [0-9]+ to [0-9]+, median [0-9]+; vocabulary [0-9,]+$'
has err '^length +the limit of 24 tokens cuts '
has err '^model +1 layer, dim 64, 2 heads'
has err '^parameters +[0-9,]+, [0-9,]+ of them embeddings$'
has err '^memory +[0-9.]+ [kM]B planned'
has err '^steps +[0-9,]+, [0-9,]+ an epoch; [0-9.]+ [MG]FLOP each'
has err 'epoch +5\.00 +step +[0-9]+ +dev loss +0\.[0-9]+ +accuracy +[0-9.]+ % +macro F1 +[0-9.]+ %'
has err '^done +[0-9,]+ steps in '
has err 'qkv predict .*/model FILE'
run 0 test "$model" "$QKV_MODELS/dev.tsv" --json --threads 1
at_least "accuracy on rows it has not seen" "$(json out accuracy)" 0.95
finish
