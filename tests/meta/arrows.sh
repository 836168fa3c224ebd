# Who may include whom, and which room owns what (docs/architecture.md). Prints every line that breaks a rule.
set -u
cd "$QKV_SOURCE" || exit 1
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT

# Floors that the files of a floor may include headers of, besides its own. Public headers (qkv/...) are for everybody.
below() {
    case $1 in
    base) echo ;;
    kernels | text | formats) echo base ;;
    data) echo base text formats ;;
    ops) echo base kernels ;;
    layers) echo base ops ;;
    models) echo base ops layers text formats data ;;
    train) echo base ops layers models text formats data ;;
    report) echo base ops layers models text formats data ;;
    tasks) echo base ops layers models train text formats data report ;;
    bench) echo base ops layers models train tasks text formats data report kernels ;;
    compare) echo base ops layers models train tasks bench text formats data report ;;
    api) echo base ops layers models train tasks bench compare text formats data report kernels ;;
    *) echo "?" ;;
    esac
}
# kernels/ is called by ops alone. api makes the context, so it sees the choice of the table (kernels/pick.h); bench measures
# the machine, with the kernels that exist for measuring (bench/ceilings.c).

for room in src/*/; do
    floor=${room#src/}
    floor=${floor%/}
    allowed=" $floor qkv $(below "$floor") "
    case $allowed in *"?"*) echo "$room: a floor that tests/meta/arrows.sh does not know" >> "$bad" ;; esac
    find "$room" -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' \) | sort | while IFS= read -r file; do
        sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$file" | while IFS= read -r header; do
            case $header in
            ../*) echo "$file: includes \"$header\": no way up, please" ;;
            */*)
                case $allowed in
                *" ${header%%/*} "*) ;;
                *) echo "$file: $floor must not include \"$header\"" ;;
                esac
                ;;
            esac
        done
    done
done >> "$bad"

# rule FILES... : PATTERN : what it says
search() {
    what=$1
    pattern=$2
    shift 2
    grep -nE "$pattern" "$@" /dev/null | sed "s|\$|    <- $what|" >> "$bad"
}
outside() { # files of src outside of a folder or file
    find src -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' \) ! -path "$1" | sort
}

# shellcheck disable=SC2046
search "intrinsics outside kernels" \
    '#[ \t]*include[ \t]*<([a-z0-9]*mmintrin|immintrin|arm_[a-z]*|x86intrin)\.h>|\b_mm[0-9]*_|\bv(ld1|st1|fma)q?_|__builtin_ia32_|__attribute__ *\(\((target|vector_size)' \
    $(outside 'src/kernels/*') $(find cli -name '*.[ch]')
# shellcheck disable=SC2046
search "threads outside base/par.c" '#[ \t]*pragma[ \t]+omp|<(omp|pthread|threads|stdatomic)\.h>|\b_Atomic\b' $(outside src/base/par.c) $(find cli -name '*.[ch]')
# shellcheck disable=SC2046
search "opens or changes files outside base/file.c" \
    '\b(fopen|fdopen|freopen|open|openat|creat|mkstemp|mkostemp|gzopen|opendir|rename|unlink|remove|tmpfile|json_load_file|json_dump_file) *\(' \
    $(outside src/base/file.c)
# shellcheck disable=SC2046
search "a call of the kernel table outside ops" '(->|\.)kernels *->' $(outside 'src/kernels/*' | grep -v -e '^src/ops/' -e '^src/bench/ceilings' -e '^src/api/machine')
# shellcheck disable=SC2046
search "the library prints, exits, aborts or jumps" \
    '\b(printf|puts|putchar|vprintf|exit|_exit|abort|longjmp|setjmp|perror) *\(|\bf(printf|puts|write)[ (].*\b(stdout|stderr)\b' \
    $(outside none)

# The program and the examples know the public headers only.
find cli examples -name '*.[ch]' | sort | while IFS= read -r file; do
    grep -nE '^[ \t]*#[ \t]*include' "$file" | while IFS= read -r line; do
        case $line in
        *'"base/'* | *'"kernels/'* | *'"ops/'* | *'"layers/'* | *'"models/'* | *'"train/'* | *'"tasks/'* | *'"text/'* | *'"data/'* | \
            *'"formats/'* | *'"api/'* | *'"bench/'* | *'"compare/'* | *'"report/'* | *'../'*)
            echo "$file:$line    <- public headers only"
            ;;
        esac
    done
done >> "$bad"

# Public headers stand on each other and on the C library.
grep -nE '^[ \t]*#[ \t]*include' include/qkv.h include/qkv/*.h | grep -vE '<std(int|def|bool)\.h>|"(qkv/)?[a-z]+\.h"' | sed 's/$/    <- in a public header/' >> "$bad"

if [ -s "$bad" ]; then
    cat "$bad"
    exit 1
fi
echo "the arrows hold"
