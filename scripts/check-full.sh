#!/bin/sh
# The whole of the tests: `./check --full`. One line for each suite, what a failing one said, and one closing line with the sums.
set -u
cd "$(dirname "$0")/.." || exit 1
scripts/setup.sh full || exit 1

logs=build/check
mkdir -p $logs
passed=0
failed=0
skipped=0
started=$(date +%s)

say() { printf '[%4d s] %s\n' $(($(date +%s) - started)) "$*"; }

# attribute NAME FILE: of ctest's <testsuite ...>
attribute() { sed -n "s/^[ \t]*$1=\"\([0-9]*\)\".*/\1/p; s/.*<testsuite.*[ \t]$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1; }

# build NAME: by its preset. A build that fails is one failure.
build() {
    if { cmake --preset "$1" && cmake --build --preset "$1"; } > "$logs/$1.build.log" 2>&1; then
        return 0
    fi
    tail -n 60 "$logs/$1.build.log"
    say "$1: the build failed; all of it is in $logs/$1.build.log"
    failed=$((failed + 1))
    return 1
}

# suite NAME ctest-arguments...
suite() {
    name=$1
    shift
    rm -f "$logs/$name.xml"
    ctest "$@" --output-junit "$PWD/$logs/$name.xml" > "$logs/$name.log" 2>&1
    code=$?
    tests=$(attribute tests "$logs/$name.xml")
    bad=$(attribute failures "$logs/$name.xml")
    away=$(($(attribute skipped "$logs/$name.xml") + $(attribute disabled "$logs/$name.xml")))
    if [ -z "$tests" ] || [ -z "$bad" ] || { [ $code -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        tail -n 60 "$logs/$name.log"
        say "$name: ctest failed with code $code"
        failed=$((failed + 1))
        return
    fi
    good=$((tests - bad - away))
    passed=$((passed + good))
    failed=$((failed + bad))
    skipped=$((skipped + away))
    [ "$bad" -eq 0 ] || cat "$logs/$name.log"
    say "$name: $good passed, $bad failed, $away skipped"
}

if build release; then
    suite release --preset release -E "^unit/kernels/neon$"
    suite neon --preset release -R "^unit/kernels/neon$" # cross-built, under qemu
fi

# Each instruction set that this CPU has, forced; the tests of floors that reach a kernel.
if [ -x build/release/qkv ]; then
    for isa in scalar avx2 avx512 neon; do
        if message=$(QKV_ISA=$isa build/release/qkv attend --example 2>&1 > /dev/null); then
            QKV_ISA=$isa suite "isa-$isa" --preset release -R "^(laws|parity|unit/(kernels|ops|layers|models|train|tasks|api))/" -E "/neon$"
        else
            say "isa-$isa: not on this machine ($(printf '%s' "$message" | head -n 1))"
        fi
    done
fi

build clang && suite clang --preset clang
build asan && suite asan --preset asan
build double && suite double --preset double
build serial && suite serial --preset serial
# Not what has no threads, and not the transcript that counts seconds.
build tsan && suite tsan --preset tsan -E "^(unit/(kernels|text|formats)/|fuzz/|meta/[ahs]|cli.signals$)"

say "$skipped skipped"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
