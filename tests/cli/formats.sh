# Data files of every format, several labels, pairs, and what is refused.
. "$(dirname "$0")/lib.sh"
train=$QKV_MODELS/train.tsv
dev=$QKV_MODELS/dev.tsv
one="--threads 1"
quick="--size tiny --threads 1 --steps 3 --max-length 16"

# The same rows in every format: the same model but for the name of the file, the same answers and scores.
convert() { # TSV FORMAT
    case $2 in
    tsv) cat "$1" ;;
    fasttext) awk -F '\t' '{ gsub(/ /, "_", $1); print "__label__" $1 " " $2 }' "$1" ;;
    jsonl) awk -F '\t' '{ print "{\"id\": " NR ", \"text\": \"" $2 "\", \"label\": \"" $1 "\"}" }' "$1" ;;
    csv) awk -F '\t' 'BEGIN { print "id,text,label" } { print NR ",\"" $2 "\"," $1 }' "$1" ;;
    esac
}
mkdir data
for format in tsv fasttext jsonl csv; do
    convert "$train" $format > data/rows
    convert "$dev" $format > data/dev
    run 0 train classify data/rows data/dev -o m.$format $quick --json
    has err "^format +.*guessed from line 1"
    json out data.format > /dev/null
    "$QKV" predict m.$format "$QKV_MODELS/texts.txt" --top 3 $one | tr _ ' ' > answers.$format
    same answers.$format answers.tsv
    "$QKV" predict m.$format data/dev --format $format --top 3 $one | tr _ ' ' > dev.$format
    [ $format = tsv ] || { "$QKV" predict m.tsv "$dev" --column 2 --top 3 $one > dev.expected; same dev.$format dev.expected; }
    run 0 test m.$format data/dev $one --json
    json out accuracy > score.$format
    same score.$format score.tsv
    gzip -c data/dev > data/dev.gz
    run 0 test m.$format data/dev.gz $one --json
    json out accuracy > score.gz
    same score.gz score.tsv
    run 0 train classify data/rows data/dev -o again $quick --format $format
    cmp -s again m.$format && fail "the options are recorded, so the files differ" # by the record alone:
    "$QKV" predict again "$QKV_MODELS/texts.txt" --top 3 $one | tr _ ' ' > answers.again
    same answers.again answers.tsv
done
run 0 predict m.tsv data/dev --format csv $one
is "rows of CSV" "$(lines out)" "$(lines "$dev")"

# Names of columns and fields, separators, the name of the file.
printf 'stars;review\r\n5;"so; good\r\nagain"\r\n1;bad\r\n' > reviews.csv
run 0 train classify reviews.csv -o m $quick --label-column stars --text-column review
has err '^format +CSV, separator semicolon, guessed from line 1'
run 0 predict m reviews.csv --text-column review $one
is "answers" "$(lines out)" 2
run 1 train classify reviews.csv -o m $quick
has err "reviews.csv:1: no column 'label' in the header \(it has: stars, review\); --label-column names another"
printf '{"stars": 5, "review": "good"}\n{"stars": 1, "review": "bad"}\n' > reviews.jsonl
run 0 train classify reviews.jsonl -o m $quick --label-field stars --text-field review
run 0 predict m reviews.jsonl --text-field review $one
is "answers" "$(sort out | tr '\n' ' ' | tr -dc '15 ' | wc -c | tr -d ' ')" 4
printf '@good well done\n@bad no\n' > at.txt
run 0 train classify at.txt -o m $quick --label-prefix @
has err '^classes +2: (bad|good) 1, (bad|good) 1'
printf 'text,label\nx\n' > thin.csv
run 1 test m thin.csv
has err 'thin.csv:2: 1 column, expected 2 as in the header'

# JSON rows answered one by one, as they come.
last="qkv predict on a pipe of JSON lines"
coproc P { exec "$QKV" predict "$model" --format jsonl $one 2> err; }
exec 4>&"${P[1]}" 5<&"${P[0]}"
pid=$P_PID write=${P[1]}
for word in rose leaf sea; do
    echo "{\"text\": \"$word\"}" >&4
    answer=none
    read -r -t 60 answer <&5
    case "$word $answer" in
    'rose red' | 'leaf green' | 'sea deep blue') checks=$((checks + 1)) ;;
    *) fail "the answer to $word, while the pipe is open: $answer" ;;
    esac
