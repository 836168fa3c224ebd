# Slips that a reader would stumble over: open ends, addresses in scripts, flags that change numbers, names without the prefix.
set -u
cd "$QKV_SOURCE" || exit 1
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT

sources() {
    find src include cli tests bench fuzz examples -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' \) | sort
}
scripts() {
    find . -path ./.git -prune -o -path './build*' -prune -o -type f \
        \( -name '*.sh' -o -name '*.cmake' -o -name '*.in' -o -name '*.json' -o -name '*.py' -o -name '*.awk' -o -name CMakeLists.txt \
        -o -path ./demo -o -path ./check -o -path './.ci/*' \) -print | sort
}
search() { # what, pattern; file names on standard input
    xargs grep -nE -e "$2" /dev/null | sed "s|\$|    <- $1|" >> "$bad"
}
sources | search "left open" '\b(TODO|FIXME|XXX|HACK)\b|not implemented'
scripts | search "an address in a script" 'https?:/''/'
{ scripts | grep -v '^\./tests/meta/'; sources; } | search "changes numbers or needs this very machine" \
    '-(Ofast|ffast-math|funsafe-math-optimizations|march=native|mtune=native|ffp-contract=fast)|pragma.*(fp_contract|FP_CONTRACT|optimize)'
find src include -name '*.h' | sort | while IFS= read -r file; do
    guard="$(printf '%s' "${file#src/}" | sed 's|^include/||; s|^qkv/||; s|\.h$||; s|/|_|g' | tr a-z A-Z)_H"
    case $guard in QKV_*) ;; *) guard=QKV_$guard ;; esac
    grep -q "^#ifndef $guard\$" "$file" || echo "$file: the include guard is not $guard" >> "$bad"
done
sources | search "white space at the end of a line" '[ 	]+$'
find src include cli -name '*.[ch]' | sort | search "a tab" '	'

if [ -s "$bad" ]; then
    cat "$bad"
    exit 1
fi
echo "nothing found"
