# cmake --install into an empty folder; the examples built against it by pkg-config and by find_package, shared and static.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/a prefix"
"$CMAKE" --install "$QKV_BUILD" --prefix "$prefix" > "$work/log"

fail() { echo "$*"; exit 1; }
for file in bin/qkv include/qkv.h include/qkv/attention.h "$LIBDIR/libqkv.a" "$LIBDIR/libqkv.so" "$LIBDIR/pkgconfig/qkv.pc" \
    "$LIBDIR/cmake/qkv/qkvConfig.cmake" share/man/man1/qkv.1; do
    [ -s "$prefix/$file" ] || fail "not installed: $file"
done
head -n 5 "$prefix/share/man/man1/qkv.1" | grep -q '^\.TH' || fail "qkv.1 is no man page"
if grep -rlF -e "$QKV_SOURCE" -e "$QKV_BUILD" "$prefix/$LIBDIR/cmake" "$prefix/$LIBDIR/pkgconfig"; then
    fail "an installed file names the folder it was built in"
fi
"$prefix/bin/qkv" help > "$work/help" || fail "the installed program does not run"

# Moved after the installation, as a package's staging folder is.
mv "$prefix" "$work/moved"
prefix="$work/moved"
export PKG_CONFIG_PATH="$prefix/$LIBDIR/pkgconfig"
expected="$QKV_SOURCE/tests/examples/attention.txt"

# shellcheck disable=SC2046
"$CC" -std=c17 -Wall -Werror -o "$work/shared" "$QKV_SOURCE/examples/attention.c" $(pkg-config --cflags --libs qkv) -lm
LD_LIBRARY_PATH="$prefix/$LIBDIR" "$work/shared" | diff "$expected" - || fail "pkg-config, shared"
# shellcheck disable=SC2046
"$CC" -std=c17 -Wall -Werror -o "$work/static" "$QKV_SOURCE/examples/attention.c" $(pkg-config --cflags qkv) \
    $(pkg-config --static --libs qkv | sed 's/-lqkv/-l:libqkv.a/')
"$work/static" | diff "$expected" - || fail "pkg-config, static"

case $(pkg-config --cflags qkv) in *-D*) fail "pkg-config --cflags defines something: $(pkg-config --cflags qkv)" ;; esac

mkdir "$work/user"
cat > "$work/user/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(qkv 0.1 REQUIRED COMPONENTS static)
add_executable(shared "$QKV_SOURCE/examples/attention.c")
target_link_libraries(shared PRIVATE qkv::qkv m)
add_executable(static "$QKV_SOURCE/examples/attention.c")
target_link_libraries(static PRIVATE qkv::static m)
END
"$CMAKE" -G Ninja -S "$work/user" -B "$work/user/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" > "$work/log" 2>&1 ||
    { cat "$work/log"; fail "find_package"; }
"$CMAKE" --build "$work/user/build" > "$work/log" 2>&1 || { cat "$work/log"; fail "building with find_package"; }
for kind in shared static; do
    "$work/user/build/$kind" | diff "$expected" - || fail "find_package, $kind"
done

# A project that is C++ alone.
if [ "$CXX" != none ]; then
    mkdir "$work/cxx"
    cat > "$work/cxx/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
find_package(qkv 0.1 REQUIRED COMPONENTS static)
set_source_files_properties("$QKV_SOURCE/examples/attention.c" PROPERTIES LANGUAGE CXX)
foreach(kind shared static)
  add_executable(\${kind} "$QKV_SOURCE/examples/attention.c")
endforeach()
target_link_libraries(shared PRIVATE qkv::qkv)
target_link_libraries(static PRIVATE qkv::static)
END
    "$CMAKE" -G Ninja -S "$work/cxx" -B "$work/cxx/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$CXX" > "$work/log" 2>&1 ||
        { cat "$work/log"; fail "find_package, C++ alone"; }
    "$CMAKE" --build "$work/cxx/build" > "$work/log" 2>&1 || { cat "$work/log"; fail "building with find_package, C++ alone"; }
    for kind in shared static; do
        "$work/cxx/build/$kind" | diff "$expected" - || fail "find_package, C++ alone, $kind"
    done
fi
echo "installed, moved, and used by pkg-config and find_package, from C and C++"
