# What the files were really compiled with: no flag that changes numbers, wide instructions for the tables of kernels only.
set -u
commands=$QKV_BUILD/compile_commands.json
[ -f "$commands" ] || { echo "no $commands"; exit 1; }
failed=0
grep '"command"' "$commands" > /dev/null || { echo "no commands in $commands"; exit 1; }
if grep '"command"' "$commands" | grep -E -e ' -(Ofast|ffast-math|funsafe-math-optimizations|march=native|mtune=native|ffinite-math-only|fassociative-math|freciprocal-math|flto)'; then
    echo "a flag that the rules of numbers forbid"
    failed=1
fi
if grep '"command"' "$commands" | grep -v -e '-ffp-contract=off'; then
    echo "compiled without -ffp-contract=off"
    failed=1
fi
if grep '"command"' "$commands" | grep -E -e ' -m(avx|fma|sse4|f16c|arch=)' | grep -vE '/(isa|test_simd)_[a-z0-9_]*\.c'; then
    echo "wide instructions outside the tables of kernels: the program would not start on an older CPU"
    failed=1
fi
if grep '"command"' "$commands" | grep -E -e '-fopenmp'; then
    echo "OpenMP: its threads spin for milliseconds where they wait; base/par.c has its own"
    failed=1
fi
[ $failed -eq 0 ] && echo "the flags are right"
exit $failed