done
echo '{"text": 1}' >&4
eval "exec 4>&- $write>&-"
wait "$pid"
is "exit code" $? 1
has err "standard input:4: the text \(field 'text'\) is a number"

# Several labels.
awk 'BEGIN {
    split("rose leaf sea", word, " "); split("red|green|deep, blue", name, "|")
    for (i = 0; i < 400; i++) {
        labels = text = ""
        for (k = 1; k <= 3; k++) if (int(i / 2 ^ (k - 1)) % 2) { l = name[k]; sub(/,/, "\\,", l); labels = labels (labels == "" ? "" : ",") l; text = text " " word[k] }
        print labels "\tthe word" i % 5 text
    }
}' > many.tsv
run 0 train classify many.tsv many.tsv -o many --size tiny $one --epochs 30 --multi-label --lr 0.003 --log log --json
has err '^classes +3: '
has err '^note +50 rows without a label'
has err '^epoch .* micro F1 +[0-9.]+ %  macro F1'
has err '^thresholds '
at_least "micro F1" "$(json out result.micro_f1)" 0.99
grep evaluation log > evaluations
at_least "evaluations" "$(json evaluations micro_f1 | grep -c .)" 1
cut -f 2 many.tsv > texts
run 0 predict many texts $one
is lines "$(lines out)" 400
at_least "sets of labels" "$(sort -u out | lines /dev/stdin)" 8
has out 'deep\\, blue'
is "texts without a label" "$(grep -c '^$' out)" 50
paste out texts > back.tsv # what predict prints is a column of labels
run 0 test many back.tsv $one --json
is exact "$(json out accuracy)" 1.0
run 0 test many many.tsv $one
has out '^micro F1 +(99|100)'
has out '^P@1 '
has out '^R@3 +100.00 %'
has out '^50 rows without a label'
run 0 predict many texts $one --top 2
awk -F '\t' 'NF != 4 || $2 < $4 { exit 1 }' out || fail "--top 2: $(head -n 1 out)"
run 0 predict many texts $one --json
is objects "$(json out labels | lines /dev/stdin)" 400
run 0 predict many texts $one --min-probability 0 # in place of the thresholds
is "lines with all labels" "$(grep -c '^.*[^\\],.*[^\\],' out)" 400
run 0 predict many texts $one --top 3
awk -F '\t' '{ out = ""; for (i = 1; i < NF; i += 2) if ($(i + 1) >= 0.5) out = out (out == "" ? "" : "\t") $i "\t" $(i + 1); print out }' out > expected
run 0 predict many texts $one --top 3 --min-probability 0.5; same out expected
is "texts without a label" "$(grep -c '^$' out)" 50
run 0 predict many texts $one --json --min-probability 0.5
is "objects without a label" "$(grep -c '^{"labels":\[\],"probabilities":{}}$' out)" 50
run 0 info many --json
is "thresholds" "$(json out thresholds | tr , '\n' | grep -c '[0-9]')" 3
is "multi_label" "$(json out config.multi_label)" true
grep -v '^	' many.tsv > single.tsv
run 0 train classify single.tsv -o m $quick # one label: what stands before the tab
has err '^classes +7: '
hasnt err 'micro F1'

# Pairs.
awk 'BEGIN { for (i = 0; i < 40; i++) print (i % 2 ? "same" : "other") "\tone red\ttwo " (i % 2 ? "red" : "blue") }' > pairs.tsv
run 0 train classify pairs.tsv -o m $quick --pair
cut -f 2,3 pairs.tsv > two
run 0 predict m two $one
is answers "$(lines out)" 40
run 0 predict m pairs.tsv --format tsv $one; mv out expected
run 0 predict m two $one; same out expected
run 0 info m --json
is pair "$(json out config.pair)" true
run 1 test m "$dev"
has err 'dev.tsv:1: 2 columns, expected 3 \(label<TAB>text<TAB>text\)'
run 0 train classify "$train" -o m $quick --balance --normalize nfkc
run 0 info m --json
is normalize "$(json out tokenizer.normalize)" nfkc
printf '\xef\xbd\x92\xef\xbd\x8f\xef\xbd\x93\xef\xbd\x85\nrose\n' > wide # rose in full-width letters
run 0 predict m wide --top 3 $one
is "answers to full-width letters" "$(sort -u out | lines /dev/stdin)" 1

