# What libqkv.so exports is exactly tests/meta/symbols.txt: a new line there is a promise, a missing one breaks programs.
# After a change that is meant:  nm -D --defined-only build/release/libqkv.so | awk '{ print $3 }' | sort > tests/meta/symbols.txt
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$NM" -D --defined-only "$QKV_BUILD/libqkv.so" | awk '{ print $3 }' | sort > "$work/exported"
[ -s "$work/exported" ] || { echo "libqkv.so exports nothing"; exit 1; }
failed=0
if grep -v '^qkv_' "$work/exported"; then
    echo "exported without the prefix"
    failed=1
fi
if "$NM" -D --defined-only "$QKV_BUILD/libqkv.so" | grep -v ' T '; then
    echo "exported, and not a function"
    failed=1
fi
if ! diff -u "$QKV_SOURCE/tests/meta/symbols.txt" "$work/exported"; then
    echo "the exported symbols are not those of tests/meta/symbols.txt"
    failed=1
fi
# And what the headers declare is what is there.
cat "$QKV_SOURCE"/include/qkv/*.h | tr '\n' ' ' | grep -oE 'QKV_API [^;{]*\(' | grep -oE 'qkv_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u > "$work/declared"
if ! diff -u "$work/declared" "$work/exported" > "$work/difference"; then
    grep '^[-+]qkv' "$work/difference" | sed 's/^-/declared and not exported: /; s/^+/exported and not declared: /'
    failed=1
fi
[ $failed -eq 0 ] && echo "$(wc -l < "$work/exported") symbols"
exit $failed
