# --memory: what is measured stays below what was asked for; refusals say what would fit, and it does. --recompute.
. "$(dirname "$0")/lib.sh"

# 600 rows of three lengths
awk 'BEGIN {
    srand(7)
    for (i = 0; i < 600; i++) {
        n = i % 3 == 0 ? 120 : i % 3 == 1 ? 40 : 8
        printf "%s\t%s", i % 2 ? "even" : "odd", i % 2 ? "left" : "right"
        for (k = 0; k < n; k++) printf " w%d", int(rand() * 900)
        printf "\n"
    }
}' > train.tsv
some="--layers 2 --dim 64 --steps 1 --max-length 160 --evaluate 0 --threads 2"

# trained LIMIT: with that limit; leaves `summary`, `peak`, `model`
trained() {
    checks=$((checks + 1))
    last="qkv train classify train.tsv -o model $some --json --memory $1"
    "$QKV_PEAK" peak "$QKV" train classify train.tsv -o model $some --json --memory "$1" > out 2> err || fail "exit code $?"
    cp out summary
}

trained 0
whole=$(json summary plan.bytes)
is "as asked" "$(json summary plan.piece_tokens) $(json summary plan.recompute)" "0 false"
hasnt err 'pieces of|computed again'
cp model asked

# The resident size of a program under a sanitizer says nothing.
[ -n "${QKV_SANITIZED:-}" ] || [ "$(cat peak)" -le "$whole" ] || fail "planned $whole, measured $(cat peak)"
limits=0
for share in 97 75 58; do
    limit=$((whole * share / 100))
    trained $limit
    at=$(json summary plan.bytes)
    [ "$at" -le $limit ] || fail "limit $limit, planned $at"
    is "the limit" "$(json summary plan.limit)" $limit
    [ -n "${QKV_SANITIZED:-}" ] || [ "$(cat peak)" -le "$at" ] || fail "limit $limit, planned $at, measured $(cat peak)"
    has err '^memory .* planned, .* of it activations; batches (in pieces of [0-9,]+ tokens|row by row)|computed again .*more operations'
    [ "$(json summary plan.piece_tokens)" -gt 0 ] && limits=$((limits + 1))
done
at_least "limits that pieces met" $limits 2

# The same limit gives the same bytes, for any number of threads; recomputation changes none.
cp model once
# shellcheck disable=SC2086
run 0 train classify train.tsv -o again $some --threads 1 --memory $limit
same once again
# shellcheck disable=SC2086
run 0 train classify train.tsv -o again $some --recompute blocks --json
is "recomputed" "$(json out plan.recompute)" true
has err 'of it activations; blocks computed again \([0-9]+ % more operations\)$'
"$QKV" predict asked train.tsv > one 2> /dev/null
"$QKV" predict again train.tsv > out 2> /dev/null
same one out
for way in sqrt attention pointwise "blocks --recompute-every 2" "none --ffn-chunk 64" "attention --ffn-chunk 200"; do
    # shellcheck disable=SC2086
    run 0 train classify train.tsv -o again $some --recompute $way --json
    "$QKV" predict again train.tsv > out 2> /dev/null
    same one out
done

# A reversible network needs less, tells how well it rebuilt, and is one for good.
# shellcheck disable=SC2086
run 0 train classify train.tsv -o turned $some --layers 6 --reversible --json
has err '^reversible +rows were rebuilt to within [0-9.e-]+ of the largest number in them$'
turned=$(json out plan.activation_bytes)
# shellcheck disable=SC2086
run 0 train classify train.tsv -o again $some --layers 6 --recompute none --json
[ "$turned" -lt $(($(json out plan.activation_bytes) / 2)) ] || fail "a reversible network planned $turned"
run 0 predict turned train.tsv

# A refusal: nothing is written, and what it offers fits.
# shellcheck disable=SC2086
run 1 train classify train.tsv -o none $some --ngrams 0 --memory 13M
has err 'training needs [0-9.]+ MB of memory \((row by row|in pieces of [0-9]+ tokens) with recomputation, .* --memory allows 13\.6 MB; would fit: --memory [0-9]+M'
[ -e none ] && fail "a model was written"
offer=$(sed -n 's/.*would fit: --memory \([0-9]*M\).*/\1/p' err)
# shellcheck disable=SC2086
run 0 train classify train.tsv -o none $some --ngrams 0 --memory "$offer"

# Also where the longest row is longer than half a batch, so that no piece is looked at and every row stands alone.
awk 'BEGIN { srand(5); for (i = 0; i < 40; i++) { printf "%s\t", i % 2 ? "even" : "odd"; for (k = 0; k < 30 * (i + 1); k++) printf "w%d ", rand() * 90; print "" } }' > uneven.tsv
alone="--layers 4 --dim 64 --heads 2 --vocab 400 --epochs 1 --max-length 2300 --batch-tokens 4400 --pattern local --threads 2"
# shellcheck disable=SC2086
run 1 train classify uneven.tsv -o none $alone --ngrams 0 --memory 20M
offer=$(sed -n 's/.*would fit: --memory \([0-9]*M\).*/\1/p' err)
# shellcheck disable=SC2086
run 0 train classify uneven.tsv -o none $alone --ngrams 0 --memory "$offer" --json
is "every row alone" "$(json out plan.piece_tokens)" 1

# A run goes on within the same limit, with the same bits.
# shellcheck disable=SC2086
run 0 train classify train.tsv -o whole $some --steps 8 --memory $limit
"$QKV" train classify train.tsv -o part $some --steps 8 --memory $limit --checkpoint 0.000001 > out 2> err &
pid=$!
for i in $(seq 600); do [ -s part.resume ] && break; sleep 0.02; done
kill -KILL $pid
wait $pid 2> /dev/null
[ -s part.resume ] || fail "no checkpoint after kill -9"
# shellcheck disable=SC2086
run 2 train classify train.tsv -o part $some --steps 8 --resume
has err 'cannot be continued: of options memory it had "[0-9]+", this one has "0"'
# shellcheck disable=SC2086
run 0 train classify train.tsv -o part $some --steps 8 --memory $limit --resume
same whole part

