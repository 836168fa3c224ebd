# Every public header compiles alone, as C17 and as C++17, without a warning; so do all of them together, twice.
set -u
cd "$QKV_SOURCE" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for header in include/qkv.h include/qkv/*.h; do
    name=${header#include/}
    printf '#include "%s"\n#include "%s"\nint qkv_header_alone(void);\nint qkv_header_alone(void) { return 0; }\n' "$name" "$name" > "$work/x.c"
    cp "$work/x.c" "$work/x.cc"
    "$CC" -std=c17 -pedantic-errors -Wall -Wextra -Werror -Wstrict-prototypes -Iinclude -fsyntax-only "$work/x.c" || failed=1
    if [ "$CXX" != none ]; then
        "$CXX" -std=c++17 -pedantic-errors -Wall -Wextra -Werror -Iinclude -fsyntax-only "$work/x.cc" || failed=1
    fi
    # A function or object that is not marked QKV_API would be hidden in the shared library.
    if grep -nE '^[a-z][a-z0-9_ *]* \**qkv_[a-z0-9_]+ *\(' "$header" | grep -vE ':(QKV_API|typedef|static inline) '; then
        echo "$header: declared without QKV_API"
        failed=1
    fi
    if grep -nE '^[ \t]*#[ \t]*define[ \t]+' "$header" | grep -vE 'define[ \t]+QKV_'; then
        echo "$header: a macro without the prefix"
        failed=1
    fi
done
# The headers' idea of the version is the build's.
for part in MAJOR MINOR PATCH; do
    sed -n "s/^#define QKV_VERSION_$part \([0-9]*\)\$/\1/p" include/qkv/base.h
done | tr '\n' . | sed 's/\.$//' > "$work/version"
if ! grep -q "^project(qkv VERSION $(cat "$work/version") " CMakeLists.txt; then
    echo "include/qkv/base.h says $(cat "$work/version"), CMakeLists.txt something else"
    failed=1
fi
[ "$CXX" != none ] || echo "no C++ compiler here: only C17 was tried"
[ $failed -eq 0 ] && echo "every header stands alone"
exit $failed
