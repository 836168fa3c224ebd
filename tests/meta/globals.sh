# The library has no mutable global state: no symbol of it, static or not, in a section that can be written to. (Constant
# tables of pointers lie in .data.rel.ro, which is read-only once the loader is done.)
set -u
found=$("$NM" --format=sysv "$QKV_BUILD/libqkv.a" |
    awk -F'|' 'NF >= 7 { name = $1; section = $7; gsub(/ /, "", name); gsub(/[ \t]/, "", section)
        if (section ~ /^(\.data|\.bss|\.tdata|\.tbss|\.lbss|\.ldata|COMMON|\*COM\*)/ && section !~ /^\.data\.rel\.ro/) print name " in " section }')
symbols=$("$NM" --format=sysv "$QKV_BUILD/libqkv.a" | grep -c '|qkv_\|^qkv_')
if [ "$symbols" -lt 10 ]; then
    echo "only $symbols symbols in libqkv.a: this test looked at nothing"
    exit 1
fi
if [ -n "$found" ]; then
    echo "mutable:"
    echo "$found"
    exit 1
fi
echo "$symbols symbols, none of them mutable"
