# Help, manual page, wrong use.
. "$(dirname "$0")/lib.sh"

run 2
empty out
has err 'qkv train classify TRAIN \[DEV\] -o MODEL'
run 0 help
has out 'qkv predict MODEL'
empty err
run 0 --help
run 0 --version
has out '^qkv [0-9]+\.[0-9]+\.[0-9]+$'

# A bare verb prints its options with their defaults.
run 2 train classify
empty out
has err '--layers N'
has err '--batch-tokens N .*[[0-9]+]|--batch-tokens N'
mv err bare
run 0 help train
same out bare
run 0 help train classify
same out bare
run 0 train classify --help
same out bare
run 2 train
has err '--layers N'
for name in epochs steps seed threads size layers dim heads ffn position pooling norm vocab tokenizer max-length batch-tokens lr \
    schedule warmup dropout log json; do
    has bare "^ +(-., )?--$name( |\$)"
done
for verb in test predict embed attend; do
    run 2 "$verb"
    mv err bare
    run 0 help "$verb"
    same out bare
done
run 0 help info
run 0 help bench
run 0 help help
awk 'length($0) > 100 { print; bad = 1 } END { exit bad }' bare > wide || fail "a help line is too wide: $(cat wide)"

run 2 tran
has err "did you mean 'train'"
run 2 frobnicate
has err "there is no verb 'frobnicate'"
run 2 help tran
has err "did you mean 'train'"
run 2 help train foo
has err "^qkv: train has no task 'foo'; it has: classify$"
run 2 help predict foo
has err "^qkv: predict has no tasks"
run 2 help frobnicate foo
has err "^qkv: there is no verb 'frobnicate'$"
run 2 train tag
has err "there is no task 'tag'; there is: classify"
run 2 --frobnicate
run 2 predict m --topp 3
has err 'there is no option --topp; did you mean --top'
run 2 predict m -x
has err 'there is no option -x'
run 2 predict m --top
has err '--top needs a value'
run 2 predict m --top --json
has err '--top needs a value'
run 2 predict m --top 3,5
has err '--top=3,5: expected a whole number from 0 to'
run 2 predict m --top -1
run 2 predict m --json=yes
has err '--json takes no value'
run 2 predict m f too many
has err "too many arguments: 'too'"
run 2 predict
run 2 test m
has err 'DATA are needed'
run 1 predict -- --json
has err '^qkv: --json: '
run 2 info --threads 0x2
run 2 info --threads 5000

# The manual page comes from the same tables.
run 0 help --man
mv out qkv.1
has qkv.1 '^\.TH QKV 1'
for section in NAME SYNOPSIS VERBS ENVIRONMENT 'EXIT STATUS'; do has qkv.1 "^\\.SH $section\$"; done
"$QKV" help train | grep -Eo '^ +(-., )?--[a-z0-9-]+' | sed 's/.*--//' | grep -v '^help$' > options
[ "$(lines options)" -gt 30 ] || fail "only $(lines options) options in the help"
while read -r name; do
    grep -Fq -e "\\fB\\-\\-$(printf '%s' "$name" | sed 's/-/\\-/g')\\fR" qkv.1 || fail "--$name is not in the manual page"
done < options
if command -v groff > /dev/null; then
    last="groff"
    groff -man -Tutf8 -ww qkv.1 > page 2> err || fail "groff fails"
    empty err
fi

# Who reads standard output may leave; a full or closed one is an error.
last="qkv help > /dev/full"
"$QKV" help --man > /dev/full 2> err
is "exit code with a full disk" $? 1
has err 'standard output: No space left on device'
"$QKV" --version >&- 2> err
is "exit code with standard output closed" $? 1
has err 'standard output: '
(trap '' PIPE; "$QKV" help --man 2> err; echo $? > code) | true
is "exit code when nobody reads and SIGPIPE is ignored" "$(cat code)" 141
empty err

# One instruction set can be forced; an absent one is refused with those present.
QKV_ISA=scalar run 0 attend --example
QKV_ISA=sse9 run 2 attend --example
has err '^qkv attend: QKV_ISA=sse9: no such kernels'
has err 'scalar'
QKV_ISA=sse9 run 0 help
finish
