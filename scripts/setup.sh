#!/bin/sh
# Installs what is missing, from Debian packages alone.
#
#     scripts/setup.sh build|check|full
#
#     build   what the program and the library need
#     check   and what the tests need
#     full    and what the sanitizer, clang and NEON builds of `check --full` need
#
# Says what it installs before it does. With everything there it does nothing, says nothing and asks no network. On another
# system than Debian it only looks for the commands and says what it does not find. QKV_SETUP=no skips it.
set -eu
export LC_ALL=C

build="gcc libc6-dev cmake ninja-build pkgconf libjansson-dev libutf8proc-dev zlib1g-dev"
check="g++ libcmocka-dev"
full="clang libclang-rt-14-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

case ${1:-} in
build) packages=$build ;;
check) packages="$build $check" ;;
full) packages="$build $check $full" ;;
*)
    echo "usage: $0 build|check|full" >&2
    exit 2
    ;;
esac
[ "${QKV_SETUP:-}" != no ] || exit 0

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
    for command in cc cmake ninja pkg-config; do
        if ! command -v "$command" > /dev/null; then
            echo "$0: this is not a Debian system and $command is not here; what is needed is known to Debian as: $packages" >&2
            exit 1
        fi
    done
    exit 0
fi

# One query for all of them; packages that dpkg has never heard of only make it complain. (A package may be there for
# several architectures; one is enough.)
# shellcheck disable=SC2086
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $packages 2> /dev/null | sed -n 's/ installed$//p' || true)
missing=
for package in $packages; do
    case "
$installed
" in
    *"
$package
"*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo > /dev/null; then
        echo "$0: these packages are missing, and there is neither root nor sudo to install them:$missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "installing with apt:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
    if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 "$@" > "$log" 2>&1 < /dev/null; then
        cat "$log" >&2
        echo "$0: apt-get $1 failed (its words are above)" >&2
        exit 1
    fi
}
run update
# shellcheck disable=SC2086
run install -y --no-install-recommends $missing
grep -E '^[0-9]+ upgraded' "$log" || true
