# Each object of kernels exports one table and nothing else, so that no function compiled for a newer CPU can be the one the
# linker picks for everybody.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$QKV_BUILD" -name 'isa_*.o' | sort > "$work/objects"
[ -s "$work/objects" ] || { echo "no objects of kernels in $QKV_BUILD"; exit 1; }
failed=0
while IFS= read -r object; do
    isa=$(basename "$object" | sed 's/\..*//; s/^isa_//')
    symbols=$("$NM" --defined-only --extern-only "$object" | awk '{ print $2 " " $3 }')
    case $symbols in
    "R qkv_kernels_$isa" | "D qkv_kernels_$isa") ;;
    "B qkv_counted
D qkv_kernels_count") ;; # the counting one, for tests only, counts into a global
    *)
        echo "$object exports, instead of the one constant table qkv_kernels_$isa:"
        echo "$symbols"
        failed=1
        ;;
    esac
    [ "$isa" = bf16_count ] && counter='^qkv_counted$' || counter='^$' # counts into the global of the other one
    # A table may stand on the C library alone, and there on what is exact (the double build is not looked at here).
    foreign=$("$NM" --undefined-only "$object" | awk '{ print $2 }' | grep -vE -e "$counter" -e '^(memcpy|memset|memmove|memcmp|sqrtf?|fmaf?|ldexpf?|ceilf?|floorf?|truncf?|rintf?|nearbyintf?|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail)$')
    if [ -n "$foreign" ]; then
        echo "$object needs: $foreign"
        failed=1
    fi
done < "$work/objects"
[ $failed -eq 0 ] && echo "$(wc -l < "$work/objects") objects, one table each"
exit $failed