# What is cut is counted by all three.
{ printf 'red\t'; for i in $(seq 100); do printf 'rose '; done; echo; echo "red	rose"; } > long.tsv
run 0 train classify long.tsv long.tsv -o m $quick
has err 'the limit of 16 tokens cuts 1 row \(50.00 %\) and drops [0-9]+ tokens'
has err 'of the rows to evaluate on it cuts 1 row'
run 0 test m long.tsv $one
has out '^1 row longer than the model reads: cut to what it reads, [0-9]+ tokens dropped'
run 0 predict m long.tsv --column 2 $one
has err '^qkv: warning: 1 of 2 rows longer than the model reads, cut to what it reads: [0-9]+ tokens dropped'

# Refusals, with file and line.
refused() { # WHAT PATTERN OPTIONS...: standard input is the file
    cat > refused.$1
    local pattern=$2 name=refused.$1
    shift 2
    run 1 train classify "$name" -o m.none $quick "$@"
    has err "^qkv: $name$pattern"
    run 1 test "$model" "$name" $(printf '%s\n' "$@" | grep -v -e --multi-label)
    has err "^qkv: $name$pattern"
    [ ! -e m.none ] || fail "a refused training left a model"
}
: | refused tsv ': no rows, the file is empty'
printf 'label,text\n' | refused csv ': no rows, the file is empty below its header'
printf 'a\tb\n\tc\n' | refused tsv ':2: the label before the tab is empty'
printf 'a\tb\nc\n' | refused tsv ':2: 1 column, expected 2'
printf 'a\tb\n' | iconv -f UTF-8 -t UTF-16LE | refused tsv ': this is UTF-16 text \(little-endian\)'
printf 'a\tb\n' | iconv -f UTF-8 -t UTF-16 | refused tsv ': this is UTF-16 text'
head -c 4000 "$QKV" | refused bin ': this is an ELF program'
head -c 200 "$model" | refused bin ': this is a safetensors file \(a model\?\)'
printf '__label__a x\ny\n' | refused txt ':2: no label: no word begins with __label__'
printf '__label__a __label__b x\n' | refused txt ':1: 2 labels, expected 1 \(a model trained with --multi-label takes several\)'
printf '{"label": "a", "text": "x"}\n{"label": "a"\n' | refused jsonl ':2: not valid JSON: '
printf '{"label": "a", "text": "x"}\n{"text": "y"}\n' | refused jsonl ":2: no field 'label' \(there is: text\)"
printf 'label,text\na,"x\n' | refused csv ':2: the quote that opens a cell in this line is never closed'
printf '\tx\n\ty\n' > blank.tsv
run 1 train classify blank.tsv -o m.none $quick --multi-label
has err 'blank.tsv: none of the 2 rows has a label'
run 2 train classify "$train" -o m.none $quick --format text
has err 'format=text has no labels'
run 2 train classify "$train" -o m.none --format xml
has err '--format=xml: expected one of auto\|tsv\|fasttext\|jsonl\|csv\|text'
run 2 train classify "$train" -o m.none --label-separator "	"
run 2 predict "$model" "$dev" --column 2 --format csv
has err '--column is for lines of text'

# Labels that training never saw, one class, NUL and bytes that are not UTF-8.
printf '{"label": "pink", "text": "rose"}\n{"label": "red", "text": "rose"}\n' > pink.jsonl
run 0 test "$model" pink.jsonl $one
has out '^accuracy +50.00 %'
has out '^  pink  1 row'
printf '{"label": "red", "text": "ro\xffse"}\n{"label": "red", "text": "ro\\u0000se"}\n' > odd.jsonl
run 0 test "$model" odd.jsonl $one
has out '^2 rows with NUL or bytes that are not UTF-8'
run 0 predict "$model" odd.jsonl $one
has err '^qkv: warning: 2 of 2 rows with NUL or bytes that are not UTF-8'
run 0 train classify odd.jsonl odd.jsonl -o m $quick --normalize nfc
has err '2 rows with NUL or bytes that are not UTF-8, read as U\+FFFD'
has err "warning: all 2 training rows have the label 'red'"
run 0 predict m odd.jsonl --top 1 $one
is "one class" "$(sort -u out)" "$(printf 'red\t1.000000')"
printf 'label\ttext\nred\trose\n' > header.tsv
run 0 train classify header.tsv header.tsv -o m $quick
has err 'warning: header.tsv:1: read as a row, though it looks like a header'
finish
