# A file can be read in one sitting: 700 lines at most, and no line (lists of macros
# excepted) that runs out of every window.
set -u
cd "$QKV_SOURCE" || exit 1
find src include cli tests bench fuzz examples cmake scripts -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.sh' -o -name '*.py' -o -name '*.awk' -o -name '*.cmake' \) | sort |
    xargs awk '
        FNR == 1 { files++ }
        FNR == 701 { print FILENAME ": more than 700 lines"; bad = 1 }
        length($0) > 160 && !/\\$/ && FILENAME ~ /\.(c|h|inc)$/ { print FILENAME ":" FNR ": " length($0) " columns"; bad = 1 }
        END { if (!bad) print files " files"; exit bad }'