# What comes before the plan is told beside it, where it is more, and held to the limit, too.
awk 'BEGIN { srand(3); for (i = 0; i < 4000; i++) { printf "%s\t", i % 2 ? "even" : "odd"; for (k = 0; k < 40; k++) printf "w%d ", rand() * 8000; print "" } }' > words.tsv
checks=$((checks + 1))
last="qkv train classify words.tsv, its peak"
"$QKV_PEAK" peak "$QKV" train classify words.tsv -o model --dim 16 --heads 1 --ngrams 4 --steps 1 --evaluate 0 --threads 1 --batch-tokens 256 --vocab 1000 --json > out 2> err || fail "exit code $?"
before=$(json out plan.before_bytes)
[ "$before" -gt "$(json out plan.bytes)" ] || fail "the linear model took $before bytes"
has err '^memory .*; reading and the linear model took [0-9.]+ MB$'
[ -n "${QKV_SANITIZED:-}" ] || [ "$(cat peak)" -le "$before" ] || fail "said $before, measured $(cat peak)"
# Wherever a limit that is far too small is reached, what is offered is enough for the training, too.
for limits in 'words.tsv 9 reading the rows' 'words.tsv 16 learning the (linear model .--ngrams 0 leaves it out.|tokenizer)' 'train.tsv 9 learning the tokenizer'; do
    read -r file limit doing <<< "$limits"
    run 1 train classify "$file" -o x --steps 1 --evaluate 0 --memory "${limit}M"
    has err "^qkv: --memory allows [0-9.]+ MB, and $doing takes [0-9.]+ MB or more, the training then (about |[0-9.]+ MB to )[0-9.]+ MB \\(--memory [0-9]+M; less"
    offer=$(sed -n 's/.*(--memory \([0-9]*\)M;.*/\1/p' err)
    least=$(sed -n 's/.* the training then [a-z ]*\([0-9]*\).*/\1/p' err)
    run 0 train classify "$file" -o x --steps 1 --evaluate 0 --memory "${offer}M"
    run 1 train classify "$file" -o x --steps 1 --evaluate 0 --memory "$((least * 85 / 100))M"
done
for kind in "--segment words --segment-layers 2 --multi-label" "--model lstm --tokenizer byte"; do
    # shellcheck disable=SC2086
    run 1 train classify train.tsv -o x --dim 256 $kind --memory 9M
    has err ', the training then (about |[0-9.]+ MB to )[0-9.]+ MB \(--memory [0-9]+M; less with a smaller --dim(, --vocab)?, --ngrams or --max-length\)$'
done
# Tokens that are global count, though nobody knows yet which ones there are: what is offered is enough where all are.
awk 'BEGIN { for (i = 0; i < 40; i++) { printf "%s\t", i % 2 ? "even" : "odd"; for (k = 0; k < 300; k++) printf "w "; print "\tx" } }' > pairs.tsv
for kind in "--global-at 5" "--global-token w" "--global-question"; do
    # shellcheck disable=SC2086
    run 1 train classify pairs.tsv -o x --pair --tokenizer byte --dim 64 --steps 1 --evaluate 0 --max-length 450 --batch-tokens 512 --window 8,8 $kind --ngrams 0 --memory 5M
    has err ', the training then [0-9.]+ MB to [0-9.]+ MB \(--memory [0-9]+M; less'
    offer=$(sed -n 's/.*(--memory \([0-9]*\)M;.*/\1/p' err)
    # shellcheck disable=SC2086
    run 0 train classify pairs.tsv -o x --pair --tokenizer byte --dim 64 --steps 1 --evaluate 0 --max-length 450 --batch-tokens 512 --window 8,8 $kind --ngrams 0 --memory "${offer}M"
done
# A limit of length far beyond the texts says nothing of what they take.
run 1 train classify train.tsv -o x --position none --max-length 16000000 --memory 9M
has err ', the training then [0-9.]+ MB to [0-9]{2,3}\.[0-9] MB \(--memory [0-9]+M;'
# Where what comes before is more, nothing is said of the training.
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "%s\tw%d w%d w%d w%d w%d\n", i % 2 ? "even" : "odd", i % 7, i % 11, i % 13, i % 5, i % 3 }' > many.tsv
run 1 train classify many.tsv -o x --dim 8 --heads 1 --vocab 300 --max-length 8 --ngrams 0 --memory 13M
has err '^qkv: --memory allows 13\.6 MB, and reading the rows takes [0-9.]+ MB or more \(--memory [0-9]+M\)$'

run 2 train classify train.tsv -o x --memory 2GB
has err '--memory=2GB: expected a size from 0 to 1024T: bytes, or a number and k, M, G or T \(k: 1024 bytes\)'
run 2 train classify train.tsv -o x --memory -1
run 2 train classify train.tsv -o x --recompute yes
has err 'recompute=yes: expected one of none\|blocks\|sqrt\|attention\|pointwise\|auto'
run 2 train classify train.tsv -o x --recompute-every 2
has err '--recompute-every has no effect without --recompute blocks$'
run 2 train classify train.tsv -o x --reversible --recompute blocks
has err '--recompute has no effect with --reversible$'
run 2 train classify train.tsv -o x --reversible --norm-place post
has err 'reversible: .* norm-place=pre or sandwich and residual=plain, not post and plain'
finish
